"""What a detector refuses, with words; and the reports of `monitor`."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.decomposition import PCA as TheirPCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, StratifiedKFold, TimeSeriesSplit

import mercer
from conftest import frozen
from mercer import PCA, KernelPCA, KernelPCADetector
from mercer._core.errors import DetectorWarning, InputError
from mercer.kernels import RBF


def rows(n=120, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return frozen(
        rng.standard_normal((n, 2)) @ [[1, 1, 0], [0, 1, 1]] + 0.1 * rng.standard_normal((n, d))
    )


X = rows()

REFUSED = {
    "contamination of 0": ({"contamination": 0.0}, "contamination must be .* between 0 and 0.5"),
    "contamination of a half": ({"contamination": 0.5}, "between 0 and 0.5"),
    "contamination auto": ({"contamination": "auto"}, "contamination must be .* got 'auto'"),
    "false alarm of 0": ({"false_alarm": 0}, "false_alarm must be .* between 0 and 1"),
    "false alarm of 1": ({"false_alarm": 1.0}, "between 0 and 1"),
    "both rates": ({"false_alarm": 0.01, "contamination": 0.1}, "Leave one out"),
    "statistic": ({"statistic": "SPE"}, "statistic must be .* got 'SPE'"),
    "limits": ({"limits": "aproximate"}, "Did you mean 'approximate'"),
    "folds": ({"folds": 1}, "from 2 to the number of rows"),
    "more folds than rows": (
        {"folds": 121},
        "120 rows are too few for limits from 121 folds.* to at most 120",
    ),
    "folds that are not used": ({"folds": "five", "contamination": 0.1}, "splitter"),
    "folds of labels": ({"folds": StratifiedKFold(3)}, "without labels or groups"),
    "folds of groups": ({"folds": GroupKFold(3)}, "without labels or groups"),
    "scale in words": ({"scale": "no"}, "scale must be True or False"),
    "contamination and a distribution": (
        {"contamination": 0.1, "limits": "approximate"},
        "limits='approximate' exclude each other",
    ),
    "folds in words": ({"folds": "five"}, "splitter"),
    "a model and a kernel": ({"model": KernelPCA(2), "kernel": RBF(1.0)}, "kernel=RBF.* a `model`"),
    "a model and memory": ({"model": PCA(2), "memory": "1GB"}, "memory='1GB' and a `model`"),
    "a foreign model": ({"model": TheirPCA()}, "model=PCA"),
    "precomputed": ({"kernel": "precomputed"}, "precomputed"),
    "as many components as a fold has rows": (
        {"n_components": 95, "kernel": RBF(1.0)},
        "120 rows are too few for 95 components: 96 are left when one fold is held out, and 98 are needed",
    ),
    "F with too few rows": (
        {"n_components": 118, "kernel": RBF(5.0), "limits": "approximate"},
        "120 rows are too few for 118 components: the F approximation of limits needs 121",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
def test_refused(case):
    knobs, words = REFUSED[case]
    with pytest.raises(InputError, match=words):
        KernelPCADetector(**knobs).fit(X)


def test_a_failed_fit_leaves_nothing_behind():
    detector = KernelPCADetector(statistic="SPE")
    with pytest.raises(InputError):
        detector.fit(X)
    assert not [name for name in vars(detector) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        detector.monitor(X)


def test_bad_rows():
    bad = np.array(X)
    bad[5, 1] = np.nan
    with pytest.raises(InputError, match="row 5, column 1"):
        KernelPCADetector().fit(bad)
    detector = KernelPCADetector().fit(X)
    with pytest.raises(InputError, match="row 5, column 1"):
        detector.predict(bad)
    with pytest.raises(ValueError, match="2 features"):
        detector.predict(X[:, :2])
    with pytest.raises(InputError, match="X must be dense"):
        KernelPCADetector().fit(sparse.csr_array(X))


def test_the_given_model_stays_unfitted():
    model = PCA(2)
    detector = KernelPCADetector(model=model).fit(X)
    assert not hasattr(model, "fit_")
    assert detector.model_.n_components_ == 2


def test_stuck_sensors_are_named():
    frame = pd.DataFrame(X, columns=["flow", "level", "heat"]).assign(valve=1.0)
    with pytest.warns(DetectorWarning, match=re.escape("3 ('valve')")):
        KernelPCADetector(model=PCA(2)).fit(frame)


def test_a_held_out_tail():
    detector = KernelPCADetector(model=PCA(2), folds=TimeSeriesSplit(3)).fit(X)
    assert detector.limits_.q > 0


def test_four_rows_are_told_what_to_do():
    with pytest.raises(InputError, match=r"Give more rows .* `folds` to at most 4"):
        KernelPCADetector().fit(X[:4])


def test_a_way_back_is_not_fitted():
    detector = KernelPCADetector(model=KernelPCA(2, kernel="rbf", preimage="ridge")).fit(X)
    assert not hasattr(detector.model_, "preimage_")


def test_limits_of_contamination_speak_of_training_rows():
    text = str(KernelPCADetector(model=PCA(2), contamination=0.1).fit(X).limits_)
    assert "10.00% of the training rows are above" in text


def test_a_file_of_rows(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    from_file = KernelPCADetector().fit(tmp_path / "rows.npy")
    expected = KernelPCADetector().fit(X).score_samples(X)
    np.testing.assert_array_equal(from_file.score_samples(tmp_path / "rows.npy"), expected)


def test_limits_print_themselves():
    limits = KernelPCADetector(model=PCA(2), false_alarm=0.05).fit(X).limits_
    text = str(limits)
    assert f"{limits.t2:.4g}" in text
    assert "5.00%" in text
    with pytest.raises(AttributeError):
        limits.t2 = 1.0


# ── monitor ─────────────────────────────────────────────────────────────────
@pytest.fixture(scope="module")
def detector():
    return KernelPCADetector(model=PCA(2)).fit(pd.DataFrame(X, columns=["flow", "level", "heat"]))


@pytest.fixture(scope="module")
def faulty():
    """Normal, then rows 10 to 19 with a wrong level, and row 25."""
    run = np.array(rows(30, seed=1))
    run[10:20, 1] += 8.0
    run[25, 1] += 8.0
    return pd.DataFrame(frozen(run), columns=["flow", "level", "heat"])


def test_the_report(detector, faulty):
    seen = detector.monitor(faulty, time=np.arange(100, 130))
    expected = np.zeros(30, dtype=bool)
    expected[10:20] = expected[25] = True
    np.testing.assert_array_equal(seen.table["alarm"], expected)
    np.testing.assert_array_equal(seen.table["alarm"], detector.predict(faulty) == -1)
    assert seen.table.columns == [
        *(
            "time",
            "T2",
            "T2_limit",
            "Q",
            "Q_limit",
            "index",
            "index_limit",
            "alarm",
            "judged",
            "top",
        )
    ]
    assert len(seen.alarms) == 11
    assert [(run.first, run.last) for run in seen.runs] == [(10, 19), (25, 25)]
    assert seen.summary() == (
        "11 of 30 rows are alarms (36.7 %). The first is at time 110; the longest run is from time 110 to "
        "119 (10 rows). Leading when the runs began: level, heat (time 110, 10 long); level, heat (time "
        "125, 1 long)."
    )
    assert all(text.startswith("level ") for text in seen.alarms["top"])
    assert set(seen.table["top"][~expected]) == {""}
    assert str(seen).startswith(seen.summary())
    assert repr(seen) == "Monitoring(30 rows, 11 alarms)"
    frame = seen.to_pandas()
    assert list(frame["time"]) == list(range(100, 130))


def test_explaining_every_row_and_none(detector, faulty):
    every = detector.monitor(faulty, explain="all", top=1)
    assert all(every.table["top"])
    assert every.contributions.shape == (30, 3)
    none = detector.monitor(faulty, top=0)
    assert set(none.table["top"]) == {""}
    assert none.contributions is None
    assert "Leading" not in none.summary()


def test_a_quiet_run(detector):
    seen = detector.monitor(pd.DataFrame(X[:5], columns=["flow", "level", "heat"]))
    assert seen.summary() == "None of 5 rows is an alarm."
    assert len(seen.alarms) == 0


def test_a_single_alarm(detector, faulty):
    seen = detector.monitor(faulty.iloc[20:30], top=0)
    assert seen.summary() == "1 of 10 rows is an alarm (10.0 %), at time 5."


def test_names_and_times(detector, faulty):
    named = detector.monitor(faulty, names=["a", "b", "c"])
    assert named.alarms["top"][0].startswith("b ")
    dates = pd.date_range("2024-01-01", periods=30, freq="h")
    assert "2024-01-01T10" in detector.monitor(faulty, time=dates).summary()
    plain = KernelPCADetector(model=PCA(2)).fit(X)
    assert plain.monitor(faulty.to_numpy()).alarms["top"][0].startswith("x1 ")


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"names": ["a"]}, "a list of 3 names, one for each variable; got 1"),
        ({"names": 5}, "a list of 3 names.*got 5"),
        ({"names": "abc"}, "got 'abc'"),
        ({"time": [1, 2]}, "each of the 30 rows"),
        ({"top": -1}, "top must be an integer >= 0; got -1"),
        ({"explain": "some"}, "explain must be 'alarms' or 'all'; got 'some'"),
    ],
)
def test_monitor_refuses(knobs, words, detector, faulty):
    with pytest.raises(InputError, match=words):
        detector.monitor(faulty, **knobs)


def test_contributions_refuse_an_unknown_statistic(detector, faulty):
    with pytest.raises(InputError, match=r"statistic must be .* got 'SPE'"):
        detector.contributions(faulty, "SPE")


def test_public():
    assert mercer.KernelPCADetector is KernelPCADetector


@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_the_index_of_a_frame_tells_the_time(zone):
    frame = pd.DataFrame(X, columns=list("abc"))
    frame.index = pd.date_range("2024-03-01", periods=len(frame), freq="h", tz=zone)
    detector = KernelPCADetector(2).fit(frame[:100])
    seen = detector.monitor(frame[100:])
    assert str(seen.table["time"][0]).startswith("2024-03-05T04:00:00")
    assert seen.table["time"].dtype.kind == "M"
    np.testing.assert_array_equal(
        detector.monitor(frame[100:], time=range(20)).table["time"], range(20)
    )
    plain = detector.monitor(frame[100:].reset_index(drop=True))
    np.testing.assert_array_equal(plain.table["time"], range(20))


def test_times_among_the_variables_are_named():
    frame = pd.DataFrame({"at": pd.date_range("2024-03-01", periods=9), "a": range(9)})
    with pytest.raises(InputError, match=r"times, in column 0 \('at'\)"):
        KernelPCADetector(1).fit(frame)
    with pytest.raises(InputError, match="times, in column 0"):
        KernelPCA(1).fit(np.arange(8).reshape(4, 2).astype("M8[s]"))


@pytest.mark.parametrize(
    ("n", "told"),
    [
        (2, "2 rows are too few for limits from 5 folds"),
        (5, "5 rows are too few for 2 components: 4 are left when one fold is held out, and 5 are"),
    ],
)
def test_so_few_rows_are_counted_as_they_were_given(n, told):
    rows = np.random.default_rng(0).standard_normal((n, 4))
    with pytest.raises(InputError, match=told):
        KernelPCADetector(1 if n == 2 else 2).fit(rows)
