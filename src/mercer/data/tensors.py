"""Arrays of other libraries (torch, CuPy, JAX), read through DLPack: no copy where they are in host memory.

None of these libraries is imported: what is asked of an array are its own methods.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.types import Array

# Kinds of memory that the processor reads, by the numbers of DLPack: its own, and pinned or managed by a GPU.
HOST_MEMORY = {1, 3, 11, 13}
SLICE_BYTES = 2**26  # that are copied from a device at a time
UNKNOWN = ("bfloat16", "float8", "float4")  # precisions that NumPy has not, and float32 holds


def is_tensor(x: Any) -> bool:
    """Whether this is an array of another library, that is, one with DLPack; Arrow's columns are none."""
    if isinstance(x, (np.ndarray, list, tuple, str, type)):
        return False
    return hasattr(x, "__dlpack__") and not hasattr(x, "__arrow_c_array__")


def tensor_array(x: Any, *, what: str = "X") -> Array:
    """The numbers of a tensor in host memory: a view of it where it is there, else a copy made in slices.

    bfloat16 and narrower floats become float32, which holds them exactly. What records gradients is read
    without them. Raises an `InputError` for a tensor that is not a plain array.
    """
    kind = f"{type(x).__module__.partition('.')[0]} {type(x).__name__}"
    layout = str(getattr(x, "layout", ""))
    if "sparse" in layout:
        msg = (
            f"{what} is a {kind} of the layout {layout.rpartition('.')[2]}, but sparse rows are read from "
            f"SciPy alone. Pass a scipy.sparse.csr_array, or {what}.to_dense()."
        )
        raise InputError(msg)
    try:
        x = x.detach() if hasattr(x, "detach") else x
        on_host = int(x.__dlpack_device__()[0]) in HOST_MEMORY
        return _view(_plain(x)) if on_host else _copied(x)
    except Exception as error:  # whatever another library raises
        first = re.split(r"(?<=[.!])\s|\n", f"{error}".strip(), maxsplit=1)[0].rstrip(".!")
        msg = (
            f"{what} is a {kind} that can't be read as an array ({first or type(error).__name__}). Pass a "
            "plain one in memory, such as a NumPy array."
        )
        raise InputError(msg) from error


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
