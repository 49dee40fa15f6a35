"""k(X, Z) written out: what the steps of a pass over rows take of a block of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.engine.native.passes import Pass

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.engine.native.rows import NativeRows


class Written(Pass):
    """[k(x_i, z_j)].

    Points are packed for each block anew: they are few, and a block has thousands of rows. So nothing is
    remembered from block to block, and a step that holds the engine pickles as before.
    """

    def __init__(self, x: NativeRows, z: NativeRows) -> None:
        super().__init__(x, z)
        self.matrix = np.empty((x.n, z.n), dtype=x.dtype)
        job, (below, beside) = self.job, self.blocks
        job.matrix, job.stride = self._address(self.matrix), z.n
        job.group, job.n_tickets = beside, below  # a ticket is a block of rows against all points

    def run(self, n_threads: int) -> Array | None:
        """The matrix; None where values are out of range, which NumPy knows how to reach or to refuse."""
        self._drawn(n_threads)
        # A finite sum has finite terms; an infinite one may have, and is looked through.
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(self.matrix.sum()) or np.isfinite(self.matrix).all()
        return self.matrix if finite else None
