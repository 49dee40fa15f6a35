"""Scores on their way out: whitened where that is asked for, finite, and written where they may be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError, refuse
from mercer._core.quick import changed
from mercer.data.rows import first_bad
from mercer.model.projection import Projection, holds
from mercer.monitoring.statistics import score_variances

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.kernels import Kernel
    from mercer.model import Fit


def score_spread(fit: Fit) -> Array:  # (k,)
    """The standard deviation of each score of the training rows, √(λ/(n - 1)): what whitening divides by."""
    return np.sqrt(score_variances(fit))


def whitened(fit: Fit) -> Projection:
    """The projection to scores of variance one: sections(x) @ (A/σ) - b/σ.

    The fit keeps axes of length one, on which distances in feature space rest.
    """
    own, spread = fit.projection, score_spread(fit)
    coef, offset = own.coef / spread, own.offset / spread  # float64
    sizes = (float(np.abs(a).max(initial=0.0)) for a in (coef, offset))
    dtype = own.coef.dtype if holds(own.coef.dtype, *sizes) else coef.dtype
    return changed(
        own, coef=coef.astype(dtype, copy=False), offset=offset.astype(dtype, copy=False)
    )


def require_scores(scores: Array, kernel: Kernel | None) -> None:
    """Raise where the values of a kernel, or the sums of them, are beyond the largest number."""
    bad = first_bad(scores)
    if bad is None:
        return
    of = "The scores" if kernel is None else f"Values of {kernel!r}"
    n = int(np.count_nonzero(~np.isfinite(scores).all(axis=1)))
    msg = (
        f"{of} overflow {scores.dtype} for {n} of {len(scores)} rows, the first of them row {bad[1]}, or are "
        "not a number (NaN) there. Such rows are far from all training rows, or the kernel is not defined "
        "there: drop them or look into them, or fit with a bounded kernel (RBF, Matern, Cosine)."
    )
    raise InputError(msg)


def check_out(out: Any, X: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    """Raise unless scores can be written to `out` as they are, without harm to the rows."""
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype:
        got = f"{out.shape} {out.dtype}" if isinstance(out, np.ndarray) else type(out).__name__
        refuse("out", out, f"an array of shape {shape} and {dtype}", got)
    if _overlaps(out, X):
        got = "one in the rows that are read, which scores would overwrite"
        refuse("out", out, "an array of its own", got)
    if not out.flags.writeable:
        remedy = "Open it for writing, such as np.lib.format.open_memmap(path, 'w+')."
        refuse("out", out, "an array to write to", "one that is read-only", remedy)


def _overlaps(out: Any, X: Any) -> bool:
    if isinstance(X, np.ndarray):
        return bool(np.may_share_memory(out, X))
    if isinstance(X, (str, os.PathLike)) and isinstance(out, np.memmap):
        mine = str(getattr(out, "filename", ""))
        return Path(X).expanduser().resolve() == Path(mine).resolve()
    return False
