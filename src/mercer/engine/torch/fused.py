"""Fused passes on a GPU: halves of rows and vectors, and the pass of `source` over them.

They make the rough products of a `TileStore` that rounds to half floats, and those of two a number.
"""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mercer._core.types import Array, Rows
from mercer.data.rows import row_blocks, row_slices
from mercer.engine.base import FLOAT32, TileKernel
from mercer.engine.halves import COLUMNS, PAD, SPLIT, band_rows, grid, is_mirrored, padded_columns
from mercer.engine.native.engine import program_of
from mercer.engine.native.program import Program
from mercer.engine.pairwise import ROUNDING
from mercer.engine.torch.evaluate import values
from mercer.engine.torch.place import Place
from mercer.engine.torch.rows import Side, TorchRows
from mercer.engine.torch.source import LOW, is_shifted, source, why_not_fused
from mercer.engine.torch.tuned import Blocks, Choices, PassClass, compiled_for, is_long, trials_of
from mercer.engine.torch.vectors import found_for

if TYPE_CHECKING:
    from torch import Tensor

Given: TypeAlias = "tuple[Tensor, ...]"
Numbers: TypeAlias = "tuple[float, ...]"


# ── two half floats a number, high + low · 2⁻¹¹ over a power of two: 22 bits of the largest ────────────────
# Half floats have fifteen bits of sizes: eleven digits are left of rows this many times as small as others.
ALIKE = 2.0**8


def shrunk(halves: list[Tensor], shares: Tensor) -> None:
    """Multiply rows by powers of two, in place; what a high part is too small for goes to the low one."""
    high, low = halves[0], halves[1] if len(halves) > 1 else None
    for i in row_slices(len(high), max(1, SPLIT // high.shape[1])):
        share = shares[i, None]
        exact = high[i].float() * share  # of float32, which has the range
        high[i] = exact.half()
        if low is not None:
            low[i] = low[i].float().mul_(share).add_((exact - high[i].float()) / LOW).half()


def squared_norms(high: Tensor, low: Tensor | None, scales: Tensor) -> Tensor:  # (n,)
    """Squared norms of the rows as they are here; what is in float64 on the way is large."""
    norms = scales.clone()
    for i in row_slices(len(high), max(1, SPLIT // high.shape[1])):
        kept = high[i].double()
        if low is not None:
            kept += low[i].double() * LOW
        norms[i] = (kept.square_().sum(dim=1) * scales[i].double().square()).float()
    return norms


def split(x: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """High and low half floats of x over a power of two of each row (dim=1) or column (dim=0), and those."""
    import torch

    top = x.abs().amax(dim=dim, keepdim=True).double()
    _, power = torch.frexp(top)
    scale = torch.ldexp(torch.ones_like(top), power)  # above the largest: nothing overflows
    y = x.double() / scale
    high = y.to(torch.float16)
    low = ((y - high.double()) / LOW).to(torch.float16)
    return high, low, scale.squeeze(dim).float()


def padded(x: Tensor, wide: int = 0) -> Tensor:
    """The tensor with rows of zeros to a multiple of PAD, and so many columns of them."""
    import torch

    beside = (0, wide) if x.ndim == 2 else ()
    return torch.nn.functional.pad(x, (*beside, 0, -len(x) % PAD)).contiguous()


# ── rows ────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, eq=False, repr=False)
class Halves:
    """Rows as high + low half floats times powers of two, and what a formula needs beside them."""

    n: int
    high: Tensor  # (padded, D) float16
    low: Tensor | None  # of precise products
    scales: Tensor  # (padded,) float32
    scale: float | None  # that of all rows, where they have one
    norms: tuple[Tensor, Tensor]  # of high, and of both: equal rows are at distance 0 in either
    lengths: Tensor  # 1/√u(x, x) where the formula divides by it
    own: Tensor  # k(x, x)

    def first(self, rows: int) -> Halves:
        """Some of them, as views: at most so many, a multiple of `PAD`."""
        if rows >= self.n:
            return self
        low = None if self.low is None else self.low[:rows]
        norms = self.norms[0][:rows], self.norms[1][:rows]
        own = self.scale, norms, self.lengths[:rows], self.own[:rows]
        return Halves(rows, self.high[:rows], low, self.scales[:rows], *own)

    def tensors(self, *, precise: bool) -> tuple[Tensor, ...]:
        low = self.high if self.low is None else self.low
        return self.high, low, self.scales, self.norms[precise], self.lengths

    @classmethod
    def of(cls, program: Program, sides: Iterable[Side], n: int, *, precise: bool) -> Halves:
        """The n rows of some sides; about their origin where nothing but distances is taken of them."""
        import torch

        kind = "sqdist" if is_shifted(program) else "dot"
        leaf = next(leaf for leaf in program.leaves if leaf.kind == kind)
        lengths_of = next((step.lengths for step in program.steps if step.lengths), None)
        halves: list[Tensor] = []  # high, and low
        beside: list[Tensor] = []  # scales, 1/√u(x, x), k(x, x)
        start = 0
        for side in sides:
            x, _ = side.packed(leaf)
            if not halves:
                shape = n + -n % PAD, x.shape[1] + -x.shape[1] % Blocks.usual(x.shape[1]).BK
                halves = [x.new_zeros(shape, dtype=torch.float16) for _ in range(1 + precise)]
                beside = [x.new_zeros(shape[0], dtype=torch.float32) for _ in range(3)]
            i = slice(start, start + side.n)
            high, low, beside[0][i] = split(x, dim=1)
            for to, each in zip(halves, (high, low), strict=False):
                to[i, : x.shape[1]] = each
            if lengths_of is not None:
                beside[1][i] = side.inverse_lengths(lengths_of).float()
            beside[2][i] = values(program, side).float()
            start += side.n
        return cls._settled(n, halves, *beside)

    @classmethod
    def _settled(
        cls, n: int, halves: list[Tensor], scales: Tensor, lengths: Tensor, own: Tensor
    ) -> Halves:
        """Halves with one scale for all rows where that can be, and the norms of what they have become."""
        least, most = float(scales[:n].min()), float(scales[:n].max())
        scale = most if most <= ALIKE * least else None
        if scale is not None:
            shrunk(halves, scales / scale)
            scales.fill_(scale)
        high, low = halves[0], halves[1] if len(halves) > 1 else None
        norms = squared_norms(high, None, scales), squared_norms(high, low, scales)
        return cls(n, high, low, scales, scale, norms, lengths, own)


@lru_cache(maxsize=32)
def compiled_passes(text: str) -> dict[str, Any]:
    """The functions of a text. Triton compiles at a first call, and reads the text by its file's name."""
    name = f"<mercer {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    space: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec"), space)
    return space


def is_fused(x: TorchRows, *, precise: bool) -> bool:
    """Whether products with k(X, X) are to be made of half floats, and can be."""
    return x.store.halves > precise and why_not_fused(x.program, precise=precise) is None


def halves_for(kernel: TileKernel) -> int:
    """Half floats a number of which products with the matrix of a kernel can be made: 0, 1 or 2."""
    program = program_of(kernel)
    if isinstance(program, str):
        return 0
    return sum(why_not_fused(program, precise=precise) is None for precise in (False, True))


def fused_product(
    x: TorchRows,
    v: Array,
    z: TorchRows | None = None,
    *,
    precise: bool,
    share: slice | None = None,
    choices: Choices | None = None,
) -> Array:  # (m, k) -> (n, k)
    """(K - c) @ V, or k(X, Z) @ V, by half floats: all rows, or a share with which the sides of X begin."""
    rows = whole = halves_of(x)
    if share is not None:
        rows = replace(whole, n=share.stop - share.start)
    own: Any = {"precise": precise, "choices": choices}
    if z is not None:
        return fused_times(x.program, rows, halves_of(z.about(x.origin)), v, x.place, **own)
    if share is not None:
        v = np.concatenate([v[share.start :], v[: share.start]], axis=0)
    return fused_times(x.program, rows, whole, v, x.place, minus=x.store.minus, **own)


def sections_times(
    rows: Rows, z: TorchRows, v: Array, *, choices: Choices | None = None
) -> Array | None:  # (n, d), (m, k) -> (n, k)
    """k(X, Z) @ V of new rows by two half floats a number; None where float32 tiles keep more digits.

    Nothing proves such a product, as a fit's are proved: it is made where it is as good as tiles.
    """
    points, tall = halves_of(z, precise=True), _split_rows(z)
    sides = (z.side_of(some) for _, some in row_blocks(rows, tall))
    own = Halves.of(z.program, sides, int(rows.shape[0]), precise=True)
    lost = z.program.sharpest * float(own.norms[1].max() + points.norms[1].max())
    if not lost <= ROUNDING[FLOAT32]:  # of a distance: tiles would subtract rows first; NaN neither
        return None
    product = fused_times(z.program, own, points, v, z.place, precise=True, choices=choices)
    return product if np.isfinite(product).all() else None


def halves_of(x: TorchRows, *, precise: bool | None = None) -> Halves:
    """The half floats of all rows, made once: `precise`, or as many a number as a fit has planned."""
    if x.halves is None:
        precise = x.store.halves > 1 if precise is None else precise
        x.halves = Halves.of(x.program, x.sides(_split_rows(x)), x.n, precise=precise)
    return x.halves


def _split_rows(x: TorchRows) -> int:
    return max(1, SPLIT // max(1, x.d))


def fused_times(
    program: Program,
    x: Halves,
    z: Halves,
    v: Array,
    place: Place,
    *,
    precise: bool,
    minus: float = 0.0,
    choices: Choices | None = None,
) -> Array:  # (n, k)
    """(k(X, Z) - c) @ V; X and Z that are one object have the diagonal of K from k(x, x)."""
    import torch

    own: dict[str, Any] = {"precise": precise, "minus": minus, "choices": choices}
    right = place.tensor(v, FLOAT32).split(COLUMNS, dim=1)
    parts = [fused_columns(program, x, z, some, **own) for some in right]
    return found_for(v, torch.cat(parts, dim=1))


def fused_columns(
    program: Program,
    x: Halves,
    z: Halves,
    v: Tensor,
    *,
    precise: bool,
    minus: float = 0.0,
    blocks: Blocks | None = None,
    choices: Choices | None = None,
    mirror: bool | None = None,
) -> Tensor:  # (m, k) -> (n, k) float64
    """The same of at most `COLUMNS` columns, on the device; `mirror`: each tile for both sides of K."""
    mirrors = x is z and is_mirrored(x.n, x.high.shape[1]) if mirror is None else mirror
    text = source(program, precise=precise)
    launch = Launch.of(text, x, z, v, precise=precise, mirrors=mirrors, minus=minus)
    order = (blocks,) if blocks else launch.usual.smaller
    if blocks is None and choices is not None and is_long(x.n, z.n):
        best = choices.blocks(launch.kind, launch.usual, trials_of(launch))
        order = tuple(dict.fromkeys((best, *order)))  # the table's stand in, whatever a file says
    *tried, last = order
    for cut in tried:
        try:
            return launch(cut)
        except Exception as error:  # Triton's own, of a module that is not imported here
            if type(error).__name__ != "OutOfResources":
                raise
    return launch(last)


@dataclass(frozen=True, eq=False, repr=False)
class Launch:
    """A pass that is ready but for its blocks."""

    text: str
    x: Halves
    z: Halves
    right: tuple[Tensor, ...]  # of V: high, low and scales, padded
    columns: int  # before that
    minus: float
    shrink: float
    precise: bool
    mirrors: bool

    @classmethod
    def of(
        cls, text: str, x: Halves, z: Halves, v: Tensor, *, minus: float, **kind: bool
    ) -> Launch:
        """A launch with V split, and tiles of at most about one in size."""
        import torch

        # |k(x, z)|² ≤ k(x, x) k(z, z)
        largest = float((x.own.abs().max() * z.own.abs().max()).sqrt())
        most, more = largest + abs(minus), padded_columns(v.shape[1]) - v.shape[1]
        shrink = float(2.0 ** -np.ceil(np.log2(most))) if 0.0 < most < np.inf else 1.0
        high, low, scales = split(v, dim=0)
        right = [padded(each, more) for each in (high, low)]
        right.append(torch.nn.functional.pad(scales / shrink, (0, more)))
        return cls(text, x, z, tuple(right), v.shape[1], minus, shrink, **kind)

    @property
    def own(self) -> dict[str, Any]:
        """What is compiled into it."""
        alike = self.x.scale is not None and self.z.scale is not None
        return {"D": self.x.high.shape[1], "C": self.right[0].shape[1], "ALIKE": alike}

    @property
    def usual(self) -> Blocks:
        if self.mirrors:
            return Blocks.mirrored(self.own["C"], precise=self.precise)
        return Blocks.usual(self.own["D"], precise=self.precise)

    @property
    def kind(self) -> PassClass:
        """What other blocks may be known for."""
        device, (d, c, alike) = compiled_for(self.x.scales), self.own.values()
        return PassClass(*device, self.text, d, c, self.precise, self.mirrors, alike)

    def __call__(self, cut: Blocks) -> Tensor:  # (n, k) float64
        import torch

        x, z, passes = self.x, self.z, compiled_passes(self.text)
        sides = *x.tensors(precise=self.precise), *z.tensors(precise=self.precise)
        numbers = x.scale or 1.0, z.scale or 1.0, -self.minus * self.shrink, self.shrink, 1.0
        launch: dict[str, Any] = {"numbers": numbers, "own": {**self.own, **asdict(cut)}}
        launch["given"] = *sides, *self.right, x.own
        with torch.cuda.device_of(x.scales):  # Triton launches on the device in force
            if self.mirrors:
                sums = _mirrored(passes["mercer_mirrored_pass"], x, **launch)
            else:
                sums = _plain(passes["mercer_pass"], x, z, **launch)
        return sums[: x.n, : self.columns]


def _plain(
    run: Any, x: Halves, z: Halves, *, given: Given, numbers: Numbers, own: dict[str, Any]
) -> Tensor:
    """Sums over all of Z, part by part."""
    import torch

    tall, parts, part_rows = grid(x.n, z.n, own["BM"], own["BN"])
    out = x.scales.new_zeros((parts, len(x.scales), own["C"]))
    # Rows beyond the last are computed too, and cut off: Triton compiles one more pass for a number of rows
    # that is not a multiple of 16.
    sizes = len(x.scales), z.n, len(x.scales), part_rows
    run[(tall, parts)](*given, out, *sizes, *numbers, GRAM=x.high is z.high, **own)
    return out.sum(dim=0, dtype=torch.float64)


def _mirrored(
    run: Any, x: Halves, *, given: Given, numbers: Numbers, own: dict[str, Any]
) -> Tensor:
    """Sums over all of X, band by band, of tiles on and above the diagonal."""
    import torch

    there, programs, columns = x.scales.device, 3, own["C"]  # three on a processor, for trials
    if there.type == "cuda":  # as many as run at once
        programs = int(torch.cuda.get_device_properties(there).multi_processor_count)
    band = min(len(x.scales), band_rows(programs, columns))
    sums = x.scales.new_zeros((len(x.scales), columns), dtype=torch.float64)
    out = x.scales.new_empty((len(x.scales), columns))
    mirrored = x.scales.new_empty((programs, band, columns))
    for begin in range(0, x.n, band):
        end = min(begin + band, x.n)
        mine = mirrored.view(-1)[: programs * (end - begin) * columns]
        run[(programs,)](*given, out, mine.zero_(), x.n, begin, end, *numbers, **own)
        sums[begin : x.n] += out[begin : x.n]
        sums[begin:end] += mine.view(programs, -1, columns).sum(dim=0, dtype=torch.float64)
    return sums
