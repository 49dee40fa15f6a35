"""Laws of kernels on columns that are named: positions once there are rows with names."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer.errors import KernelError
from mercer.kernels import RBF, Linear, Polynomial
from mercer.kernels.text import parse_kernel

pd = pytest.importorskip("pandas")
NAMES = ["temperature", "pressure", "flow", "level"]
ROWS = np.random.default_rng(0).standard_normal((90, 4)) * [1.0, 2.0, 0.5, 3.0]
FRAME = pd.DataFrame(ROWS, columns=NAMES)
# By name, and the same by position.
KERNELS = {
    "one": (RBF(0.3).on(["pressure", "temperature"]), RBF(0.3).on([1, 0])),
    "width from data": (RBF().on(["flow"]), RBF().on([2])),
    "sum": (
        RBF(0.3).on(["flow"]) + 0.5 * Linear().on(["level"]),
        RBF(0.3).on([2]) + 0.5 * Linear().on([3]),
    ),
    "nested": (
        Polynomial(3).on(["level"]).on(["pressure", "level"]).normalised(),
        Polynomial(3).on([1]).on([1, 3]).normalised(),
    ),
    "text": ("rbf(gamma=0.3).on(['flow', 'level'])", RBF(0.3).on([2, 3])),
    "no names": (RBF(0.02), RBF(0.02)),
}


@pytest.fixture(params=sorted(KERNELS))
def kernels(request):
    return KERNELS[request.param]


def frames():
    yield "pandas", FRAME
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    yield "polars", pl.DataFrame({n: ROWS[:, i] for i, n in enumerate(NAMES)})
    yield "arrow", pa.table({n: ROWS[:, i] for i, n in enumerate(NAMES)})


def test_a_fit_by_name_is_the_fit_by_position(kernels):
    named, placed = kernels
    expected = KernelPCA(3, kernel=placed).fit(ROWS)
    for kind, frame in frames():
        model = KernelPCA(3, kernel=named).fit(frame)
        assert_array_equal(model.eigenvalues_, expected.eigenvalues_, err_msg=kind)
        assert_array_equal(model.transform(frame), expected.transform(ROWS), err_msg=kind)
        assert repr(model.kernel_) == repr(expected.kernel_)


def test_the_order_of_the_columns_does_not_matter(kernels):
    named, _ = kernels
    other = FRAME[NAMES[::-1]]
    expected = KernelPCA(3, kernel=named).fit(FRAME)
    model = KernelPCA(3, kernel=named).fit(other)
    assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-9)


def test_clones_pickles_and_files_keep_the_names(kernels, tmp_path):
    named, _ = kernels
    model = KernelPCA(3, kernel=named).fit(FRAME)
    again = clone(model).fit(FRAME)
    assert_array_equal(again.transform(FRAME), model.transform(FRAME))
    assert repr(clone(model).kernel) == repr(named)
    model.save(tmp_path / "m.mercer")
    for twin in (mercer.load(tmp_path / "m.mercer"), pickle.loads(pickle.dumps(model))):
        assert repr(twin.kernel) == repr(named)
        assert_array_equal(twin.transform(FRAME), model.transform(FRAME))
        assert_array_equal(clone(twin).fit(FRAME).transform(FRAME), model.transform(FRAME))


def test_texts_say_names_and_read_them_back(kernels):
    named, _ = kernels
    if isinstance(named, str):
        named = parse_kernel(named)
    assert parse_kernel(repr(named)) == named


def test_streams_detectors_and_questions_about_kernels_know_the_names(kernels):
    named, placed = kernels
    stream = IncrementalKernelPCA(2, kernel=named, max_landmarks=30)
    expected = IncrementalKernelPCA(2, kernel=placed, max_landmarks=30)
    for i in (slice(0, 40), slice(40, 90)):
        stream.partial_fit(FRAME[i])
        expected.partial_fit(ROWS[i])
    assert_array_equal(stream.transform(FRAME), expected.transform(ROWS))
    folds = KFold(3, shuffle=True, random_state=0)
    by_name, by_place = (
        KernelPCADetector(2, kernel=k, folds=folds).fit(x)
        for k, x in ((named, FRAME), (placed, ROWS))
    )
    assert_array_equal(by_name.score_samples(FRAME), by_place.score_samples(ROWS))
    inside = KernelPCADetector(model=KernelPCA(2, kernel=named), folds=folds).fit(FRAME)
    assert_array_equal(inside.score_samples(FRAME), by_place.score_samples(ROWS))
    assert mercer.check_kernel(named, FRAME).reason == mercer.check_kernel(placed, ROWS).reason
    found = mercer.select(FRAME, [named], n_components=2)
    assert_allclose(found.best_.eigenvalues_, KernelPCA(2, kernel=placed).fit(ROWS).eigenvalues_)


def test_a_kernel_is_called_on_frames():
    named, placed = KERNELS["sum"]
    assert_array_equal(named(FRAME), placed(ROWS))
    assert_array_equal(named(FRAME[:5], FRAME), placed(ROWS[:5], ROWS))
    assert_array_equal(named.diag(FRAME), placed.diag(ROWS))
    with pytest.raises(KernelError, match="same columns in the same order"):
        named(FRAME, FRAME[NAMES[::-1]])


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_stream_goes_on_with_rows_without_names():
    named, placed = KERNELS["one"]
    stream = IncrementalKernelPCA(2, kernel=named).partial_fit(FRAME[:40]).partial_fit(ROWS[40:])
    expected = IncrementalKernelPCA(2, kernel=placed).partial_fit(ROWS[:40]).partial_fit(ROWS[40:])
    assert_array_equal(stream.eigenvalues_, expected.eigenvalues_)


@pytest.mark.parametrize(
    ("kernel", "rows", "why"),
    [
        (RBF(0.3).on(["presure"]), FRAME, r"Unknown column 'presure'.*Did you mean 'pressure'\?"),
        (RBF(0.3).on(["flow"]), ROWS, "these rows have no column names. Write positions"),
        (RBF(0.3).on(["flow"]).on(["level"]), FRAME, "Unknown column 'flow'.*Known names: 'level'"),
        (
            RBF(0.3).on("flow"),
            FRAME,
            "needs a sequence of positions, of names or of booleans; got 'flow'",
        ),
        (RBF(0.3).on(["flow", 1]), FRAME, "needs a sequence of positions, of names"),
        (RBF(0.3).on([]), FRAME, "one of them at least"),
    ],
    ids=["misspelt", "array", "nested", "one text", "mixed", "none"],
)
def test_columns_that_are_not_there_are_refused(kernel, rows, why):
    with pytest.raises(ValueError, match=why):
        KernelPCA(2, kernel=kernel).fit(rows)


def test_two_columns_of_one_name_are_refused():
    twice = pd.DataFrame(ROWS, columns=["a", "b", "a", "c"])
    with pytest.raises(KernelError, match="'a', of which the data have several"):
        RBF(0.3).on(["a"])(twice)


def test_a_pipeline_keeps_names_where_it_is_told_to():
    named = KernelPCA(2, kernel=RBF(0.3).on(["flow"]))
    with pytest.raises(KernelError, match=r"set_output\(transform='pandas'\)"):
        make_pipeline(StandardScaler(), named).fit(FRAME)
    pipeline = make_pipeline(StandardScaler(), named).set_output(transform="pandas").fit(FRAME)
    expected = KernelPCA(2, kernel=RBF(0.3).on([2])).fit(StandardScaler().fit_transform(ROWS))
    assert_allclose(
        pipeline.transform(FRAME), expected.transform(StandardScaler().fit_transform(ROWS))
    )
