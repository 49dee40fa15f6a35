"""Pipelines of scikit-learn around a model: kept like the model itself, and the way out of a `Prepared`."""

import json
import warnings
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

import mercer
from markets.commands import good, run
from mercer import PCA, KernelPCA, KernelPCADetector, Prepared
from mercer._core import container
from mercer.data.table import Reading
from mercer.diagnostics import gradients, importance
from mercer.errors import InputError, ModelFileError, ReadingWarning
from mercer.kernels import RBF
from mercer.persistence.model_file import load, opened, save
from mercer.preprocessing.lines import LineReader
from mercer.preprocessing.preparation import Preparation

pytestmark = pytest.mark.filterwarnings("ignore::mercer.errors.MercerWarning")

RNG = np.random.default_rng(2)
X = RNG.standard_normal((60, 3)) * [1.0, 10.0, 100.0]
GAPPY = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
FRAME = pd.DataFrame(GAPPY, columns=list("abc")).assign(
    colour=RNG.choice(["red", "blue", "grün"], 60), size=RNG.choice([1, 2, 3], 60)
)
NUMBERS, WORDS = ["a", "b", "c"], ["colour", "size"]
NAMED = FRAME[["size"]].assign(a=X[:, 0])
RANKED = (OrdinalEncoder(), ["colour"])
COMPLETED = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["colour"]
NAMELESS = make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder())
FILLED = make_pipeline(SimpleImputer(), StandardScaler())


def columns(*parts, **how):
    return make_column_transformer((FILLED, NUMBERS), *parts, **how)


PIPELINES = {
    "scaler": (make_pipeline(StandardScaler(), KernelPCA(2)), X),
    "scaler of float32": (make_pipeline(StandardScaler(), KernelPCA(2)), X.astype(np.float32)),
    "imputer": (make_pipeline(SimpleImputer(), RobustScaler(), KernelPCA(2, preimage="ridge")), GAPPY),
    "constant": (make_pipeline(SimpleImputer(strategy="constant", fill_value=2), PCA(2)), GAPPY),
    "words, a constant": (make_pipeline(columns((NAMELESS, ["colour"])), PCA(2)), FRAME),
    "one word left out": (make_pipeline(columns((OneHotEncoder(drop="first"), ["colour"])), PCA(2)), FRAME),
    "indicator": (make_pipeline(SimpleImputer(add_indicator=True), PCA(2)), GAPPY),
    "drop-in": (make_pipeline(MinMaxScaler(), mercer.sklearn.KernelPCA(2, kernel="rbf")), X),
    "detector": (make_pipeline(MaxAbsScaler(), KernelPCADetector(random_state=0)), X),
    "frame": (make_pipeline(StandardScaler().set_output(transform="pandas"), PCA(2)), NAMED),
    "one-hot": (make_pipeline(columns((OneHotEncoder(), WORDS), sparse_threshold=0), PCA(2)), FRAME),
    "sparse one-hot": (make_pipeline(make_column_transformer((OneHotEncoder(), WORDS)), PCA(2)), FRAME),
    "ordinal": (make_pipeline(columns(RANKED, remainder="passthrough"), KernelPCA(2)), FRAME),
    "words filled": (make_pipeline(columns(COMPLETED), KernelPCA(2, kernel=RBF(0.1))), FRAME),
    "passthrough": (make_pipeline("passthrough", PCA(2)), X),
    "pipeline in a pipeline": (make_pipeline(FILLED, make_pipeline(StandardScaler(), PCA(2))), GAPPY),
}  # fmt: skip


@pytest.fixture(params=PIPELINES)
def market(request):
    model, rows = PIPELINES[request.param]
    return model.fit(rows), rows


def answers(model, rows):
    asked = ("predict", "decision_function") if hasattr(model, "predict") else ("transform",)
    return {name: getattr(model, name)(rows) for name in asked}


def test_a_loaded_pipeline_answers_to_the_last_bit(market, tmp_path):
    model, rows = market
    save(model, tmp_path / "m.mercer")
    for mmap in (False, True):
        again, header = opened(tmp_path / "m.mercer", mmap=mmap)
        assert repr(again) == repr(model)
        for name, answer in answers(model, rows).items():
            np.testing.assert_array_equal(answers(again, rows)[name], answer, strict=True)
    assert header["prepared"]
    assert mercer.ModelCard.from_dict(header) == mercer.card(model)


def test_what_is_loaded_saves_to_the_same_bytes(market, tmp_path):
    save(market[0], tmp_path / "a.mercer")
    save(load(tmp_path / "a.mercer"), tmp_path / "b.mercer")
    assert (tmp_path / "a.mercer").read_bytes() == (tmp_path / "b.mercer").read_bytes()


# ── what no file can hold ───────────────────────────────────────────────────
class Mine(TransformerMixin, BaseEstimator):
    def fit(self, X, _y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X


@pytest.mark.parametrize(
    ("model", "said"),
    {
        "a function": (make_pipeline(FunctionTransformer(np.log1p), PCA(2)), "func is"),
        "a class of one's own": (make_pipeline(Mine(), PCA(2)), "is a .*Mine"),
        "no model of mercer": (make_pipeline(StandardScaler(), MinMaxScaler()), "got a .*MinMaxScaler"),
        "a selector": (
            make_pipeline(make_column_transformer((StandardScaler(), make_column_selector("x"))), PCA(1)),
            "make_column_selector",
        ),
    }.values(),
)  # fmt: skip
def test_what_a_file_cant_hold_is_named(model, said, tmp_path):
    rows = pd.DataFrame(np.abs(X), columns=["x1", "x2", "x3"])
    model.fit(rows)
    with pytest.raises(ModelFileError, match=said):
        save(model, tmp_path / "m.mercer")
    assert not list(tmp_path.iterdir())


def test_a_pipeline_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="not fitted yet"):
        save(make_pipeline(StandardScaler(), PCA(2)), tmp_path / "m.mercer")


# ── forged ──────────────────────────────────────────────────────────────────
def of(objects, kind):
    return next(o for o in reversed(objects) if o["type"] == kind and o.get("learned"))


def learned(kind, **values):
    return lambda objects, _: of(objects, kind)["learned"].update(values)


def longer(objects, arrays):
    arrays[of(objects, "steps.StandardScaler")["learned"]["mean_"]["$array"]] = np.zeros(7)


FORGERIES = {
    "a method hidden": learned("steps.StandardScaler", transform=1),
    "a name without an underscore": learned("steps.StandardScaler", note=1),
    "a class changed": learned("steps.StandardScaler", __class__="os"),
    "columns of another number": learned("steps.StandardScaler", n_features_in_=4),
    "a mean of another length": longer,
    "a mean that is text": learned("steps.StandardScaler", mean_="mean"),
    "steps that are no list": lambda o, _: of_pipeline(o).update(steps=5),
    "a step that is no transformer": lambda o, _: of_pipeline(o)["steps"][0]["$tuple"].__setitem__(1, 5),
    "no steps": lambda o, _: of_pipeline(o).update(steps=[]),
}  # fmt: skip


def of_pipeline(objects):
    return next(o for o in reversed(objects) if o["type"] == "steps.Pipeline")["fields"]


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_pipeline_is_refused(name, tmp_path):
    path = tmp_path / "m.mercer"
    save(make_pipeline(StandardScaler(), PCA(2)).fit(X), path)
    with path.open("rb") as file:
        contents = container.read(file)
    header = deepcopy(contents.header)
    FORGERIES[name](header["model"]["objects"], contents.arrays)
    container.write(path, header, contents.arrays)
    with pytest.raises(ModelFileError):
        load(path)


# ── the way out of a Prepared ───────────────────────────────────────────────
def prepared(**parts):
    made = Preparation(numbers=("a", "b", "c"), **parts)
    rows = np.nan_to_num(GAPPY)
    hot = [FRAME["colour"].to_numpy()[:, None] == list(levels) for _, levels in made.categories]
    return Prepared(made, KernelPCA(3, kernel=RBF(0.02)).fit(np.hstack([rows, *hot])))


CENTER, SPREAD = np.array([0.1, -1.0, 3.0]), np.array([0.9, 11.0, 90.0])
HOT = {"categories": (("colour", ("blue", "grün", "red")),)}
PREPARED = {
    "plain": {},
    "scaled": {"center": CENTER, "spread": SPREAD},
    "centred": {"center": CENTER},
    "filled": {"fills": CENTER},
    "filled and scaled": {"fills": SPREAD, "center": CENTER, "spread": SPREAD},
    "one-hot": HOT,
    "everything": {
        "fills": SPREAD,
        "center": np.concatenate([CENTER, np.zeros(3)]),
        "spread": np.concatenate([SPREAD, np.ones(3)]),
        **HOT,
    },
}


@pytest.mark.parametrize("name", PREPARED)
def test_the_pipeline_of_a_prepared_model_gives_its_scores(name, tmp_path):
    model = prepared(**PREPARED[name])
    frame = (
        FRAME if "fills" in PREPARED[name] else FRAME.assign(**dict(zip("abc", X.T, strict=True)))
    )
    frame = frame[[*"abc", "colour"]] if "categories" in PREPARED[name] else frame[[*"abc"]]
    pipeline = model.to_pipeline()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = frame.to_numpy() if name == "plain" else frame
        np.testing.assert_array_equal(pipeline.transform(rows), model.transform(frame), strict=True)
    save(pipeline, tmp_path / "m.mercer")
    again = load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.transform(rows), model.transform(frame), strict=True)


def test_the_pipeline_of_a_prepared_model_refuses_other_columns():
    pipeline = prepared(center=CENTER, spread=SPREAD).to_pipeline()
    with pytest.raises(ValueError, match="feature names"):
        pipeline.transform(pd.DataFrame(X, columns=["b", "a", "c"]))
    words = prepared(**HOT).to_pipeline()
    with pytest.raises(ValueError, match="unknown categories"):
        words.transform(FRAME.assign(colour="pink", a=0.0, b=0.0, c=0.0))


# ── cards ───────────────────────────────────────────────────────────────────
def test_a_card_says_what_is_done_to_rows():
    found = mercer.card(PIPELINES["one-hot"][0].fit(FRAME))
    assert found.preparation == {
        "imputer": ["SimpleImputer()"],
        "encoder": ["OneHotEncoder()"],
        "scaler": ["StandardScaler()"],
    }
    assert found.features == (*NUMBERS, *WORDS)
    told = mercer.card(prepared(**PREPARED["everything"]))
    assert told.preparation == {
        "imputer": ["a number for each of 3 columns"],
        "encoder": ["colour: 3 levels"],
        "scaler": ["mean 0 and standard deviation 1"],
    }
    assert told.features[3:] == ("colour=blue", "colour=grün", "colour=red")
    assert json.loads(json.dumps(told.to_dict())) == told.to_dict()


# ── the way in ──────────────────────────────────────────────────────────────
PREPARABLE = {
    "scaler",
    "scaler of float32",
    "imputer",
    "constant",
    "drop-in",
    "passthrough",
    "pipeline in a pipeline",
}


@pytest.mark.parametrize("name", sorted(PREPARABLE))
def test_a_pipeline_as_a_prepared_model_gives_the_same_scores(name):
    pipeline, rows = PIPELINES[name]
    scores = pipeline.fit(rows).transform(rows)
    found = Prepared.from_pipeline(pipeline).transform(rows)
    np.testing.assert_allclose(found, scores, atol=1e-12 if name != "scaler of float32" else 1e-5)


MIXED = {
    "numbers, then words": columns((OneHotEncoder(), ["colour"])),
    "words that are new are ignored": columns((OneHotEncoder(handle_unknown="ignore"), ["colour"])),
    "two blocks of numbers": make_column_transformer(
        (SimpleImputer(), ["a"]), (FILLED, ["c", "b"]), (OneHotEncoder(), ["colour"])
    ),
    "left out": make_column_transformer((FILLED, ["c"]), ("drop", ["a"]), (OneHotEncoder(), ["colour"])),
    "passed through": make_column_transformer((FILLED, NUMBERS)),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("scaler", ["passthrough", MinMaxScaler(), RobustScaler()])
def test_columns_by_name_go_through_the_same_steps(name, scaler):
    pipeline = make_pipeline(MIXED[name], scaler, KernelPCA(2, kernel=RBF(0.1))).fit(FRAME)
    prepared = Prepared.from_pipeline(pipeline)
    mixed = FRAME[["size", "colour", "c", "a", "b"]]  # by name, whatever the order
    np.testing.assert_allclose(prepared.transform(mixed), pipeline.transform(FRAME), atol=1e-12)
    # And out again: the same columns, or a frame that has them.
    again = prepared.to_pipeline()
    held = FRAME[[*prepared.preparation.numbers, *(n for n, _ in prepared.preparation.categories)]]
    np.testing.assert_allclose(again.transform(held), pipeline.transform(FRAME), atol=1e-12)


# ── words that the training rows did not have ───────────────────────────────
NEW_WORDS = FRAME.assign(colour=["pink", "teal", None, np.nan, *FRAME["colour"][4:]])


@pytest.mark.filterwarnings("ignore:Found unknown categories:UserWarning")
@pytest.mark.parametrize("how", ["ignore", "warn", "infrequent_if_exist"])
def test_an_unseen_word_is_what_the_encoder_makes_of_it_and_is_counted(how, tmp_path):
    encoder = OneHotEncoder(handle_unknown=how, sparse_output=False)
    pipeline = make_pipeline(columns((encoder, ["colour"])), StandardScaler(), KernelPCA(2)).fit(
        FRAME
    )
    model = Prepared.from_pipeline(pipeline)
    with pytest.warns(
        ReadingWarning, match="in 4 of 60 rows: 'pink', 'teal', 'a missing value'"
    ) as told:
        found = model.transform(NEW_WORDS)
    assert told[0].message.code == "unseen-words"
    np.testing.assert_allclose(found, pipeline.transform(NEW_WORDS), atol=1e-12)
    np.testing.assert_allclose(model.to_pipeline().transform(NEW_WORDS), found, atol=1e-12)
    model.save(tmp_path / "m.mercer")
    np.testing.assert_array_equal(load(tmp_path / "m.mercer").transform(NEW_WORDS), found)
    page = mercer.report(pipeline, NEW_WORDS, tmp_path / "r.html").read_text()
    assert "did not have in 4 of 60 rows" in page
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReadingWarning)
        model.transform(FRAME)


def test_an_unseen_word_in_a_file_is_counted_in_a_note(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    encoder = OneHotEncoder(handle_unknown="ignore")
    pipeline = make_pipeline(columns((encoder, ["colour"])), KernelPCA(2)).fit(FRAME)
    save(pipeline, "m.mercer")
    NEW_WORDS[:2].to_csv("x.csv", index=False)
    assert (
        "in 2 of 2 rows: 'pink', 'teal'"
        in good("transform", "m.mercer", "x.csv", "-o", "s.csv").stderr
    )
    scores = np.genfromtxt("s.csv", delimiter=",", skip_header=1)[:, -2:]
    np.testing.assert_allclose(scores, pipeline.transform(NEW_WORDS[:2]), atol=1e-6)


def test_an_unseen_word_in_a_line_of_a_stream_is_zeros_and_noted():
    encoder = OneHotEncoder(handle_unknown="ignore")
    rows = FRAME.assign(**dict(zip("abc", X.T, strict=True)))[[*NUMBERS, "colour"]]
    parts = make_column_transformer((StandardScaler(), NUMBERS), (encoder, ["colour"]))
    pipeline = make_pipeline(parts, PCA(2)).fit(rows)
    odd = rows[:3].assign(colour=["pink", "red", "teal"])
    reader = LineReader(Prepared.from_pipeline(pipeline).preparation, Reading(), "the lines")
    found = reader(odd.to_csv(index=False).splitlines())
    np.testing.assert_allclose(found.rows, pipeline[:-1].transform(odd), atol=1e-12)
    assert not any(found.bad)
    assert reader.notes == [
        "words of column 'colour' that the training rows did not have became zeros"
    ]


def test_each_encoder_has_its_own_way_with_unseen_words():
    rows = FRAME.assign(kind=FRAME["colour"], size=FRAME["size"].astype(str))
    loose, strict = OneHotEncoder(handle_unknown="ignore"), OneHotEncoder()
    parts = columns((loose, ["colour"]), (strict, ["kind"]), (loose, ["size"]))
    model = Prepared.from_pipeline(make_pipeline(parts, PCA(2)).fit(rows))
    assert model.preparation.ignoring == ("colour", "size")
    odd = rows.assign(colour="pink", size="9")
    again = model.to_pipeline()
    np.testing.assert_allclose(again.transform(odd), model.transform(odd), atol=1e-12)
    with pytest.raises(InputError, match=r"^Column 'kind' has 'pink' in row 0 .* knows: [^\n]*$"):
        model.transform(rows.assign(kind="pink"))


def test_a_step_that_cant_be_read_is_named_in_one_line():
    long = OneHotEncoder(
        drop="first", handle_unknown="ignore", dtype=np.float32, sparse_output=False
    )
    assert "\n" in repr(long)
    with pytest.raises(InputError, match=r"^[^\n]*got OneHotEncoder\(drop='first', [^\n]*$"):
        Prepared.from_pipeline(make_pipeline(columns((long, ["colour"])), PCA(2)).fit(FRAME))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([True, False], r"'news' are booleans: convert the column with astype\(str\)"),
        (["u", None], "'news' have a missing value among them: fill it"),
        ([1, 2], r"'news' are not texts: convert the column with astype\(str\)"),
    ],
    ids=["booleans", "a gap", "numbers"],
)
def test_categories_that_are_no_words_are_named_with_their_column(values, said):
    rows = FRAME.assign(news=pd.Series(values * (len(FRAME) // 2), dtype=object))
    rows = rows[: 2 * (len(FRAME) // 2)]
    pipeline = make_pipeline(columns((OneHotEncoder(), ["news"])), PCA(2)).fit(rows)
    with pytest.raises(InputError, match=said):
        Prepared.from_pipeline(pipeline)


def test_a_model_that_is_not_the_last_step_is_named():
    pipeline = make_pipeline(StandardScaler(), KernelPCA(2), MinMaxScaler()).fit(X)
    with pytest.raises(
        InputError, match=r"got MinMaxScaler after it.*pipeline\[:-1\].*model\[-1\]"
    ):
        Prepared.from_pipeline(pipeline)


REFUSED = {
    "indicator": "SimpleImputer",
    "ordinal": "OrdinalEncoder",
    "words filled": "SimpleImputer",
    "words, a constant": "SimpleImputer",
    "one word left out": "OneHotEncoder.drop=",
    "one-hot": "OneHotEncoder",  # one of its columns holds numbers
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_preparation_cant_do_is_refused(name):
    pipeline, rows = PIPELINES[name]
    with pytest.raises(
        InputError, match=f"is read as a prepared model where .*got {REFUSED[name]}"
    ):
        Prepared.from_pipeline(pipeline.fit(rows))


def test_words_before_numbers_are_refused():
    steps = make_column_transformer((OneHotEncoder(), ["colour"]), (FILLED, NUMBERS))
    pipeline = make_pipeline(steps, PCA(2)).fit(FRAME)
    with pytest.raises(InputError, match="got columns of words before columns of numbers"):
        Prepared.from_pipeline(pipeline)
    half = make_column_transformer((FILLED, ["a", "b"]), ("passthrough", ["size"]))
    with pytest.raises(InputError, match="an imputer for some columns"):
        Prepared.from_pipeline(make_pipeline(half, PCA(2)).fit(FRAME))


def test_a_file_with_a_pipeline_works_at_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pipeline = make_pipeline(MIXED["numbers, then words"], KernelPCA(2, kernel=RBF(0.1))).fit(FRAME)
    save(pipeline, "m.mercer")
    FRAME.to_csv("x.csv", index=False)
    good("transform", "m.mercer", "x.csv", "-o", "s.csv")
    scores = np.genfromtxt("s.csv", delimiter=",", skip_header=1)[:, -2:]
    np.testing.assert_allclose(scores, pipeline.transform(FRAME), atol=1e-6)
    good("report", "m.mercer", "x.csv", "-o", "r.html")
    good("plot", "scores", "m.mercer", "x.csv", "-o", "p.png")
    good("export", "m.mercer", "m.onnx", "--data", "x.csv")
    save(PIPELINES["ordinal"][0].fit(FRAME), "o.mercer")
    refused = run("transform", "o.mercer", "x.csv")
    assert refused.exit_code == 3
    assert "A pipeline is read as a prepared model where" in refused.stderr


@pytest.mark.parametrize("first", [None, "passthrough", FunctionTransformer()], ids=repr)
def test_a_step_that_does_nothing_is_kept_and_passed_over(first, tmp_path):
    pipeline = Pipeline([("first", first), ("scale", StandardScaler()), ("last", KernelPCA(2))])
    bare = Pipeline([("first", first), ("last", KernelPCA(2))])
    for model in (pipeline.fit(X), bare.fit(X)):
        mercer.save(model, tmp_path / "p.mercer")
        again = mercer.load(tmp_path / "p.mercer")
        np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert mercer.report(pipeline, X, tmp_path / "r.html").stat().st_size > 10_000


def test_a_report_of_any_pipeline_is_of_the_columns_that_its_steps_make(tmp_path):
    pipeline = PIPELINES["one word left out"][0].fit(FRAME)
    page = mercer.report(pipeline, FRAME, tmp_path / "r.html").read_text()
    assert all(name in page for name in pipeline[:-1].get_feature_names_out())
    words = make_pipeline(OneHotEncoder(sparse_output=False), PCA(2)).fit(FRAME[["colour"]])
    assert mercer.report(words, FRAME[["colour"]], tmp_path / "r.html").stat().st_size > 10_000


def test_a_report_needs_a_folder(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"There is no folder .* to write the report r.html to"
    ):
        mercer.report(PCA(2).fit(X), X, tmp_path / "missing" / "r.html")


# ── what a component says about the columns in front of a pipeline ────────────
def test_importance_of_a_pipeline_is_that_of_its_model_folded_back_to_the_columns():
    model = make_pipeline(columns((OneHotEncoder(sparse_output=False), ["colour"])), KernelPCA(2))
    model.fit(FRAME)
    made = model[:-1].get_feature_names_out()
    inside = importance(model[-1], model[:-1].transform(FRAME))
    found = importance(model, FRAME)
    assert found.names == ("a", "b", "c", "colour")
    for name, sizes, shares in zip(found.names, found.sizes, found.shares, strict=True):
        own = [j for j, one in enumerate(made) if one.partition("__")[2].split("_")[0] == name]
        assert len(own) == (3 if name == "colour" else 1)
        np.testing.assert_allclose(sizes, inside.sizes[own].sum(axis=0), rtol=1e-9)
        np.testing.assert_allclose(shares, inside.shares[own].sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.slopes[:3], inside.slopes[:3], rtol=1e-8, atol=1e-12)
    assert np.isnan(found.slopes[3]).all()
    assert "changes with colour" in str(found)
    kept = importance(Prepared.from_pipeline(model), FRAME)
    np.testing.assert_array_equal(kept.sizes, found.sizes)


def test_importance_of_a_linear_pipeline_does_not_depend_on_units():
    of = [
        importance(make_pipeline(StandardScaler(), PCA(2)).fit(rows), rows) for rows in (X, X * 1e3)
    ]
    np.testing.assert_allclose(of[0].sizes, of[1].sizes, rtol=1e-9)


def test_columns_without_names_are_called_the_same_everywhere():
    bare = importance(PCA(2).fit(X), X)
    assert importance(make_pipeline(StandardScaler(), PCA(2)).fit(X), X).names == bare.names
    assert bare.names == ("x0", "x1", "x2")


def test_slopes_of_a_pipeline_say_what_to_pass():
    pipeline = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    with pytest.raises(
        InputError, match=r"last step, model\[-1\], .* model\[:-1\]\.transform\(X\)"
    ):
        gradients(pipeline, X)
    with pytest.raises(InputError, match=r"got a MinMaxScaler\.$"):
        gradients(MinMaxScaler(), X)
