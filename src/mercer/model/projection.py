"""The one fitted type: scores(x) = sections(x) @ coef - offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer.engine.threads import n_blas_threads, share_out
from mercer.engine.tiles import row_slices

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercer._core.types import Array, Rows
    from mercer.operators.sections import Sections

# Sections of one slice of rows: large enough for the product to run at speed, small beside the model.
SLICE_BYTES = 32 * 2**20


@dataclass(frozen=True, repr=False)
class Projection:
    """scores(x) = sections(x) @ coef - offset: every fitted kernel PCA, whatever its route."""

    sections: Sections
    coef: Array  # (m, k)
    offset: Array  # (k,)

    @property
    def n_components(self) -> int:
        """K."""
        return int(self.coef.shape[1])

    def __call__(self, x: Rows) -> Array:  # (b, d) -> (b, k)
        """Scores of the rows x, slice by slice."""
        out = np.empty((x.shape[0], self.n_components), dtype=self.coef.dtype)
        n_threads = n_blas_threads() if self.sections.parallel else 1
        bytes_a_row = max(1, self.sections.width * self.coef.itemsize * n_threads)
        rows = max(1, min(4096, SLICE_BYTES // bytes_a_row))

        def hand(slices: Iterable[slice]) -> None:
            for i in slices:
                np.matmul(self.sections(x[i]), self.coef, out=out[i])
                out[i] -= self.offset

        share_out(hand, row_slices(x.shape[0], rows), n_threads=n_threads)
        return out

    def __repr__(self) -> str:
        return f"Projection({self.sections!r} -> {self.n_components} scores)"
