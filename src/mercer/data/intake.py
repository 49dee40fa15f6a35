"""What rows must be before any compiled code may touch them: read, unmasked, with indices in range.

NumPy drops a mask without a word, SciPy trusts the indices of a sparse matrix and reads past the end of
its buffers when they are wrong, a lazy table holds no rows at all, and a tensor may be on a device. Every
door asks here first.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError, many, refuse
from mercer._core.types import Array

# Queries that have not run: which object, and what makes rows of it.
LAZY = {
    ("polars", "LazyFrame"): "frame.collect(), or frame.sink_parquet(path) and the path",
    ("polars", "Expr"): "frame.select(expression)",
    ("duckdb", "DuckDBPyRelation"): "relation.df() or relation.to_arrow_table()",
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
    if sparse.issparse(x):
        require_sound(x, what=what)
        return x
    if is_tensor(x):
        return tensor_array(x, what=what)
    refuse_lazy(x, what=what)
    _refuse_no_rows(x, what=what)
    if isinstance(x, np.ma.MaskedArray):
        _require_unmasked(np.ma.getmaskarray(x), what)
        return np.ma.getdata(x)
    if isinstance(x, (list, tuple)):  # NumPy would join masked rows by their data
        if any(is_tensor(row) for row in x[:1]):  # and ask a tensor for one number after another
            return [tensor_array(row, what=f"{what}[{i}]") for i, row in enumerate(x)]
        for i, row in enumerate(x):
            _refuse_masked_row(row, what, i)
        _refuse_ragged(x, what)
    return x


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
        if type(x).__name__ == kind and is_a(x, package, kind):
            msg = f"{what} is a {package} {kind}, a query that has not run; rows are needed. Pass {remedy}."
            raise InputError(msg)
    home = type(x).__module__.partition(".")[0]
    streams = hasattr(x, "__arrow_c_stream__") and not isinstance(x, type)
    if streams and (hasattr(x, "read_all") or home not in ("pandas", "polars", "pyarrow")):
        msg = f"{what} is a {type(x).__name__}, an Arrow stream; a table is needed. Pass pyarrow.table(x)."
        raise InputError(msg)


def is_a(x: Any, module: str, kind: str) -> bool:
    """Whether this is an object of that module, without importing it: not loaded, it made none."""
    return isinstance(x, getattr(sys.modules.get(module), kind, ()))


def _refuse_no_rows(x: Any, *, what: str) -> None:
    """Raise for columns by name, sets, and frames that only another package can open."""
    remedy = None
    if isinstance(x, (Mapping, Set)):
        remedy = "pandas.DataFrame(x)" if isinstance(x, Mapping) else "a list of rows"
        if type(x).__module__.partition(".")[0] == "h5py":  # a file, or a group in one
            remedy = f"one of its data sets, such as x[{next(iter(x), 'name')!r}]"
    elif is_a(x, "zarr", "Group"):
        remedy = f"one of its arrays, such as x[{next(iter(x.array_keys()), 'name')!r}]"
    elif hasattr(x, "__dataframe__") and not hasattr(x, "__array__"):
        remedy = "pandas.api.interchange.from_dataframe(x)"
    if remedy is not None and not isinstance(x, type):
        kind = type(x).__name__
        msg = f"{what} is a {kind}; an array, a list of rows or a data frame is needed. Pass {remedy}."
        raise InputError(msg)


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
    if array.dtype.kind not in "OUS" or array.ndim != 2:
        return
    if isinstance(X, (list, tuple)):  # NumPy writes numbers beside a text as texts
        array = np.asarray(X, dtype=object)
    for (i, j), value in np.ndenumerate(array):
        if isinstance(value, (str, bytes)):
            text = str(value) if isinstance(value, str) else value.decode(errors="replace")
            got = f"text, {text!r} in row {i}, column {named_column(j, names)}"
            remedy = "Drop that column, or encode it (OneHotEncoder, OrdinalEncoder)."
            with suppress(ValueError):
                float(value)
                remedy = "Drop that column, or convert it if it has quantities: astype(float)."
            refuse("X", value, "numbers", got, remedy)


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


# ── arrays of other libraries (torch, CuPy, JAX), none of which is imported ──
# Kinds of memory that the processor reads, by the numbers of DLPack: its own, and pinned or managed by a GPU.
HOST_MEMORY = {1, 3, 11, 13}
SLICE_BYTES = 2**26  # that are copied from a device at a time
UNKNOWN = ("bfloat16", "float8", "float4")  # precisions that NumPy has not, and float32 holds


def is_tensor(x: Any) -> bool:
    """Whether this is an array of another library, that is, one with DLPack; Arrow's columns are none."""
    if isinstance(x, (np.ndarray, list, tuple, str, type)):
        return False
    return hasattr(x, "__dlpack__") and not hasattr(x, "__arrow_c_array__")


def tensor_array(x: Any, *, what: str) -> Array:
    """The numbers of a tensor in host memory: a view of it where it is there, else a copy made in slices.

    bfloat16 and narrower floats become float32, which holds them exactly. What records gradients is read
    without them. Raises an `InputError` for a tensor that is not a plain array.
    """
    kind = f"{type(x).__module__.partition('.')[0]} {type(x).__name__}"
    layout = str(getattr(x, "layout", ""))
    if "sparse" in layout:
        which = f"of the layout {layout.rpartition('.')[2]}"
        msg = f"{what} is a {kind} {which}, but sparse rows are read from SciPy alone."
        raise InputError.saying(msg, f"Pass a scipy.sparse.csr_array, or {what}.to_dense().")
    try:
        x = x.detach() if hasattr(x, "detach") else x
        on_host = int(x.__dlpack_device__()[0]) in HOST_MEMORY
        return _view(_plain(x)) if on_host else _copied(x)
    except Exception as error:  # whatever another library raises
        first = re.split(r"(?<=[.!])\s|\n", f"{error}".strip(), maxsplit=1)[0].rstrip(".!")
        why = first or type(error).__name__
        msg = f"{what} is a {kind} that can't be read as an array ({why})."
        remedy = "Pass a plain one in memory, such as a NumPy array."
        raise InputError.saying(msg, remedy) from error


def _view(x: Any) -> Array:
    found: Any = np.from_dlpack(x)
    return found


def _plain(x: Any) -> Any:
    """The same numbers in a precision that NumPy has, computed where they are only announced (-x, torch)."""
    x = x.resolve_neg() if hasattr(x, "resolve_neg") else x
    if not any(name in str(x.dtype) for name in UNKNOWN):
        return x
    return x.float() if hasattr(x, "float") else x.astype("float32")


def _copied(x: Any) -> Array:
    """The numbers of a device, a slice at a time: what is in flight, or widened there, is a small part."""
    n = int(x.shape[0]) if x.ndim else 0
    if n == 0:
        return _fetched(x)
    first = _fetched(x[:1])
    found = np.empty((n, *first.shape[1:]), dtype=first.dtype)
    height = max(1, SLICE_BYTES // max(1, first.nbytes))
    for start in range(0, n, height):
        found[start : start + height] = _fetched(x[start : start + height])
    return found


def _fetched(x: Any) -> Array:
    """A part of a device's array in host memory, as its library sends it."""
    x = _plain(x)
    if hasattr(x, "cpu"):  # torch
        return _view(x.cpu())
    return np.asarray(x.get() if hasattr(x, "get") else x)  # CuPy, JAX
