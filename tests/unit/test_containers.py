"""Arrays and tables of every library: the numbers that NumPy makes of them, or a sentence with the way out.

What converts to an array is that array, whichever other protocols it has; a stream is read as a table only
from what is no array; a mask is never lost.
"""

import array
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import mercer
import mercer.sklearn as drop_in
from mercer.errors import InputError, MercerError
from mercer.kernels import RBF

N, D = 24, 3
NAMES = ["a", "b", "c"]
X = np.random.default_rng(0).standard_normal((N, D))
X[X < -1.0] = 0.0
WHOLE = np.round(10.0 * X)
HOLE = np.arange(N * D).reshape(N, D) == 7


class Array:
    """Offers some protocols of arrays, beside an Arrow stream that lists one cell after another."""

    def __init__(self, x, *protocols, stream=True):
        self._x = x
        for name in protocols:
            setattr(self, name, getattr(x, name))
        if stream:
            self.__arrow_c_stream__ = self._cells

    def _cells(self, requested_schema=None):
        cells = {"place": np.arange(self._x.size), "value": self._x.ravel()}
        return pa.table(cells).__arrow_c_stream__(requested_schema)


class Converts(Array):
    def __array__(self, dtype=None, copy=None):
        return self._x if dtype is None else self._x.astype(dtype)


class Packed(Array):
    def __dlpack__(self, **options):
        return self._x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._x.__dlpack_device__()


class Stream:
    """A table that has nothing but Arrow's stream."""

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table(dict(zip(NAMES, X.T, strict=True))).__arrow_c_stream__(requested_schema)


def xarray(make):
    return lambda: make(pytest.importorskip("xarray"))


def awkward(make):
    return lambda: make(pytest.importorskip("awkward"))


def coo(make):
    def made():
        return make(pytest.importorskip("sparse").COO(X))

    return made


def column(rows):
    """An array of objects, each a row."""
    made = np.empty(len(rows), dtype=object)
    made[:] = list(rows)
    return made


def masked():
    return np.ma.array(X, mask=HOLE)


def frame(dtype, rows=X):
    return pd.DataFrame(rows, columns=NAMES).astype(dtype)


# What is read, and the rows that it is.
SAME = {
    "Fortran order": (lambda: np.asfortranarray(X), X),
    "strided": (lambda: np.repeat(X, 2, axis=0)[::2], X),
    "another byte order": (lambda: X.astype(">f8"), X),
    "another byte order, float32": (lambda: X.astype(">f4"), X.astype(np.float32)),
    "integers": (lambda: WHOLE.astype(int), WHOLE),
    "a mask over nothing": (lambda: np.ma.array(X), X),
    "memoryview": (lambda: memoryview(X), X),
    "ctypes": (lambda: np.ctypeslib.as_ctypes(X.copy()), X),
    "lists": (X.tolist, X),
    "list of arrays": (lambda: list(X), X),
    "list of array.array": (lambda: [array.array("d", row) for row in X], X),
    "list of memoryviews": (lambda: list(map(memoryview, X)), X),
    "list of series": (lambda: [pd.Series(row) for row in X], X),
    "list of polars series": (lambda: [pl.Series(row) for row in X], X),
    "objects": (lambda: X.astype(object), X),
    "decimals": (lambda: [list(map(Decimal, row)) for row in X.tolist()], X),
    "__array__": (lambda: Converts(X, stream=False), X),
    "__array__ beside a stream": (lambda: Converts(X), X),
    "__array__ beside a stream, float32": (
        lambda: Converts(X.astype(np.float32)),
        X.astype(np.float32),
    ),
    "__array_interface__ beside a stream": (lambda: Array(X, "__array_interface__"), X),
    "__dlpack__ beside a stream": (lambda: Packed(X), X),
    "nullable integers": (lambda: frame("Int64", WHOLE), WHOLE),
    "nullable floats": (lambda: frame("Float64"), X),
    "nullable floats of 32 bits": (lambda: frame("Float32"), X.astype(np.float32)),
    "floats of Arrow": (lambda: frame(pd.ArrowDtype(pa.float64())), X),
    "floats of Arrow of 32 bits": (
        lambda: frame(pd.ArrowDtype(pa.float32())),
        X.astype(np.float32),
    ),
    "categories that are numbers": (lambda: frame("category", WHOLE), WHOLE),
    "columns of many kinds": (
        lambda: frame("float64", WHOLE).astype({"a": "Int64", "b": "category"}),
        WHOLE,
    ),
    "polars frame": (lambda: pl.DataFrame(X, schema=NAMES), X),
    "polars frame of 32 bits": (
        lambda: pl.DataFrame(X.astype(np.float32), schema=NAMES),
        X.astype(np.float32),
    ),
    "polars series of rows": (lambda: pl.Series(X), X),
    "tensor of Arrow": (lambda: pa.Tensor.from_numpy(X), X),
    "a table that is a stream": (Stream, X),
    "DataArray": (xarray(lambda xr: xr.DataArray(X)), X),
    "DataArray with names": (
        xarray(lambda xr: xr.DataArray(X, dims=("row", "column"), coords={"column": NAMES})),
        X,
    ),
    "DataArray with coordinates": (
        xarray(lambda xr: xr.DataArray(X, coords=[("s", range(N)), ("f", range(D))], name="v")),
        X,
    ),
    "DataArray with a dimension columns": (
        xarray(lambda xr: xr.DataArray(X, coords=[("index", range(N)), ("columns", NAMES)])),
        X,
    ),
    "DataArray, float32": (
        xarray(lambda xr: xr.DataArray(X.astype(np.float32))),
        X.astype(np.float32),
    ),
    "DataArray, turned": (xarray(lambda xr: xr.DataArray(X.T.copy(), dims=("f", "s")).T), X),
    "Variable of xarray": (xarray(lambda xr: xr.Variable(("s", "f"), X)), X),
    "list of DataArrays": (xarray(lambda xr: list(map(xr.DataArray, X))), X),
    "awkward array": (awkward(lambda ak: ak.Array(X)), X),
    "awkward lists": (awkward(lambda ak: ak.Array(X.tolist())), X),
    "awkward rows": (awkward(lambda ak: list(ak.Array(X))), X),
}

# Types of columns that have a value of their own for what is missing.
GAPPY = ["Int64", "Float32", "Float64", "float[pyarrow]", "double[pyarrow]", "int64[pyarrow]"]

# What is refused, and what the sentence says.
STACK = r"2-D array; got .*Pass np\.stack\(np\.asarray\(X\)\)"
REFUSED = {
    "a mask": (masked, "1 masked value"),
    "a mask behind __array__": (lambda: Converts(masked(), stream=False), "1 masked value"),
    "a mask behind __array__, beside a stream": (lambda: Converts(masked()), "1 masked value"),
    "a mask in a row": (lambda: list(masked()), "1 masked value"),
    "a mask over records": (
        lambda: np.ma.array(np.rec.fromarrays(X.T, names=NAMES), mask=[(True, False, False)] * N),
        "records.*structured_to_unstructured",
    ),
    "records": (
        lambda: np.rec.fromarrays(X.T, names=NAMES),
        "records.*structured_to_unstructured",
    ),
    **{
        f"a missing value of {dtype}": (
            lambda dtype=dtype: frame(dtype, np.where(HOLE, np.nan, WHOLE)),
            r"must be finite; got NaN, first in row 2, column 1 \('b'\).*SimpleImputer",
        )
        for dtype in GAPPY
    },
    "a missing value of objects": (
        lambda: frame("Float64", np.where(HOLE, np.nan, X)).to_numpy(dtype=object),
        "must be finite; got NaN, first in row 2, column 1",
    ),
    "a missing value in a list of lists": (
        lambda: [[pd.NA if np.isnan(v) else v for v in row] for row in np.where(HOLE, np.nan, X)],
        "must be finite; got NaN, first in row 2, column 1",
    ),
    "a missing value in a row": (
        lambda: [pd.Series(row, dtype="Float64") for row in np.where(HOLE, np.nan, X)],
        "must be finite; got NaN, first in row 2, column 1",
    ),
    "sparse columns that leave out NaN": (
        lambda: pd.DataFrame(np.where(X == 0.0, np.nan, X)).astype(pd.SparseDtype(float, np.nan)),
        r"X\.sparse\.to_dense\(\)",
    ),
    "periods": (
        lambda: frame(float).assign(a=pd.period_range("2020", periods=N, freq="D")),
        r"must be numbers; got a Period.* in row 0, column 0 \('a'\)",
    ),
    "intervals": (
        lambda: frame(float).assign(b=pd.interval_range(0, N)),
        r"must be numbers; got an Interval.* in row 0, column 1 \('b'\)",
    ),
    "arrays in a column": (lambda: pd.DataFrame({"a": list(X)}), "got an ndarray.* in row 0"),
    "lists in a column of polars": (
        lambda: pl.DataFrame({"a": X.tolist()}),
        r"got an ndarray.* in row 0, column 0 \('a'\)",
    ),
    "rows in an array of objects": (lambda: column(X), STACK),
    "series of lists": (lambda: pd.Series(X.tolist()), STACK),
    "polars series of lists": (lambda: pl.Series(X.tolist()), STACK),
    "lists of Arrow": (lambda: pa.array(X.tolist()), STACK),
    "chunks of lists of Arrow": (lambda: pa.chunked_array([X.tolist()]), STACK),
    "sparse rows in a list": (
        lambda: [sparse.csr_array(row[None]) for row in X],
        r"scipy\.sparse\.vstack\(X\)",
    ),
    "a type": (lambda: np.ndarray, "rows of numbers; got a type"),
    "a time of NumPy among numbers": (
        lambda: [[1.0, np.datetime64("2020-01-01")], [2.0, np.datetime64("NaT")]],
        "must be numbers; got a datetime64.* in row 0, column 1",
    ),
    "no time of NumPy among numbers": (
        lambda: np.array([[np.datetime64("NaT"), 1.0], [2.0, 3.0]], dtype=object),
        "must be numbers; got a datetime64.* in row 0, column 0",
    ),
    "a duration of NumPy among numbers": (
        lambda: np.array([[1.0, np.timedelta64(3, "ns")], [2.0, 3.0]], dtype=object),
        "must be numbers; got a timedelta64.* in row 0, column 1",
    ),
    "an object": (object, "rows of numbers; got an object"),
    "bytes": (X.tobytes, "rows of numbers; got a bytes"),
    "dictionaries": (
        lambda: [dict(zip(NAMES, row, strict=True)) for row in X],
        r"pandas\.DataFrame\(list\(X\)\)",
    ),
    "texts": (
        lambda: ["one", "two", "three"],
        "got a list of 3 texts.*their kernel matrix.*kernel='precomputed'",
    ),
    "graphs": (lambda: [object() for _ in range(N)], "their kernel matrix"),
    "texts of numbers": (lambda: X.astype(str), r"text, '.*' in row 0, column 0.*astype\(float\)"),
    "Dataset of xarray": (
        xarray(lambda xr: xr.Dataset({name: ("s", x) for name, x in zip(NAMES, X.T, strict=True)})),
        r"x\.to_dataframe\(\), or one of its variables, such as x\['a'\]",
    ),
    "DataArray of texts": (xarray(lambda xr: xr.DataArray(X.astype(str))), "text"),
    "DataArray of sparse rows": (
        lambda: pytest.importorskip("xarray").DataArray(pytest.importorskip("sparse").COO(X)),
        r"x\.todense\(\)",
    ),
    "sparse.COO": (coo(lambda x: x), r"can't be read as an array .*Pass x\.todense\(\)"),
    "sparse.GCXS": (coo(lambda x: x.asformat("gcxs")), r"x\.todense\(\)"),
    "sparse.DOK": (coo(lambda x: x.asformat("dok")), r"x\.todense\(\)"),
    "list of sparse.COO": (coo(list), r"X\[0\] is a sparse COO .*Pass x\.todense\(\)"),
    "ragged awkward lists": (
        awkward(lambda ak: ak.Array([[1.0, 2.0], [3.0]] * 12)),
        r"X is an awkward Array that .*ak\.pad_none",
    ),
    "awkward lists with gaps": (awkward(lambda ak: ak.Array([[1.0, None]] * 12)), r"ak\.fill_none"),
    "awkward records": (
        awkward(lambda ak: ak.Array([{"a": 1.0, "b": 2.0}] * 12)),
        "structured_to_unstructured",
    ),
}


def model():
    return mercer.KernelPCA(2, kernel=RBF(0.5))


def stream():
    return mercer.IncrementalKernelPCA(2, kernel=RBF(0.5))


def detector():
    return mercer.KernelPCADetector(2, kernel=RBF(0.01))


# What takes rows, and numbers that show which rows it took: of the container, and of its dtype.
DOORS = {
    "fit": lambda x, _: model().fit(x).eigenvalues_,
    "fit_transform": lambda x, _: model().fit_transform(x),
    "transform": lambda x, like: model().fit(like).transform(x),
    "PCA": lambda x, _: mercer.PCA(2).fit(x).components_,
    "partial_fit": lambda x, like: stream().partial_fit(x).transform(like),
    "next partial_fit": lambda x, like: stream().fit(like).partial_fit(x).transform(like),
    "detector": lambda x, like: detector().fit(x).decision_function(like),
    "decision_function": lambda x, like: detector().fit(like).decision_function(x),
    "batches": lambda x, _: model().fit(lambda: iter([x])).eigenvalues_,
    "kernel": lambda x, _: RBF(0.5)(x),
    "second rows of a kernel": lambda x, like: RBF(0.5)(like, x),
    "function": lambda x, _: mercer.KernelPCA(2, kernel=_dot).fit(x).eigenvalues_,
}


def _dot(x, y):
    return x @ y.T


ONE_BATCH = {"batches"}  # whose objects are not opened, and whose frames have other types
# Whether columns have names is another question.
pytestmark = [
    pytest.mark.filterwarnings("ignore:X has feature names:UserWarning"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning"),
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", SAME)
def test_a_container_is_the_array_that_it_holds(name, door):
    make, rows = SAME[name]
    ask, container = DOORS[door], make()
    if door in ONE_BATCH:
        try:
            numbers = ask(container, rows)
        except MercerError:
            return
        same = {"rtol": 1e-12 if rows.dtype == np.float64 else 1e-5}
        np.testing.assert_allclose(numbers, ask(rows, rows), **same)
        return
    numbers, wanted = ask(container, rows), ask(np.ascontiguousarray(rows), rows)
    if name == "a table that is a stream" and "kernel" not in door:  # which is read block by block
        np.testing.assert_allclose(abs(numbers), abs(wanted), rtol=1e-10, atol=1e-13)
        return
    assert numbers.dtype == wanted.dtype
    np.testing.assert_array_equal(numbers, wanted)


@pytest.mark.parametrize("name", SAME)
def test_names_are_those_of_a_frame_or_none(name):
    fitted = model().fit(SAME[name][0]())
    assert fitted.n_features_in_ == D
    assert list(getattr(fitted, "feature_names_in_", NAMES)) == NAMES


@pytest.mark.parametrize("door", [*DOORS, "drop-in"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_holds_no_rows_is_refused_with_the_way_out(name, door):
    make, says = REFUSED[name]
    ask = DOORS.get(door, lambda x, _: drop_in.KernelPCA(2, kernel="rbf").fit(x))
    container = make()
    nan = "missing value" in name and "kernel" in door  # a kernel of NaN is NaN
    reads = door == "drop-in" and ("text" in name or "of NumPy among" in name)  # as scikit-learn
    if nan or reads:
        return
    theirs = TypeError if name == "a missing value in a list of lists" else ValueError
    with pytest.raises(InputError if door != "drop-in" else theirs) as caught:
        ask(container, X)
    if door not in ONE_BATCH | {"drop-in"}:
        caught.match(f"(?s){says}")


@pytest.mark.parametrize("dtype", [None, *GAPPY])
def test_a_detector_marks_the_rows_of_frames_that_lack_a_value(dtype):
    gappy = frame(float, np.where(HOLE, np.nan, WHOLE))
    columns = gappy.convert_dtypes() if dtype is None else gappy.astype(dtype)
    fitted = mercer.KernelPCADetector(2, kernel=RBF(0.01)).fit(frame(float, WHOLE))
    report, wanted = fitted.monitor(columns), fitted.monitor(gappy)
    np.testing.assert_array_equal(report.table["judged"], ~HOLE.any(axis=1))
    np.testing.assert_allclose(report.table["T2"], wanted.table["T2"], rtol=1e-5)


@pytest.mark.parametrize("rows", [None, np.rec.fromarrays(X.T, names=NAMES), ["one", "two"]])
def test_strings_are_not_said_to_be_what_rows_may_be(rows):
    with pytest.raises(InputError) as caught:
        model().fit(rows)
    assert "string" not in str(caught.value)


def test_a_saved_model_takes_a_container(tmp_path):
    xr = pytest.importorskip("xarray")
    model().fit(X).save(tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    np.testing.assert_array_equal(again.transform(xr.DataArray(X)), again.transform(X))


def test_chunks_of_dask_stay_lazy_behind_a_data_array():
    xr, da = pytest.importorskip("xarray"), pytest.importorskip("dask.array")
    rows = xr.DataArray(da.from_array(X, chunks=(5, -1)), dims=("s", "f"))
    np.testing.assert_allclose(
        model().fit(rows).eigenvalues_, model().fit(X).eigenvalues_, rtol=1e-12
    )
    np.testing.assert_allclose(RBF(0.5)(rows), RBF(0.5)(X), rtol=1e-12)
    with pytest.raises(InputError, match="1 masked value"):
        RBF(0.5)(da.from_array(masked(), chunks=(5, -1)))  # xarray makes NaN of a mask


def test_a_series_of_dask_is_one_column():
    frame_of_dask = pytest.importorskip("dask.dataframe").from_pandas(frame(float), npartitions=2)
    for door in ("fit", "transform", "kernel", "second rows of a kernel"):
        with pytest.raises(InputError, match=r"to_frame|1-D array|2-D array"):
            DOORS[door](frame_of_dask["a"], X)
