"""Rows of the cluster's engine, before and after they are dealt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer.data.rows import take_rows

if TYPE_CHECKING:
    from mercer._core.types import Indices, Rows
    from mercer.engine.dask import hands
    from mercer.engine.dask.shares import Placement
    from mercer.engine.dask.work import Work
    from mercer.engine.numpy import HostRows


class ClusterRows:
    """Rows for tiles: here, in a file or on workers; what workers make of them is made when it is needed."""

    def __init__(self, rows: Rows, cut: hands.Cut) -> None:
        self.rows, self.cut, self.dtype = rows, cut, cut.dtype
        self.n, self.d = self.shape = int(rows.shape[0]), int(rows.shape[1])
        rounding = None if cut.store is None else cut.store.rounding
        self.of_halves = rounding is not None and rounding.halves > 0  # as a fit has planned
        self.here: HostRows | None = None  # for what is short
        # From the first long product on: their placement, hands, and the engine that these compute with.
        self.where: Placement | None = None
        self.dealt: Work | None = None
        self.local: hands.Local | None = None

    def take(self, indices: Indices) -> Rows:
        """A few rows."""
        return take_rows(self.rows, indices).astype(self.dtype, copy=False)
