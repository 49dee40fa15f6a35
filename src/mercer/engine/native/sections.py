"""k(X, Z) written out: what the steps of a pass over rows take of a block of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.engine.base import TileKernel
    from mercer.engine.native.engine import NativeEngine


def written(
    engine: NativeEngine, kernel: TileKernel, x: Rows, z: Rows, n_threads: int
) -> Array | None:  # (b, d), (m, d) -> (b, m)
    """[k(x_i, z_j)] by the library in the precision of the rows; None where NumPy has to make it.

    Points are packed for each block anew: they are few, and a block has thousands of rows. So nothing is
    remembered from block to block, and a step that holds the engine pickles as before.
    """
    from mercer.engine.native.engine import NativeRows, _Pass  # which imports this file

    if x.dtype != z.dtype:
        return None
    rows, points = engine.load(x, kernel, x.dtype), engine.load(z, kernel, x.dtype)
    if not (isinstance(rows, NativeRows) and isinstance(points, NativeRows)):
        return None
    work = _Pass(rows, points)
    matrix = np.empty((rows.n, points.n), dtype=rows.dtype)
    below, beside = work.blocks
    job = work.job
    job.matrix, job.stride = work._address(matrix), points.n
    job.group, job.n_tickets = beside, below  # a ticket is a block of rows against all points
    work._drawn(n_threads)
    # A finite sum has finite terms; an infinite one may have, and is looked through.
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(matrix.sum()) or np.isfinite(matrix).all()
    return matrix if finite else None
