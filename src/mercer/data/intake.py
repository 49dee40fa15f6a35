"""What rows must be before any compiled code may touch them: read, unmasked, with indices in range.

NumPy drops a mask without a word, SciPy trusts the indices of a sparse matrix and reads past the end of
its buffers when they are wrong, a lazy table holds no rows at all, and a tensor may be on a device. Every
door asks here first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from numbers import Number
from operator import is_
from typing import Any

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError, kind_of, many, refuse
from mercer._core.types import Array
from mercer.data.arrays import (
    NotNumbersError,
    as_array,
    home_of,
    is_a,
    is_missing,
    is_table,
    is_tensor,
    refuse_objects,
    tensor_array,
    unwrapped,
)

# Queries that have not run: which object, and what makes rows of it.
LAZY = {
    ("polars", "LazyFrame"): "frame.collect(), or frame.sink_parquet(path) and the path",
    ("polars", "Expr"): "frame.select(expression)",
    ("duckdb", "DuckDBPyRelation"): "relation.df() or relation.to_arrow_table()",
    ("dask.delayed", "Delayed"): "x.compute()",
    ("dask.bag", "Bag"): "x.compute()",
}
ALONE = "one number alone"


def admitted(x: Any, *, what: str = "X") -> Any:
    """`x` itself, or its plain array where it is another library's, or a masked one that masks nothing.

    Raises an `InputError` for values that are masked, for a sparse matrix whose indices lie outside of
    it, and for a query that has not run.

    >>> import numpy as np
    >>> admitted(np.ma.array([[1.0, 2.0]], mask=False))
    array([[1., 2.]])
    >>> admitted(np.ma.array([[1.0, 2.0]], mask=[[False, True]]))
    Traceback (most recent call last):
        ...
    mercer._core.errors.InputError: X has 1 masked value, the first in row 0, column 1. ...
    """
    if type(x) is np.ndarray and x.dtype.kind in "biuf" and x.dtype.isnative:
        return x  # what most are, and what would come of them below
    x = unwrapped(x)
    if is_a(x, "dask.array", "Array"):
        x = x.compute()  # which keeps the masks of its chunks; its `__array__` drops them
    if sparse.issparse(x):
        require_sound(x, what=what)
        return x
    if is_tensor(x):
        return tensor_array(x, what=what)
    refuse_lazy(x, what=what)
    _refuse_no_rows(x, what=what)
    if isinstance(x, (list, tuple)):  # NumPy would join masked rows by their data
        rows = [_row(row, what, i) for i, row in enumerate(x)]
        for i, row in enumerate(rows):
            _refuse_masked_row(row, what, i)
        _refuse_ragged(rows, what)
        return x if all(map(is_, rows, x)) else rows
    if hasattr(type(x), "columns") or is_a(x, "pandas", "Series"):  # names and types of their own
        if is_a(x, "pandas", "DataFrame"):
            _refuse_filled(x, what=what)
        return x
    x = as_array(x, what=what)
    if isinstance(x, np.ma.MaskedArray):
        _require_unmasked(np.ma.getmaskarray(x), what)
        x = np.ma.getdata(x)
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def _row(row: Any, what: str, i: int) -> Any:
    """Entry i of a list: a row of another library as an array, all others as they are."""
    if isinstance(row, (np.ndarray, np.generic, list, tuple, str, Number)) or row is None:
        return row
    row, what = unwrapped(row), f"{what}[{i}]"
    if is_tensor(row):
        return tensor_array(row, what=what)
    if sparse.issparse(row):
        msg = f"{what} is a sparse row of a list; one matrix is needed."
        raise InputError.saying(msg, "Pass scipy.sparse.vstack(X).")
    is_array = hasattr(row, "__array__") and not hasattr(type(row), "columns")
    return as_array(row, what=what) if is_array else row


def _refuse_filled(frame: Any, *, what: str) -> None:
    """Raise for sparse columns of pandas that leave out something else than zeros."""
    kinds = list(frame.dtypes)
    fills = [dtype.fill_value for dtype in kinds if hasattr(dtype, "fill_value")]
    if len(fills) == len(kinds) and any(fill != 0 for fill in fills):
        msg = f"{what} has sparse columns whose fill value is {fills[0]}; that of sparse rows is 0."
        raise InputError.saying(msg, "Pass X.sparse.to_dense().")


def is_single(x: Any) -> bool:
    """Whether all columns of a frame hold floats of 32 bits, of which scikit-learn makes 64."""
    dtypes = getattr(x, "dtypes", ()) if hasattr(type(x), "columns") else ()
    kinds = [] if isinstance(dtypes, np.dtype) else list(dtypes)  # a series of dask has one
    halves = (
        str(d) == "Float32" or (getattr(d, "kind", ""), getattr(d, "itemsize", 0)) == ("f", 4)
        for d in kinds
    )
    return len(kinds) > 0 and all(halves)


def _refuse_ragged(rows: Sequence[Any], what: str) -> None:
    """Raise where rows of a list, lists or arrays themselves, have not all the length of the first."""
    if not any(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
        return
    lengths = list(map(_length, rows))
    for i, length in enumerate(lengths):
        if length is None or lengths[0] is None:  # nothing that is known here
            return
        if length != lengths[0]:
            one, two = (n if n == ALONE else many(n, "number") for n in (lengths[0], length))
            msg = f"{what} must have rows of one length; got {one} in row 0 and {two} in row {i}."
            raise InputError.saying(msg, "Drop the rows that differ, or fill in what they lack.")


def _length(row: Any) -> Any:
    if isinstance(row, (list, tuple)) or (isinstance(row, np.ndarray) and row.ndim):
        return len(row)
    return ALONE if isinstance(row, (Number, np.generic, np.ndarray)) else None


def _refuse_masked_row(row: Any, what: str, i: int) -> None:
    """Raise where row i of a list is masked, in part or as one number of many."""
    if row is np.ma.masked:  # a list of numbers, not of rows
        _require_unmasked(np.array([True]), what, first=i)
    if isinstance(row, np.ma.MaskedArray):
        _require_unmasked(np.ma.getmaskarray(np.atleast_2d(row)), what, first=i)
    elif isinstance(row, (list, tuple)) and any(value is np.ma.masked for value in row):
        _require_unmasked(np.array([[value is np.ma.masked for value in row]]), what, first=i)


def refuse_lazy(x: Any, *, what: str = "X") -> None:
    """Raise for a query that has not run, with the call that runs it."""
    for (package, kind), remedy in LAZY.items():
        if is_a(x, package, kind):
            msg = f"{what} is a {package} {kind}, a query that has not run; rows are needed. Pass {remedy}."
            raise InputError(msg)
    if is_table(x) and (
        hasattr(x, "read_all")
        or not (is_a(x, "pandas", "DataFrame") or home_of(x) in ("pandas", "polars", "pyarrow"))
    ):
        msg = f"{what} is {kind_of(x)}, an Arrow stream; a table is needed. Pass pyarrow.table(x)."
        raise InputError(msg)


def _refuse_no_rows(x: Any, *, what: str) -> None:
    """Raise for columns by name, sets, and frames that only another package can open."""
    remedy = None
    if isinstance(x, (Mapping, Set)):
        remedy = "pandas.DataFrame(x)" if isinstance(x, Mapping) else "a list of rows"
        if is_a(x, "xarray", "Dataset"):
            remedy = (
                f"x.to_dataframe(), or one of its variables, such as x[{next(iter(x), 'name')!r}]"
            )
        if home_of(x) == "h5py":  # a file, or a group in one
            remedy = f"one of its data sets, such as x[{next(iter(x), 'name')!r}]"
    elif is_a(x, "zarr", "Group"):
        remedy = f"one of its arrays, such as x[{next(iter(x.array_keys()), 'name')!r}]"
    elif hasattr(x, "__dataframe__") and not hasattr(x, "__array__"):
        remedy = "pandas.api.interchange.from_dataframe(x)"
    if remedy is not None and not isinstance(x, type):
        msg = f"{what} is {kind_of(x)}; an array, a list of rows or a data frame is needed. Pass {remedy}."
        raise NotNumbersError(msg)


def _require_unmasked(mask: Any, what: str, first: int = 0) -> None:
    """Raise with the place of the first masked value."""
    if not mask.any():
        return
    row, *columns = np.argwhere(mask)[0].tolist()
    place = f"row {first + row}" + "".join(f", column {j}" for j in columns)
    msg = f"{what} has {many(int(mask.sum()), 'masked value')}, the first in {place}."
    why = "Masked values are missing, and kernels need every value"
    remedy = f"{why}: drop those rows, or fill them in (X.filled, SimpleImputer)."
    raise InputError.saying(msg, remedy)


# ── texts ───────────────────────────────────────────────────────────────────
def refuse_text(X: Any) -> None:
    """Raise with the place of the first text, time or complex number of rows in memory."""
    array = X.to_numpy() if hasattr(X, "to_numpy") else X
    array = array if sparse.issparse(array) else np.asarray(array)
    names = getattr(X, "columns", None)
    # Those of the columns of a frame; a series has one dtype, by the same name.
    dtypes = X.dtypes if hasattr(X, "dtypes") and array.ndim == 2 else [array.dtype]
    for j, dtype in enumerate(dtypes):
        # Times of NumPy and pandas, or of polars.
        if getattr(dtype, "kind", "") in ("M", "m") or getattr(dtype, "is_temporal", bool)():
            remedy = "Drop that column, make it the index, or count the seconds from a start."
            refuse("X", dtype, "numbers", f"times, in column {named_column(j, names)}", remedy)
    if array.dtype.kind == "c":  # scikit-learn's sentence goes on with all the numbers
        msg = f"Complex data not supported: X must be real; got {array.dtype}. Pass X.real and X.imag."
        raise InputError(msg)
    if array.dtype.kind not in "OUS":
        return
    if array.ndim == 1 and len(array):
        _refuse_items(X, array)
    if array.ndim != 2:
        return
    if isinstance(X, (list, tuple)):  # NumPy writes numbers beside a text as texts
        array = np.asarray(X, dtype=object)
    for (i, j), value in np.ndenumerate(array):
        if _is_number(value) or (is_missing(value) and names is not None):
            continue
        place = f"in row {i}, column {named_column(j, names)}"
        if is_missing(value):
            remedy = "Drop those rows, or fill them in (SimpleImputer)."
            refuse("X", value, "finite", f"NaN, first {place}", remedy)
        if not isinstance(value, (str, bytes)):
            got = f"{kind_of(value)}, {value!r:.60}, {place}{_words_of_python(value)}"
            refuse_objects("X", value, "numbers", got, "Drop that column, or make numbers of it.")
        text = str(value) if isinstance(value, str) else value.decode(errors="replace")
        remedy = "Drop that column, or encode it (OneHotEncoder, OrdinalEncoder)."
        with suppress(ValueError):
            float(value)
            remedy = "Drop that column, or convert it if it has quantities: astype(float)."
        refuse("X", value, "numbers", f"text, {text!r} {place}", remedy)


def _is_number(value: Any) -> bool:
    """Whether a cell is a number, or None, which stands for a missing one."""
    # Texts and times of NumPy can be asked for a number.
    if isinstance(value, (str, bytes, np.ndarray, np.datetime64, np.timedelta64)):
        return False
    return value is None or hasattr(type(value), "__float__")


def _words_of_python(value: Any) -> str:
    """What Python has against a number of this; scikit-learn passes it on, and tests for it."""
    try:
        float(value)
    except TypeError as error:
        return f" ({error})"
    return ""


def _refuse_items(X: Any, items: Array) -> None:
    """Raise for a column of things that are no numbers: texts, graphs, or rows that are not yet stacked."""
    item = next((item for item in items if not _is_number(item)), None)
    if item is None:
        return
    is_text, n = isinstance(item, (str, bytes)), len(items)
    which = many(n, "text") if is_text else f"{many(n, 'thing')}, {kind_of(item)} among them"
    got = f"{kind_of(X)} of {which}"
    wanted, remedy = "rows of numbers, a 2-D array", "Pass np.stack(np.asarray(X))."
    if is_text or not isinstance(item, (Sequence, np.ndarray)):
        remedy = (
            "A kernel of things that are no points takes their kernel matrix: pass "
            "[[f(a, b) for b in X] for a in X] with kernel='precomputed'."
        )
    if isinstance(item, Mapping):
        remedy = "Pass pandas.DataFrame(list(X))."
    refuse_objects("X", X, wanted, got, remedy)


def named_column(j: int, names: Any) -> str:
    """The place of a column, and its name where it has one."""
    return str(j) if names is None else f"{j} ({names[j]!r})"


# ── sparse matrices ─────────────────────────────────────────────────────────
def require_sound(x: Any, *, what: str) -> None:
    """Raise unless every index of a sparse matrix lies inside of it; nothing of it is changed.

    SciPy's own ``check_format(full_check=True)`` asks the same of three formats, but prunes the matrix of
    the caller while it looks.
    """
    cause: Exception | None = None
    try:  # what has not two dimensions is refused by its shape
        sound = (x.ndim != 2 and x.format != "coo") or _is_sound(x)
    except (ValueError, IndexError, OverflowError) as error:
        sound, cause = False, error
    if not sound:
        kind = f"a {type(x).__name__} of shape {x.shape}"
        remedy = (
            "Look at how `indices`, `indptr` and `data` were set, or make it anew from its rows and columns "
            "with scipy.sparse.coo_array."
        )
        msg = f"{what} is {kind} whose indices lie outside of it, or whose arrays do not fit together."
        raise InputError.saying(msg, remedy) from cause


def _is_sound(x: Any) -> bool:
    if x.format in ("csr", "csc", "bsr"):
        tall, wide = reversed(x.shape) if x.format == "csc" else x.shape
        if x.format == "bsr":
            if x.data.ndim != 3 or not all(x.blocksize) or tall % x.blocksize[0]:
                return False
            tall, wide = tall // x.blocksize[0], wide // x.blocksize[1]
        return is_compressed(x.data, x.indices, x.indptr, int(tall), int(wide))
    if x.format == "coo":
        coords, n = x.coords, len(x.data)
        whole = all(c.ndim == 1 and c.dtype.kind in "iu" and len(c) == n for c in coords)
        return whole and len(coords) == len(x.shape) and all(map(_inside, coords, x.shape))
    if x.format == "dia":
        return x.data.ndim == 2 and len(x.offsets) == x.data.shape[0]
    # Only their conversion shows what lists and dictionaries of Python hold.
    return _is_sound(x.tocsr())


def is_compressed(data: Any, indices: Any, indptr: Any, tall: int, wide: int) -> bool:
    """Whether the arrays are a compressed matrix of `tall` rows (CSC: columns), each `wide` long."""
    parts = (data, indices, indptr)
    if not all(isinstance(part, np.ndarray) for part in parts) or 0 in (data.ndim, indices.ndim):
        return False
    if indices.ndim != 1 or indptr.ndim != 1 or {indices.dtype.kind, indptr.dtype.kind} != {"i"}:
        return False
    if min(tall, wide) < 0 or len(indptr) != tall + 1 or indptr[0] != 0:
        return False
    if np.any(indptr[1:] < indptr[:-1]) or indptr[-1] > min(len(indices), len(data)):
        return False
    return _inside(indices[: int(indptr[-1])], wide)


def _inside(indices: Any, length: int) -> bool:
    return len(indices) == 0 or bool(indices.min() >= 0 and indices.max() < length)
