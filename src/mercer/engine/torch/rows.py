"""Rows of the torch engine: on the device, all of them or a slice at a time as tiles are made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mercer._core.observer import SILENT, Observer
from mercer._core.types import Array, Rows
from mercer.data.rows import RowSource, SomeRows, row_blocks, row_slices
from mercer.engine.base import FLOAT64, NOTHING_KEPT, Resident, TileStore
from mercer.engine.native.program import Leaf, Program
from mercer.engine.numpy import HostRows
from mercer.engine.pairwise import SQUARABLE, origin_of
from mercer.engine.tiles import BAND, WHOLE, Part
from mercer.engine.torch.evaluate import values
from mercer.engine.torch.place import ROWS_SHARE, Place
from mercer.engine.torch.sending import SLOT_BYTES, ahead, is_staged
from mercer.engine.torch.tiles import KeptTiles

if TYPE_CHECKING:
    from torch import Tensor

    from mercer.engine.torch.fused import Halves

RECENT = BAND + 2  # slices that stay on the device where all rows do not
SENT_ROWS = 2**16  # rows that are sent at a time, unless they are long
AHEAD_SHARE = 16  # a block is sent ahead where so many of them fit in the device's free memory


class StoppedError(Exception):
    """A pass was stopped between two tiles: its caller has gone."""


class Side:
    """Some rows on the device, as each quantity of a formula takes them."""

    def __init__(
        self,
        n: int,
        like: Tensor,
        packed: dict[Leaf, tuple[Tensor, ...]],
        given: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        # The rows and their origin are given where quantities are yet to be taken of them.
        self.n, self.like, self._packed, self._given = n, like, packed, given
        self._most: dict[Leaf, float] = {}

    def __getitem__(self, i: slice) -> Side:
        """A view of some of them."""
        some = {leaf: tuple(each[i] for each in own) for leaf, own in self._packed.items()}
        return Side(i.stop - i.start, self.like, some)

    def all(self, program: Program) -> dict[Leaf, tuple[Tensor, ...]]:
        """All quantities of a formula."""
        for leaf in program.leaves:
            self.packed(leaf)
        for step in program.steps:
            if step.lengths is not None:
                self.inverse_lengths(step.lengths)
        return self._packed

    def packed(self, leaf: Leaf) -> tuple[Tensor, Tensor]:  # (n, d'), (n,)
        """The rows of a quantity and their squared norms, counted from the origin for distances."""
        if leaf not in self._packed:
            x, origin = self._columns(leaf)
            if leaf.kind == "sqdist":
                x = x - origin
            if leaf.unit_rows:  # divided by their largest numbers first: no square is out of range
                x = x.to(origin.dtype)
                top = x.abs().amax(dim=1, keepdim=True)
                x = x / top.where(top > 0, 1.0)
                x = x / x.norm(dim=1, keepdim=True).where(top > 0, 1.0)
            x = x.to(self.like.dtype)
            self._packed[leaf] = x, x.square().sum(dim=1)
        rows, norms = self._packed[leaf]
        return rows, norms

    def most(self, leaf: Leaf) -> float:
        if leaf not in self._most:
            _, norms = self.packed(leaf)
            self._most[leaf] = float(norms.max()) if self.n else 0.0
        return self._most[leaf]

    def inverse_lengths(self, leaf: Leaf) -> Tensor:  # (n,)
        """1/√u(x, x) of each row, and 0 for rows of zeros where that is zero.

        NaN where it is negative, or has lost digits to its range: such products are the host's.
        """
        if leaf not in self._packed:
            assert leaf.of is not None
            given = self._columns(leaf)
            own = values(Program.of(leaf.of), Side(self.n, self.like, {}, given))
            low, high = SQUARABLE[np.dtype(str(self.like.dtype).removeprefix("torch."))]
            inverse = own.rsqrt().where((own > low) & (own < high), float("nan"))
            none = (own == 0) & ~(given[0] != 0).any(dim=1)
            self._packed[leaf] = (inverse.where(~none, 0.0),)
        return self._packed[leaf][0]

    def _columns(self, leaf: Leaf) -> tuple[Tensor, Tensor]:
        """The columns of a quantity, of rows and origin."""
        assert self._given is not None  # whole rows have all quantities
        block, origin = self._given
        which = slice(None) if leaf.columns is None else list(leaf.columns)
        return block[:, which], origin[which]


class TorchRows(Resident):
    """Rows here, of which the device has copies that are ready for tiles: of all, or of slices."""

    def __init__(
        self,
        rows: Rows,
        dtype: Any,
        program: Program,
        place: Place,
        *,
        width: int | None = None,
        store: TileStore = NOTHING_KEPT,
        sliced: bool = False,
        part: Part = WHOLE,
    ) -> None:
        super().__init__(rows, dtype)
        self.program, self.place, self.width = program, place, width
        self.store, self.sliced, self.part = store, sliced, part
        self.kept: KeptTiles | None = None  # from the first product on
        self.halves: Halves | None = None  # likewise, of fused ones
        self.plain = False  # whether products of half floats have failed: tiles are used instead
        self.on_host = False  # whether the host computes on them: values are out of range
        self.here: HostRows | None = None  # the rows as it has them, where it had to
        self.narrowed: int | None = None  # width of tiles for which there was memory
        self.start = 0  # the row that `sides` begin with; those before it come last
        self.stop: threading.Event | None = None  # set when a product is not wanted any more
        self._whole: Side | None = None
        self._recent: dict[tuple[int, int], Side] = {}
        self._lock = threading.RLock()  # a model may transform on several threads

    @cached_property
    def origin(self) -> Array:  # (d,)
        """Where distances are counted from."""
        return origin_of(self.rows, self.dtype, self.program.sharpest)

    def about(self, origin: Array) -> TorchRows:
        """The same rows, counted from the origin of others; nothing of them is on the device yet."""
        if origin is self.origin:
            return self
        other = self._unsent()
        other.__dict__["origin"] = origin
        return other

    def _unsent(self) -> TorchRows:
        other = copy(self)
        other._whole, other._recent, other.kept, other.halves = None, {}, None, None
        return other

    def at(self, place: Place, part: Part = WHOLE) -> TorchRows:
        """The same rows for another device, or another part of the tiles; nothing of them is there yet."""
        other = self._unsent()
        other.place, other.part, other.here, other._lock = place, part, None, threading.RLock()
        return other

    def some(self, i: slice, place: Place) -> TorchRows:
        """Some of the rows, to meet others on a device."""
        other = self.at(place)
        other.rows = SomeRows(self.rows, i) if isinstance(self.rows, RowSource) else self.rows[i]
        other.n, other.d = other.shape = int(other.rows.shape[0]), self.d
        other.width = None
        return other

    def settle(self) -> None:
        """Send all rows to the device, if they are to stay there and there is room."""
        with self._lock:
            columns = sum(leaf.width(self.d) + 1 for leaf in self.program.leaves)
            fits = self.n * self.dtype.itemsize * columns <= self.place.free_bytes // ROWS_SHARE
            if self._whole is None and not self.sliced and fits:
                self._whole = self._sent()

    def sides(self, width: int) -> Iterator[Side]:
        """All rows, so many at a time; those that are not on the device leave it again."""
        if self._whole is not None:
            yield from (self._whole[i] for i in self._around(width))
            return
        blocks = None if not self.start else ((i, self.rows[i]) for i in self._around(width))
        yield from (side for _, _, side in self.sent_blocks(self.rows, width, blocks))

    def _around(self, width: int) -> Iterator[slice]:
        """Slices of all rows, from `start` to the end and then from the first to `start`."""
        for begin, end in ((self.start, self.n), (0, self.start)):
            for i in row_slices(end - begin, width):
                yield slice(begin + i.start, begin + i.stop)

    def narrow(self, width: int) -> None:
        """Do with less memory: narrower tiles, none kept yet, and slices of rows that could not be sent."""
        self.narrowed, self.kept, self.halves = width, None, None
        self.sliced = self.sliced or self._whole is None

    def _sent(self) -> Side:
        whole: dict[Leaf, tuple[Tensor, ...]] = {}
        height = max(1, min(SENT_ROWS, SLOT_BYTES // max(1, self._sent_bytes(self.rows, 1))))
        for i, _, side in self.sent_blocks(self.rows, height):
            for leaf, tensors in side.all(self.program).items():
                if side.n == self.n:
                    whole[leaf] = tensors
                    continue
                if leaf not in whole:
                    whole[leaf] = tuple(t.new_empty((self.n, *t.shape[1:])) for t in tensors)
                for to, each in zip(whole[leaf], tensors, strict=True):
                    to[i] = each
        return Side(self.n, self.place.zeros((), self.dtype), whole)

    def side(self, i: slice) -> Side:
        if self.stop is not None and self.stop.is_set():
            raise StoppedError
        key = i.start, i.stop
        with self._lock:
            side = self._recent.pop(key, None)
            if side is None:
                side = self.side_of(self.rows[i]) if self._whole is None else self._whole[i]
            self._recent[key] = side
            # Views of rows that stay take no memory, and know their largest norms.
            while self._whole is None and len(self._recent) > RECENT:
                del self._recent[next(iter(self._recent))]
        return side

    def side_of(self, rows: Rows) -> Side:
        """Rows that are new to the device, counted from the same origin."""
        return self._side(self._begun(rows)())

    def sent_blocks(
        self,
        x: Rows,
        height: int,
        blocks: Iterator[tuple[slice, Rows]] | None = None,
        observer: Observer = SILENT,
    ) -> Iterator[tuple[slice, Rows, Side]]:
        """Rows that are new to the device, so many at a time: their place, and they here and there.

        A GPU is sent the next ones while the caller computes on these. `blocks` are all rows in order, unless
        they are given.
        """
        origin = self.origin  # looked for first, since that may read rows
        blocks = row_blocks(x, height) if blocks is None else blocks

        def begin(block: tuple[slice, Rows]) -> tuple[slice, Rows, Callable[[], Tensor]]:
            return *block, self._begun(block[1])

        begun = ahead(blocks, begin) if self._is_read_ahead(x, height) else map(begin, blocks)
        for i, rows, arrived in begun:
            yield i, rows, self._side(arrived(), origin)
            observer.step(i.stop, int(x.shape[0]), "rows", None)

    def _is_read_ahead(self, x: Rows, height: int) -> bool:
        """Whether there is a GPU, and room for one more block on it and on the host.

        Batches are made by the caller's code, which may need the thread that it began on.
        """
        from_file = isinstance(x, RowSource)
        n_bytes = self._sent_bytes(x, min(height, int(x.shape[0])))
        in_order = from_file and not x.random_access
        if in_order or not is_staged(n_bytes) or self.place.ring is None:
            return False
        held = from_file or sparse.issparse(x)  # of an array there are views
        fits = n_bytes <= SLOT_BYTES or not held
        return fits and AHEAD_SHARE * n_bytes <= self.place.free_bytes

    def _sent_bytes(self, x: Rows, height: int) -> int:
        return height * int(x.shape[1]) * np.dtype(self._sent_dtype(x)).itemsize

    def _sent_dtype(self, x: Rows) -> np.dtype[Any]:
        """Shifted in the better precision, where the device has it: each float32 is a float64."""
        own: np.dtype[Any] = x.dtype.newbyteorder("=")
        return own if self.place.has_double else self.dtype

    def _begun(self, rows: Rows) -> Callable[[], Tensor]:
        """Rows that are on their way, by a call that gives them."""
        dense = rows.toarray() if sparse.issparse(rows) else rows
        return self.place.begin(dense, self._sent_dtype(rows))

    def _side(self, block: Tensor, origin: Array | None = None) -> Side:
        origin = self.origin if origin is None else origin
        given = block, self.place.tensor(origin.astype(FLOAT64), self.place.sums)
        return Side(len(block), self.place.zeros((), self.dtype), {}, given)

    def forget(self) -> None:
        """Slices of rows are of use within a pass; where all rows stay, from pass to pass."""
        with self._lock:
            if self._whole is None:
                self._recent.clear()
