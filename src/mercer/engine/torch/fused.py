"""Fused passes on a GPU: halves of rows and vectors, and the pass of `source` over them.

They make the rough products of a `TileStore` that rounds to half floats, and those of two a number.
"""

from __future__ import annotations

import hashlib
import linecache
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mercer.data.rows import row_slices
from mercer.engine.base import FLOAT32
from mercer.engine.halves import COLUMNS, PAD, SPLIT, band_rows, grid, is_mirrored, padded_columns
from mercer.engine.torch.evaluate import values
from mercer.engine.torch.source import LOW, is_shifted, source, why_not_fused
from mercer.engine.torch.vectors import found_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from mercer._core.types import Array
    from mercer.engine.native.program import Program
    from mercer.engine.torch.place import Place
    from mercer.engine.torch.rows import Side, TorchRows

# Half floats have fifteen bits of sizes: eleven digits are left of rows this many times as small as others.
ALIKE = 2.0**8
LONG_ROWS = 256  # numbers a row
Given: TypeAlias = "tuple[Tensor, ...]"
Numbers: TypeAlias = "tuple[float, ...]"


@dataclass(frozen=True)
class Blocks:
    """How the pass is cut: rows of X, of Z and columns at a time; warps and stages of a pipeline."""

    BM: int = 128
    BN: int = 128
    BK: int = 64
    num_warps: int = 8
    num_stages: int = 3

    @classmethod
    def usual(cls, d: int, *, precise: bool = False) -> Blocks:
        """Fastest of some on an H200: the longer rows are, the more of the time is their products.

        Precise products hold twice the accumulators.
        """
        bk = max(16, min(64, 1 << (d - 1).bit_length()))
        if d < LONG_ROWS:
            return cls(BN=64, BK=bk) if precise else cls(BK=bk)
        return cls() if precise else cls(BN=256)

    @classmethod
    def mirrored(cls, columns: int, *, precise: bool = False) -> Blocks:
        """The same where each tile is used twice: a copy of it lies in shared memory, beside V."""
        if precise:
            return MIRRORED_PRECISE[min(columns, COLUMNS)]
        return cls(BN=256) if columns < COLUMNS else cls()

    @property
    def smaller(self) -> tuple[Blocks, ...]:
        """These, and others for devices with less shared memory, one after the other."""
        least = replace(self, BN=64, num_stages=2)
        return self, replace(self, BN=min(self.BN, 128), num_stages=2), least, replace(least, BM=64)


MIRRORED_PRECISE = {
    **dict.fromkeys((16, 32), Blocks(BK=32, num_stages=4)),
    64: Blocks(num_stages=2),
    COLUMNS: Blocks(BN=64, BK=32),
}


@dataclass(frozen=True, eq=False, repr=False)
class Halves:
    """Rows as high + low half floats times powers of two, and what a formula needs beside them."""

    n: int
    high: Tensor  # (padded, D) float16
    low: Tensor | None  # of precise products
    scales: Tensor  # (padded,) float32
    scale: float | None  # that of all rows, where they have one
    norms: tuple[
        Tensor, Tensor
    ]  # of high, and of both: equal rows are no distance apart in either product
    lengths: Tensor  # 1/√u(x, x) where the formula divides by it
    own: Tensor  # k(x, x)

    def tensors(self, *, precise: bool) -> tuple[Tensor, ...]:
        """As the pass takes them."""
        low = self.high if self.low is None else self.low
        return self.high, low, self.scales, self.norms[precise], self.lengths

    @classmethod
    def of(cls, program: Program, sides: Iterable[Side], n: int, *, precise: bool) -> Halves:
        """The n rows of some sides; about their origin where nothing but distances is taken of them."""
        kind = "sqdist" if is_shifted(program) else "dot"
        leaf = next(leaf for leaf in program.leaves if leaf.kind == kind)
        lengths_of = next(
            (each.lengths for each in program.steps if each.lengths is not None), None
        )
        halves: list[Tensor] = []  # high, and low
        beside: list[Tensor] = []  # scales, 1/√u(x, x), k(x, x)
        start = 0
        for side in sides:
            x, _ = side.packed(leaf)
            if not halves:
                tall, wide = n + -n % PAD, x.shape[1] + -x.shape[1] % Blocks.usual(x.shape[1]).BK
                halves = [_zeros(x, "float16", tall, wide) for _ in range(1 + precise)]
                beside = [_zeros(x, "float32", tall) for _ in range(3)]
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
        """With one scale for all rows where that can be, and the norms of what they have become."""
        scale = _common(scales[:n])
        if scale is not None:  # powers of two: nothing is rounded but what is far below the others
            shares = (scales / scale).half()[:, None]
            for each in halves:
                each.mul_(shares)
            scales.fill_(scale)
        high, low = halves[0], halves[1] if len(halves) > 1 else None
        norms = _norms(high, None, scales), _norms(high, low, scales)
        return cls(n, high, low, scales, scale, norms, lengths, own)


def _zeros(like: Tensor, dtype: str, *shape: int) -> Tensor:
    import torch

    return like.new_zeros(shape, dtype=getattr(torch, dtype))


def _common(scales: Tensor) -> float | None:
    """One power of two for all rows; None where theirs are too far apart for half floats."""
    least, most = float(scales.min()), float(scales.max())
    return most if most <= ALIKE * least else None


def _norms(high: Tensor, low: Tensor | None, scales: Tensor) -> Tensor:  # (n,)
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


def _padded(x: Tensor, wide: int = 0) -> Tensor:
    """With rows of zeros to a multiple of PAD, and so many columns of them."""
    import torch

    beside = (0, wide) if x.ndim == 2 else ()
    return torch.nn.functional.pad(x, (*beside, 0, -len(x) % PAD)).contiguous()


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
    parts = 0 if x.store.rounding is None else x.store.rounding.halves
    return parts > precise and why_not_fused(x.program, precise=precise) is None


def fused_gram_times(x: TorchRows, v: Array, *, precise: bool) -> Array:  # (n, k) -> (n, k)
    """(K - c) @ V by half floats."""
    own, minus = _halves_of(x), x.store.minus
    return fused_times(x.program, own, own, v, x.place, precise=precise, minus=minus)


def fused_cross_times(x: TorchRows, z: TorchRows, v: Array) -> Array:  # (m, k) -> (n, k)
    """k(X, Z) @ V roughly, by half floats."""
    points = _halves_of(z.about(x.origin))
    return fused_times(x.program, _halves_of(x), points, v, x.place, precise=False)


def _halves_of(x: TorchRows) -> Halves:
    if x.halves is None:
        assert x.store.rounding is not None
        sides, two = x.sides(max(1, SPLIT // max(1, x.d))), x.store.rounding.halves > 1
        x.halves = Halves.of(x.program, sides, x.n, precise=two)
    return x.halves


def fused_times(
    program: Program,
    x: Halves,
    z: Halves,
    v: Array,
    place: Place,
    *,
    precise: bool,
    minus: float = 0.0,
    blocks: Blocks | None = None,
) -> Array:  # (n, k)
    """(k(X, Z) - c) @ V; X and Z that are one object have the diagonal of K from k(x, x)."""
    import torch

    right = place.tensor(v, FLOAT32)
    parts = [
        fused_columns(program, x, z, some, precise=precise, minus=minus, blocks=blocks)
        for some in right.split(COLUMNS, dim=1)
    ]
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
    mirror: bool | None = None,
) -> Tensor:  # (m, k) -> (n, k) float64
    """The same of at most `COLUMNS` columns, there; `mirror`: each tile for both sides of the diagonal."""
    import torch

    d, c = x.high.shape[1], padded_columns(v.shape[1])
    # |k(x, z)|² ≤ k(x, x) k(z, z): tiles of at most about one in size.
    most = float((x.own.abs().max() * z.own.abs().max()).sqrt()) + abs(minus)
    shrink = float(2.0 ** -np.ceil(np.log2(most))) if 0.0 < most < np.inf else 1.0
    high, low, scales = split(v, dim=0)
    right = [_padded(each, c - v.shape[1]) for each in (high, low)]
    right.append(torch.nn.functional.pad(scales / shrink, (0, c - v.shape[1])))
    passes = compiled_passes(source(program, precise=precise))
    alike = x.scale is not None and z.scale is not None
    given = *x.tensors(precise=precise), *z.tensors(precise=precise), *right, x.own
    numbers = x.scale or 1.0, z.scale or 1.0, -minus * shrink, shrink, 1.0
    mirrors = x is z and is_mirrored(x.n, d) if mirror is None else mirror

    def launched(cut: Blocks) -> Tensor:
        own = {"D": d, "C": c, "ALIKE": alike, **asdict(cut)}
        launch: dict[str, Any] = {"given": given, "numbers": numbers, "own": own}
        with torch.cuda.device_of(v):  # Triton launches on the device in force
            if mirrors:
                sums = _mirrored(passes["mercer_mirrored_pass"], x, **launch)
            else:
                sums = _plain(passes["mercer_pass"], x, z, **launch)
        return sums[: x.n, : v.shape[1]]

    usual = Blocks.mirrored(c, precise=precise) if mirrors else Blocks.usual(d, precise=precise)
    *tried, last = (blocks,) if blocks else usual.smaller
    for cut in tried:
        try:
            return launched(cut)
        except Exception as error:  # Triton's own, of a module that is not imported here
            if type(error).__name__ != "OutOfResources":
                raise
    return launched(last)


def _plain(
    run: Any, x: Halves, z: Halves, *, given: Given, numbers: Numbers, own: dict[str, Any]
) -> Tensor:
    """Sums over all of Z, part by part."""
    import torch

    tall, parts, part_rows = grid(x.n, z.n, own["BM"], own["BN"])
    out = x.scales.new_zeros((parts, len(x.scales), own["C"]))
    sizes = x.n, z.n, len(x.scales), part_rows
    run[(tall, parts)](*given, out, *sizes, *numbers, GRAM=x.high is z.high, **own)
    return out.sum(dim=0, dtype=torch.float64)


def _mirrored(
    run: Any, x: Halves, *, given: Given, numbers: Numbers, own: dict[str, Any]
) -> Tensor:
    """Sums over all of X, band by band, of tiles on and above the diagonal."""
    import torch

    programs, columns = _processors(x.scales), own["C"]
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


def _processors(there: Tensor) -> int:
    """Of the device: as many programs run at once."""
    import torch

    if there.device.type != "cuda":
        return 3  # of a trial without a device
    return int(torch.cuda.get_device_properties(there.device).multi_processor_count)
