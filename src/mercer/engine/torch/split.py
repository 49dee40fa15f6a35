"""Numbers as two half floats over a power of two, high + low · 2⁻¹¹: 22 bits of the largest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer.data.rows import row_slices
from mercer.engine.halves import PAD, SPLIT
from mercer.engine.torch.source import LOW

if TYPE_CHECKING:
    from torch import Tensor

# Half floats have fifteen bits of sizes: eleven digits are left of rows this many times as small as others.
ALIKE = 2.0**8


def common(scales: Tensor) -> float | None:
    """One power of two for all rows; None where theirs are too far apart for half floats."""
    least, most = float(scales.min()), float(scales.max())
    return most if most <= ALIKE * least else None


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
    """With rows of zeros to a multiple of PAD, and so many columns of them."""
    import torch

    beside = (0, wide) if x.ndim == 2 else ()
    return torch.nn.functional.pad(x, (*beside, 0, -len(x) % PAD)).contiguous()
