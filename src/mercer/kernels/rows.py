"""Rows of points from whatever a caller hands over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError
from mercer.data.frames import frame_package, frame_rows, held
from mercer.data.intake import admitted
from mercer.data.rounding import warn_rounded

if TYPE_CHECKING:
    from mercer._core.types import Rows


def as_rows(X: Any) -> Rows:
    """A two-dimensional floating array (or CSR matrix) from whatever a caller hands over."""
    X = held(X)
    if frame_package(X) == "pyarrow":
        X, _ = frame_rows(X, None, what="X")
    X = admitted(X)
    x = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    if x.dtype.kind == "c":
        msg = f"Complex data ({x.dtype}) came; real numbers were needed. Use X.real, or stack both parts."
        raise InputError(msg)
    if x.ndim != 2:
        msg = (
            f"Rows of points were needed, a 2-D array, but a {x.ndim}-D array of shape {x.shape} came. "
            "Use X.reshape(-1, 1) for one feature or X.reshape(1, -1) for one point."
        )
        raise InputError(msg)
    if x.dtype not in (np.float32, np.float64):
        warn_rounded(X)
        try:
            with np.errstate(over="ignore"):  # of a long double; the check for infinity finds it
                x = x.astype(np.float64)
        except (TypeError, ValueError) as error:
            msg = f"Numbers were needed, but the array has dtype {x.dtype}: {error}."
            raise InputError(msg) from error
    return x


def as_given(X: Any, rows: Rows) -> Rows:
    """The rows of X as X is: a csr_matrix where it was a sparse matrix of the old kind."""
    return sparse.csr_matrix(rows) if isinstance(X, sparse.spmatrix) else rows


def in_one_dtype(x: Rows, y: Rows) -> tuple[Rows, Rows]:
    """Both in the better precision of the two."""
    dtype = np.result_type(x.dtype, y.dtype)
    return x.astype(dtype, copy=False), y.astype(dtype, copy=False)


def stacked(x: Rows, y: Rows) -> Rows:
    """The rows of one after those of the other."""
    if sparse.issparse(x) or sparse.issparse(y):
        return sparse.csr_array(sparse.vstack([x, y]))
    return np.concatenate([x, y])
