"""A model with its preparation takes rows as a file has them: arrays and data frames alike."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import mercer
from mercer import PCA, KernelPCA, KernelPCADetector
from mercer.data.table import Chunk
from mercer.errors import InputError
from mercer.estimators.prepared import Prepared
from mercer.kernels import RBF
from mercer.persistence.model_file import read_header
from mercer.preprocessing.preparation import Preparation

NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def raw():
    rng = np.random.default_rng(0)
    return rng.standard_normal((60, 3)) * [1.0, 100.0, 0.01] + [5.0, -3.0, 1e3]


@pytest.fixture(scope="module")
def scaler(raw):
    return StandardScaler().fit(raw)


@pytest.fixture(scope="module")
def scaled(scaler):
    return Preparation(NAMES, center=scaler.mean_, spread=scaler.scale_)


@pytest.fixture(scope="module")
def prepared(raw, scaler, scaled):
    model = KernelPCA(20, kernel=RBF(0.1), preimage="ridge").fit(scaler.transform(raw))
    return Prepared(scaled, model)


def test_it_is_scikit_learns_scaler_before_the_model(prepared, scaler, raw):
    inner = scaler.transform(raw)
    assert np.array_equal(prepared.transform(raw), prepared.model.transform(inner))
    assert np.array_equal(
        prepared.reconstruction_error(raw), prepared.model.reconstruction_error(inner)
    )
    back = scaler.inverse_transform(prepared.model.reconstruct(inner))
    np.testing.assert_allclose(prepared.reconstruct(raw), back, rtol=1e-13)
    scores = prepared.transform(raw)
    np.testing.assert_allclose(prepared.inverse_transform(scores), back, rtol=1e-13)


def test_frames_are_matched_by_name_and_may_hold_more(prepared, raw):
    columns = {"c": raw[:, 2], "other": ["x"] * 60, "a": raw[:, 0], "b": raw[:, 1]}
    here = prepared.transform(raw)
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        assert np.array_equal(prepared.transform(frame), here)


FRAMES = {
    "pandas": lambda frame: frame,
    "polars": pl.DataFrame,
    "Arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_columns_of_frames_that_do_not_serve_are_named_with_what_to_do(kind, prepared, raw):
    frame, make = pd.DataFrame(raw, columns=["a", "b", "c"]), FRAMES[kind]
    with pytest.raises(InputError, match=r"named 'b'; got 0\. Did you mean 'B'\?"):
        prepared.transform(make(frame.rename(columns={"b": "B"})))
    with pytest.raises(InputError, match=r"no numbers: 'b' \(.*\)\. Convert them") as caught:
        prepared.transform(make(frame.assign(b="x")))
    assert "columns=" not in str(caught.value)  # which `transform` does not have


def test_categories_are_one_hot_as_in_scikit_learn(raw):
    words = np.array(["red", "blue", "green"] * 20)
    hot = OneHotEncoder(sparse_output=False).fit_transform(words[:, None])
    levels = (("colour", ("blue", "green", "red")),)
    preparation = Preparation(NAMES, categories=levels)
    model = PCA(2).fit(np.hstack([raw, hot]))
    found = Prepared(preparation, model)
    columns = {"colour": words, **{name: raw[:, j] for j, name in enumerate(NAMES)}}
    expected = model.transform(np.hstack([raw, hot]))
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        assert np.array_equal(found.transform(frame), expected)
    with pytest.raises(InputError, match=r"must be a data frame, .* Pass a frame"):
        found.transform(raw)
    for missing in (None, float("nan"), pd.NA):
        frame = pd.DataFrame({**columns, "colour": pd.Series([*words[:-1], missing], dtype=object)})
        with pytest.raises(InputError, match="a missing value"):
            found.transform(frame)


def test_missing_numbers_are_filled_or_refused(prepared, scaled, raw):
    holed = raw.copy()
    holed[3, 1] = np.nan
    with pytest.raises(InputError, match="1 value is missing"):
        prepared.transform(holed)
    fills = np.array([0.0, 7.0, 0.0])
    filling = Prepared(
        Preparation(NAMES, fills=fills, center=scaled.center, spread=scaled.spread), prepared.model
    )
    whole = np.where(np.isnan(holed), fills, holed)
    assert np.array_equal(filling.transform(holed), prepared.transform(whole))


def test_a_detector_is_asked_in_raw_rows_and_answers_with_names(raw):
    detector = KernelPCADetector(random_state=0).fit(raw)
    found = Prepared(Preparation(NAMES), detector)
    odd = np.vstack([raw, np.add(raw[:1], [0.0, 0.0, 5.0])])
    assert np.array_equal(found.predict(odd), detector.predict(odd))
    assert np.array_equal(found.decision_function(odd), detector.decision_function(odd))
    assert np.array_equal(found.contributions(odd), detector.contributions(odd))
    seen = found.monitor(odd, top=1)
    assert seen.names == NAMES
    assert seen.alarms["top"][-1].startswith("c ")
    with pytest.raises(
        InputError,
        match=r"KernelPCADetector has no `.*`\. It has predict, .*monitor, stream, events\.",
    ):
        found.transform(raw)


def test_float32_stays(prepared, raw):
    single = Prepared(Preparation(NAMES), PCA(2).fit(raw.astype(np.float32)))
    assert single.transform(raw.astype(np.float32)).dtype == np.float32
    assert prepared.transform(raw.astype(np.float32)).dtype == np.float64  # that of the fit


@pytest.mark.parametrize("rows", [np.zeros((2, 2)), np.zeros(3), [["a", "b", "c"]], "data.csv"])
def test_rows_that_do_not_fit_are_refused(prepared, rows):
    with pytest.raises(ValueError):  # noqa: PT011  (scikit-learn's words, or ours)
        prepared.transform(rows)


def test_it_is_kept_in_one_file(prepared, raw, tmp_path):
    prepared.save(tmp_path / "model.mercer", about={"by": "me"})
    assert read_header(tmp_path / "model.mercer")["about"] == {"by": "me"}
    again = mercer.load(tmp_path / "model.mercer")
    assert isinstance(again, mercer.Prepared)
    assert again.preparation.features == NAMES
    assert np.array_equal(again.transform(raw), prepared.transform(raw))
    assert np.array_equal(again.reconstruct(raw), prepared.reconstruct(raw))
    assert list(again.get_feature_names_out())[:2] == ["kernelpca0", "kernelpca1"]


def test_a_prepared_detector_answers_by_times():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 2))
    time = 60.0 * np.arange(200) + 3600.0 * (np.arange(200) // 50)
    scaled = Preparation(numbers=("a", "b"), center=x.mean(axis=0), spread=x.std(axis=0))
    detector = KernelPCADetector(1, lags=2).fit(scaled(Chunk(0, x, {})), time=time)
    prepared = Prepared(scaled, detector)
    seen = prepared.monitor(x, time).table
    assert np.array_equal(prepared.predict(x, time) == -1, seen["alarm"])
    for ask in (prepared.decision_function, prepared.p_values):
        assert np.array_equal(np.isfinite(ask(x, time=time)), seen["judged"])
        assert np.isfinite(ask(x)).sum() == 198
    blame = prepared.contributions(x, time=time)
    assert np.array_equal(np.isfinite(blame).all(axis=1), seen["judged"])
