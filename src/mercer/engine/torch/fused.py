"""Fused passes on a GPU: halves of rows and vectors, and the pass of `source` over them.

The engine takes them where it is asked to: `benchmarks/gpu.py` measures them beside torch tiles first.
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
    from torch import Tensor

    from mercer._core.types import Array
    from mercer.engine.native.program import Program
    from mercer.engine.torch.place import Place
    from mercer.engine.torch.rows import Side, TorchRows

PAD = 128  # rows are padded to a multiple of it, that of every block
COLUMNS = 128  # of V that are multiplied at a time
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
        """Before anything is tuned: precise products hold twice the accumulators."""
        bk = max(16, min(64, 1 << (d - 1).bit_length()))
        return cls(bn=64, bk=bk) if precise else cls(bk=bk)


@dataclass(frozen=True, eq=False, repr=False)
class Halves:
    """Rows as high + low half floats times powers of two, and what a formula needs beside them."""

    n: int
    high: Tensor  # (padded, D) float16
    low: Tensor
    scales: Tensor  # (padded,) float32
    norms: Tensor  # of the rows as they are here: equal ones are no distance apart
    lengths: Tensor  # 1/√u(x, x) where the formula divides by it
    own: Tensor  # k(x, x)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """As the pass takes them."""
        return self.high, self.low, self.scales, self.norms, self.lengths

    @classmethod
    def of(cls, program: Program, side: Side, *, precise: bool) -> Halves:
        """The rows of a side; about their origin where nothing but distances is taken of them."""
        kind = "sqdist" if is_shifted(program) else "dot"
        x, _ = side.packed(next(leaf for leaf in program.leaves if leaf.kind == kind))
        n, d = x.shape
        wide = d + -d % Blocks.usual(d, precise=precise).bk
        high, low = (x.new_zeros(n + -n % PAD, wide).half() for _ in range(2))
        scales, norms = x.new_ones(len(high)).float(), x.new_zeros(len(high)).float()
        for i in row_slices(n, SENT_ROWS):  # what is in float64 on the way is large
            high[i, :d], low[i, :d], scales[i] = split(x[i], dim=1)
            kept = high[i].double() + (low[i].double() * LOW if precise else 0.0)
            norms[i] = (kept.square().sum(dim=1) * scales[i].double().square()).float()
        lengths = x.new_ones(n)
        for step in program.steps:
            if step.lengths is not None:
                lengths = side.inverse_lengths(step.lengths)
        own = values(program, side)
        return cls(n, high, low, scales, norms, *(_padded(each.float()) for each in (lengths, own)))


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


def fused_gram_times(x: TorchRows, v: Array) -> Array | None:  # (n, k) -> (n, k)
    """K @ V, precisely; None where tiles are kept, or in float64, or where there is no such form."""
    keeps = x.store.keep_bytes or x.store.rounding is not None
    if keeps or x.dtype != FLOAT32 or why_not_fused(x.program, precise=True) is not None:
        return None
    whole = x.whole()
    if whole is None:
        return None
    if x.halves is None:
        x.halves = Halves.of(x.program, whole, precise=True)
    minus = x.store.minus
    return fused_times(x.program, x.halves, x.halves, v, x.place, precise=True, minus=minus)


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
    with torch.cuda.device_of(v):  # Triton launches on the device in force
        run(
            *x.tensors, *z.tensors, *right, x.own, out,
            x.n, z.n, len(x.scales), part_rows, minus, shrink,
            D=d, C=c, GRAM=x is z, BM=cut.bm, BN=cut.bn, BK=cut.bk,
            num_warps=cut.num_warps, num_stages=cut.num_stages,
        )  # fmt: skip
    return out.double().sum(dim=0)[: x.n, : v.shape[1]]
