"""The one fitted type: scores(x) = sections(x) @ coef - offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from mercer._core.types import Array, Rows
from mercer.data.rows import row_blocks
from mercer.engine.base import Engine
from mercer.operators.sections import Sections

# Rows whose scores are made before they are written to an array of the caller's.
OUT_ROWS = 4096
# Scores may be off by this much of their spread.
SCORE_ROUNDING = 1e-4


def projection_dtype(
    dtype: Any, terms: Array, spread: Array, sizes: Sequence[float] = ()
) -> np.dtype[Any]:
    """The precision of the rows, or float64 where it can't hold their terms or these cancel too much."""
    # A score is a sum of terms that may be much larger than itself: kernel values far from zero beside a
    # large offset, or large coefficients of either sign. `sizes` are the largest kernel value, coefficient or
    # the like, none of which may overflow, nor lose digits as a number below the smallest normal one does.
    if dtype == np.float64:  # which is all there is
        return np.dtype(dtype)
    eps = float(np.finfo(dtype).eps)
    enough = np.all(eps * terms <= SCORE_ROUNDING * spread) and holds(dtype, *sizes)
    return np.dtype(dtype) if enough else np.dtype(np.float64)


def holds(dtype: Any, *sizes: float) -> bool:
    """Whether a precision has room for numbers of these sizes, and for some 10⁴ times as large or small."""
    limits = np.finfo(dtype)
    low, high = float(limits.tiny) / SCORE_ROUNDING, float(limits.max) * SCORE_ROUNDING
    found = np.array(sizes)
    return bool(np.all((found <= 0.0) | ((low <= found) & (found <= high))))


@dataclass(frozen=True, repr=False)
class Projection:
    """scores(x) = sections(x) @ coef - offset: every fitted kernel PCA, whatever its route."""

    sections: Sections
    coef: Annotated[Array, "m k"]
    offset: Annotated[Array, "k"]

    @property
    def n_components(self) -> int:
        """The number of components, k."""
        return int(self.coef.shape[1])

    def __call__(self, x: Rows, out: Array | None = None) -> Array:  # (n, d) -> (n, k)
        """Scores of the rows x, rounded to the precision of the model's points; in `out` if it is given."""
        if out is None:
            scores = self.sections.times(x, self.coef)
            scores -= self.offset
            return scores
        for i, rows in row_blocks(x, OUT_ROWS):  # `out` may be a file, and larger than memory
            out[i] = self(rows)
        return out

    def on(self, engine: Engine[Any]) -> Projection:
        """The same projection, computed by another engine."""
        return replace(self, sections=self.sections.on(engine))

    def __repr__(self) -> str:
        return f"Projection({self.sections!r} -> {self.n_components} scores)"
