"""The one fitted type: scores(x) = sections(x) @ coef - offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.engine.numpy import POINTS
from mercer.engine.passes import map_rows
from mercer.engine.threads import n_blas_threads
from mercer.planning.bytes import SLICE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer._core.types import Array, Rows
    from mercer.operators.sections import Sections


# What a thread should have to do: ten rows against 10 000 points took 81 ms on 16 threads, 7 on two.
ROWS_A_THREAD, ENTRIES_A_THREAD = 64, 2**18
# A slice has so many rows, however many threads share `SLICE_BYTES`: with 61 rows in each of 16 slices the
# threads waited for the interpreter (5000 rows against 5000 points: 152 ms, and 42 with 256 rows).
SLICE_ROWS = 256
# Scores may be off by this much of their spread.
SCORE_ROUNDING = 1e-4


def projection_dtype(
    dtype: Any, terms: Array, spread: Array, sizes: Sequence[float] = ()
) -> np.dtype[Any]:
    """The precision of the rows, or float64 where it can't hold their terms or these cancel too much for it.

    A score is a sum of terms that may be much larger than itself: kernel values far from zero beside a
    large offset, or large coefficients of either sign. `sizes` are the largest kernel value, coefficient or
    the like, none of which may overflow, nor lose digits as a number below the smallest normal one does.
    """
    eps = float(np.finfo(dtype).eps)
    enough = np.all(eps * terms <= SCORE_ROUNDING * spread) and holds(dtype, *sizes)
    return np.dtype(dtype) if enough else np.dtype(np.float64)


def holds(dtype: Any, *sizes: float) -> bool:
    """Whether a precision has room for numbers of these sizes, and for some 10⁴ times as large or small."""
    limits = np.finfo(dtype)
    low, high = float(limits.tiny) / SCORE_ROUNDING, float(limits.max) * SCORE_ROUNDING
    return all(low <= size <= high for size in sizes if size > 0.0)


@dataclass(frozen=True, repr=False)
class Projection:
    """scores(x) = sections(x) @ coef - offset: every fitted kernel PCA, whatever its route."""

    sections: Sections
    coef: Array  # (m, k)
    offset: Array  # (k,)

    @property
    def n_components(self) -> int:
        """The number of components, k."""
        return int(self.coef.shape[1])

    def __call__(
        self, x: Rows, out: Array | None = None, *, n_threads: int | None = None
    ) -> Array:  # (b, d) -> (b, k)
        """Scores of the rows x, slice by slice; into `out` where it is given.

        On at most `n_threads` threads: a plan's, during a fit; those that BLAS may use otherwise.
        """
        if out is None:
            out = np.empty((x.shape[0], self.n_components), dtype=self.coef.dtype)
        n_threads = self._n_threads(int(x.shape[0]), n_threads or n_blas_threads())
        width = min(self.sections.width, POINTS)
        rows = max(1, SLICE_BYTES // (width * self.coef.itemsize))
        height = min(4096, max(rows // n_threads, min(rows, SLICE_ROWS)))
        # Rows are rounded to the precision of the model's points.
        dtype = self.coef.dtype
        map_rows(x, self._scores, out, height=height, n_threads=n_threads, dtype=dtype)
        return out

    def _scores(self, rows: Rows) -> Array:
        return self.sections.times(rows, self.coef) - self.offset

    def _n_threads(self, b: int, most: int) -> int:
        """As many as have entries enough to make; each of them makes the points ready for its own rows."""
        if not self.sections.parallel:
            return 1
        paying = min(b // ROWS_A_THREAD, b * self.sections.width // ENTRIES_A_THREAD)
        return max(1, min(most, paying))

    def __repr__(self) -> str:
        return f"Projection({self.sections!r} -> {self.n_components} scores)"
