"""Fused passes on a GPU: halves of rows and vectors, and the pass of `source` over them.

They make the rough products of a `TileStore` that rounds to half floats, and those of two a number.
"""

from __future__ import annotations

import hashlib
import linecache
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.data.rows import row_slices
from mercer.engine.base import FLOAT32
from mercer.engine.torch.evaluate import values
from mercer.engine.torch.rows import SENT_ROWS
from mercer.engine.torch.source import LOW, is_shifted, source, why_not_fused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from mercer._core.types import Array
    from mercer.engine.native.program import Program
    from mercer.engine.torch.place import Place
    from mercer.engine.torch.rows import Side, TorchRows

ALIKE = (
    2.0**8
)  # half floats have fifteen bits of sizes: eleven digits are left beside so many times as much
PAD = 256  # rows are padded to a multiple of it, that of every block
COLUMNS = 128  # of V that are multiplied at a time
LONG_ROWS = 256  # numbers a row
PART_ROWS = 2**16  # of Z whose products are summed in float32
PROGRAMS = 2**10  # that a device is given at least, where there are enough rows


@dataclass(frozen=True)
class Blocks:
    """How the pass is cut: rows of X, of Z and columns at a time; warps and stages of a pipeline."""

    bm: int = 128
    bn: int = 128
    bk: int = 64
    num_warps: int = 8
    num_stages: int = 3

    @classmethod
    def usual(cls, d: int, *, precise: bool) -> Blocks:
        """Fastest of some on an H200: the longer rows are, the more of the time is their products.

        Precise products hold twice the accumulators.
        """
        bk = max(16, min(64, 1 << (d - 1).bit_length()))
        if d < LONG_ROWS:
            return cls(bn=64, bk=bk) if precise else cls(bk=bk)
        return cls() if precise else cls(bn=256)


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
    def of(cls, program: Program, sides: Iterable[Side], *, precise: bool) -> Halves:
        """The rows of some sides; about their origin where nothing but distances is taken of them."""
        import torch

        kind = "sqdist" if is_shifted(program) else "dot"
        leaf = next(leaf for leaf in program.leaves if leaf.kind == kind)
        lengths_of = next(
            (each.lengths for each in program.steps if each.lengths is not None), None
        )
        found: list[list[Tensor]] = []
        for side in sides:
            x, _ = side.packed(leaf)
            high, low, scales = split(x, dim=1)
            lengths = scales if lengths_of is None else side.inverse_lengths(lengths_of).float()
            own = values(program, side).float()
            found.append([high, *([low] if precise else []), scales, lengths, own])
        joined = [torch.cat(each) for each in zip(*found, strict=True)]
        high, *rest, scales, lengths, own = joined
        scale = _common(scales)
        if scale is not None:  # powers of two: nothing is rounded but what is far below the others
            shares = (scales / scale).half()[:, None]
            high, rest = high * shares, [each * shares for each in rest]
            scales = torch.full_like(scales, scale)
        low = rest[0] if rest else None
        norms = _norms(high, None, scales), _norms(high, low, scales)
        n, wide = len(high), -high.shape[1] % Blocks.usual(high.shape[1], precise=False).bk
        high, low = (each if each is None else _padded(each, wide) for each in (high, low))
        assert high is not None
        beside = [_padded(each) for each in (lengths, own, *norms)]
        return cls(n, high, low, _padded(scales), scale, (beside[2], beside[3]), *beside[:2])


def _common(scales: Tensor) -> float | None:
    """One power of two for all rows; None where theirs are too far apart for half floats."""
    least, most = float(scales.min()), float(scales.max())
    return most if most <= ALIKE * least else None


def _norms(high: Tensor, low: Tensor | None, scales: Tensor) -> Tensor:  # (n,)
    """Squared norms of the rows as they are here; what is in float64 on the way is large."""
    norms = scales.clone()
    for i in row_slices(len(high), SENT_ROWS):
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


def grid(n: int, m: int, cut: Blocks) -> tuple[int, int, int]:
    """Blocks of rows of X, parts of Z, and rows of a part.

    Parts are short enough for float32 sums, and enough to keep a device busy with few rows of X.

    Examples
    --------
    >>> grid(1_000_000, 1_000_000, Blocks()), grid(300, 100_000, Blocks())
    ((7813, 16, 62592), (3, 98, 1024))
    """
    tall = -(-n // cut.bm)
    parts = max(-(-m // PART_ROWS), min(-(-PROGRAMS // tall), -(-m // (8 * cut.bn))))
    part_rows = -(-m // (parts * cut.bn)) * cut.bn
    return tall, -(-m // part_rows), part_rows


@lru_cache(maxsize=32)
def compiled_pass(text: str) -> Any:
    """The function of a text. Triton compiles it at its first call, and reads the text by its file's name."""
    name = f"<mercer {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    space: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec"), space)
    return space["mercer_pass"]


def fused_gram_times(x: TorchRows, v: Array, *, precise: bool) -> Array | None:  # (n, k) -> (n, k)
    """(K - c) @ V by half floats; None where tiles have to do."""
    parts = 0 if x.store.rounding is None else x.store.rounding.halves
    if parts < 1 + precise or why_not_fused(x.program, precise=precise) is not None:
        return None
    if x.halves is None:
        x.halves = Halves.of(x.program, x.sides(SENT_ROWS), precise=parts > 1)
    minus = x.store.minus
    return fused_times(x.program, x.halves, x.halves, v, x.place, precise=precise, minus=minus)


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
    right = place.tensor(v, FLOAT32)
    parts = [
        fused_columns(program, x, z, some, precise=precise, minus=minus, blocks=blocks)
        for some in right.split(COLUMNS, dim=1)
    ]
    return np.hstack([each.cpu().numpy() for each in parts]).astype(v.dtype, copy=False)


def fused_columns(
    program: Program,
    x: Halves,
    z: Halves,
    v: Tensor,
    *,
    precise: bool,
    minus: float = 0.0,
    blocks: Blocks | None = None,
) -> Tensor:  # (m, k) -> (n, k) float64
    """The same of at most `COLUMNS` columns, on the device."""
    import torch

    d, c = x.high.shape[1], max(16, 1 << (v.shape[1] - 1).bit_length())
    cut = blocks or Blocks.usual(d, precise=precise)
    tall, parts, part_rows = grid(x.n, z.n, cut)
    # |k(x, z)|² ≤ k(x, x) k(z, z): tiles of at most about one in size.
    most = float((x.own.abs().max() * z.own.abs().max()).sqrt()) + abs(minus)
    shrink = float(2.0 ** -np.ceil(np.log2(most))) if 0.0 < most < np.inf else 1.0
    high, low, scales = split(v, dim=0)
    right = [_padded(each, c - v.shape[1]) for each in (high, low)]
    right.append(torch.nn.functional.pad(scales / shrink, (0, c - v.shape[1])))
    out = torch.zeros((parts, len(x.scales), c), dtype=torch.float32, device=v.device)
    run = compiled_pass(source(program, precise=precise))[(tall, parts)]
    alike = x.scale is not None and z.scale is not None
    sides = *x.tensors(precise=precise), *z.tensors(precise=precise)
    with torch.cuda.device_of(v):  # Triton launches on the device in force
        run(
            *sides, *right, x.own, out,
            x.n, z.n, len(x.scales), part_rows, x.scale or 1.0, z.scale or 1.0,
            -minus * shrink, shrink, 1.0,
            D=d, C=c, GRAM=x is z, ALIKE=alike, BM=cut.bm, BN=cut.bn, BK=cut.bk,
            num_warps=cut.num_warps, num_stages=cut.num_stages,
        )  # fmt: skip
    return out.double().sum(dim=0)[: x.n, : v.shape[1]]
