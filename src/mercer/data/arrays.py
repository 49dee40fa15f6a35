"""Arrays of other libraries, none of which is imported: which are arrays, which tables, and their numbers.

What converts to an array is that array, whichever other protocols it has: Arrow's stream of an array is a
long table of its cells. A stream is read as a table only from what is no array.
"""

from __future__ import annotations

import re
import sys
from typing import Any, NoReturn

import numpy as np

from mercer._core.errors import InputError, kind_of, with_article
from mercer._core.types import Array

# Arrays of other libraries whose numbers are not all there, and what makes a whole one.
FILLED = "ak.to_numpy(x) once ak.pad_none and ak.fill_none have made all rows whole"
WHOLE_ARRAY = {
    ("awkward", "Array"): FILLED,
    ("sparse", "SparseArray"): "x.todense(), or a scipy.sparse.csr_array",
}
ARRAYS = ("__array__", "__array_interface__", "__dlpack__")
# Kinds of memory that the processor reads, by the numbers of DLPack: its own, and pinned or managed by a GPU.
HOST_MEMORY = {1, 3, 11, 13}
SLICE_BYTES = 2**26  # that are copied from a device at a time
UNKNOWN = ("bfloat16", "float8", "float4")  # precisions that NumPy has not, and float32 holds


def is_a(x: Any, module: str, kind: str) -> bool:
    """Whether this is an object of that module, without importing it: not loaded, it made none."""
    return isinstance(x, getattr(sys.modules.get(module), kind, ()))


def home_of(x: Any) -> str:
    """The package that a thing is of; empty for arrays of ctypes, which have no module."""
    return (type(x).__module__ or "").partition(".")[0]


def unwrapped(x: Any) -> Any:
    """What an array of xarray has beside its coordinates: numbers in memory, or in chunks of dask."""
    wraps = any(is_a(x, "xarray", kind) for kind in ("DataArray", "Variable"))
    return x.data if wraps else x


def is_table(x: Any) -> bool:
    """Whether this hands out columns by Arrow's protocol, and is no array."""
    streams = any(hasattr(x, f"__arrow_c_{kind}__") for kind in ("stream", "array"))
    if not streams or isinstance(x, type):
        return False
    if is_a(x, "pyarrow", "StructArray") or hasattr(x, "__dataframe__"):
        return True
    return not any(hasattr(x, protocol) for protocol in ARRAYS)


class NotNumbersError(InputError, TypeError):
    """Rows hold what is no number, for which NumPy and scikit-learn raise a TypeError."""


def refuse_objects(parameter: str, value: Any, must_be: str, got: str, remedy: str) -> NoReturn:
    """Raise for objects that no number can be made of."""
    raise NotNumbersError.about(parameter, value, must_be=must_be, got=got, remedy=remedy) from None


def as_array(x: Any, *, what: str) -> Any:
    """Anything that is no frame and no list as NumPy's array, with its mask where it has one."""
    try:
        array = x if isinstance(x, np.ndarray) else np.asanyarray(x)
    except Exception as error:  # whatever another library raises
        ways = (way for (package, kind), way in WHOLE_ARRAY.items() if is_a(x, package, kind))
        way = next(ways, "x.to_numpy()" if hasattr(x, "to_numpy") else "a NumPy array")
        kind = with_article(f"{home_of(x)} {type(x).__name__}")
        msg = f"{what} is {kind} that can't be read as an array ({_first(error)})."
        raise InputError.saying(msg, f"Pass {way}.") from error
    wanted, remedy = "rows of numbers", "Pass an array, a list of rows or a data frame."
    if array.ndim == 0 and array.dtype.kind not in "biufc":
        refuse_objects(what, x, wanted, kind_of(x), remedy)
    if array.dtype.kind == "V":
        remedy = "Pass numpy.lib.recfunctions.structured_to_unstructured(x)."
        refuse_objects(what, x, wanted, f"records, of dtype {array.dtype}", remedy)
    return with_nan(array)


def is_missing(value: Any) -> bool:
    """Whether this is NA of pandas, which stands for a number that is missing."""
    return is_a(value, "pandas._libs.missing", "NAType")


def with_nan(array: Array) -> Array:
    """The same array, with NaN where one of objects has NA of pandas."""
    if array.dtype.kind != "O" or "pandas" not in sys.modules:
        return array
    missing = np.frompyfunc(is_missing, 1, 1)(array).astype(bool)
    return np.where(missing, np.nan, array) if missing.any() else array


# ── tensors (torch, CuPy, JAX) ──────────────────────────────────────────────
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
    kind = with_article(f"{home_of(x)} {type(x).__name__}")
    layout = str(getattr(x, "layout", ""))
    if "sparse" in layout:
        which = f"of the layout {layout.rpartition('.')[2]}"
        msg = f"{what} is {kind} {which}, but sparse rows are read from SciPy alone."
        raise InputError.saying(msg, f"Pass a scipy.sparse.csr_array, or {what}.to_dense().")
    try:
        x = x.detach() if hasattr(x, "detach") else x
        on_host = int(x.__dlpack_device__()[0]) in HOST_MEMORY
        return _view(_plain(x)) if on_host else _copied(x)
    except Exception as error:  # whatever another library raises
        msg = f"{what} is {kind} that can't be read as an array ({_first(error)})."
        remedy = "Pass a plain one in memory, such as a NumPy array."
        raise InputError.saying(msg, remedy) from error


def _first(error: Exception) -> str:
    """The first sentence of an error."""
    first = re.split(r"(?<=[.!])\s|\n", f"{error}".strip(), maxsplit=1)[0].rstrip(".!")
    return first or type(error).__name__


def _view(x: Any) -> Array:
    found: Any = np.from_dlpack(x)
    return found


def _plain(x: Any) -> Any:
    """The same numbers in a precision that NumPy has, computed where they are only announced (-x, torch)."""
    x = x.resolve_neg() if hasattr(x, "resolve_neg") else x
    precision = str(getattr(x, "dtype", ""))  # which Arrow's tensor has not
    if not any(name in precision for name in UNKNOWN):
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
