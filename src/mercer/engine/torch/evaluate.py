"""A kernel's operations on pairs of rows on the device: tiles, and values of rows with themselves.

The operations are those that compiled tiles run (`mercer.engine.native.program`), one to one. What is worked
on is new, so each of them changes it where it lies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.engine.native import bindings as op
from mercer.engine.native.program import Leaf, Program, Step
from mercer.engine.pairwise import NEAR, NEAR_ENTRIES, ROUNDING

if TYPE_CHECKING:
    from torch import Tensor

    from mercer.engine.torch.rows import Side

DIFFERENCES = "donot_use_mm_for_euclid_dist"
FAR = 1000.0  # e^-s is nothing there, in either precision


def values(program: Program, x: Side, y: Side | None = None) -> Tensor:  # -> (n, m), or (n,)
    """[k(x_i, y_j)], or [k(x_i, x_i)] without y, as a new tensor."""
    stack: list[Tensor] = []
    for place, step in enumerate(program.steps):
        if step.code == op.PAIR:
            leaf = program.leaves[step.number]
            stack.append(_own(leaf, x) if y is None else pair(program, place, leaf, x, y))
        elif step.code == op.CONSTANT:
            shape = (x.n,) if y is None else (x.n, y.n)
            stack.append(x.like.new_full(shape, step.a))
        elif step.code in (op.ADD, op.MULTIPLY):
            last = stack.pop()
            stack[-1].add_(last) if step.code == op.ADD else stack[-1].mul_(last)
        elif step.code == op.OUTER:
            assert step.lengths is not None
            along = x.inverse_lengths(step.lengths)
            beside = along if y is None else y.inverse_lengths(step.lengths)
            stack[-1].mul_(along if y is None else along[:, None]).mul_(beside)
        else:
            stack[-1] = _applied(step, stack[-1])
    return stack[-1]


def _applied(step: Step, tile: Tensor) -> Tensor:  # noqa: PLR0911  (a case, an answer)
    """An operation on each entry."""
    match step.code:
        case op.AFFINE:
            tile = tile if step.a == 1.0 else tile.mul_(step.a)
            return tile.add_(step.b) if step.b else tile
        case op.EXP:
            return (tile if step.a == 1.0 else tile.mul_(step.a)).exp_()
        case op.TANH:
            return tile.tanh_()
        case op.ROOT:
            return tile.sqrt_()
        case op.WHOLE_POWER:
            return tile.pow_(step.number)
        case op.POWER:
            return tile.pow_(step.a)
        case op.POLY_EXP:  # Σ c_i s^i e^-s
            assert step.coefficients is not None
            *lower, total = step.coefficients.tolist()
            tile.clamp_(max=FAR)
            found = tile.new_full(tile.shape, total)
            for c in reversed(lower):
                found.mul_(tile).add_(c)
            return found.mul_(tile.neg_().exp_())
    raise ValueError(step.code)


# ── quantities of two rows ──────────────────────────────────────────────────
def _own(leaf: Leaf, x: Side) -> Tensor:  # -> (n,)
    if leaf.kind != "dot":
        return x.like.new_zeros(x.n)
    _, norms = x.packed(leaf)
    return (norms > 0).to(norms.dtype) if leaf.unit_rows else norms.clone()


def pair(program: Program, place: int, leaf: Leaf, x: Side, y: Side) -> Tensor:  # -> (n, m)
    """A quantity of all pairs, which step `place` of the program asks for, as a new tensor."""
    import torch

    (left, _), (right, _) = x.packed(leaf), y.packed(leaf)
    match leaf.kind:
        case "dot":
            return left @ right.T
        case "l1":
            return torch.cdist(left, right, p=1.0)
        case "chi2":
            return _chi2(left, right)
    return _near_too(leaf, x, y) if is_kinked(program, place) else _squares(program, leaf, x, y)


def _squares(program: Program, leaf: Leaf, x: Side, y: Side) -> Tensor:
    """‖x - y‖² by products of rows; by differences where these would lose more digits than may be."""
    limit = ROUNDING[np.dtype(str(x.like.dtype).removeprefix("torch."))]
    if not program.sharpest * (x.most(leaf) + y.most(leaf)) <= limit:  # NaN neither
        return _by_differences(leaf, x, y)
    return _expanded(leaf, x, y)


def _expanded(leaf: Leaf, x: Side, y: Side) -> Tensor:
    """‖x‖² - 2x·y + ‖y‖², both counted from one origin; what cancels may leave less than zero."""
    import torch

    (left, x_norms), (right, y_norms) = x.packed(leaf), y.packed(leaf)
    tile = torch.addmm(y_norms[None, :], left, right.T, alpha=-2.0)
    return tile.add_(x_norms[:, None]).clamp_(min=0.0)


def _near_too(leaf: Leaf, x: Side, y: Side) -> Tensor:
    """‖x - y‖², right for near points too, whose root shows what is lost.

    As `pairwise.scaled_distances` has it: pairs that are near beside their distances from the origin are
    subtracted first.
    """
    tile = _expanded(leaf, x, y)
    most = max(float(tile.max()), x.most(leaf) + y.most(leaf))
    near = (tile < NEAR * most).nonzero()
    if 4 * len(near) > tile.numel():
        return _by_differences(leaf, x, y)
    (left, _), (right, _) = x.packed(leaf), y.packed(leaf)
    for pairs in near.split(max(1, NEAR_ENTRIES // left.shape[1])):
        i, j = pairs.unbind(1)
        tile[i, j] = (left[i] - right[j]).square_().sum(dim=1)
    return tile


def _by_differences(leaf: Leaf, x: Side, y: Side) -> Tensor:
    import torch

    (left, _), (right, _) = x.packed(leaf), y.packed(leaf)
    return torch.cdist(left, right, compute_mode=DIFFERENCES).square_()


def _chi2(left: Tensor, right: Tensor) -> Tensor:
    """Σ(x - y)²/(x + y), one feature at a time, with 0/0 = 0."""
    out = left.new_zeros(len(left), len(right))
    for x, y in zip(left.T, right.T, strict=True):
        gap = x[:, None] - y[None, :]
        total = x[:, None] + y[None, :]
        share = gap.div(total.clamp_(min=0.0)).nan_to_num_(nan=0.0)
        out.addcmul_(share, gap)
    return out


def is_kinked(program: Program, place: int) -> bool:
    """Whether a value of near points shows the root, or broken power, of their squared distance.

    Scaled or not. (1 + s + …) e^-s does not: from 1 it falls as s², like a Gaussian.
    """
    after = [step for step in program.steps[place + 1 :] if step.code != op.AFFINE or step.b]
    smooth = len(after) > 1 and after[1].code == op.POLY_EXP and after[1].number > 0
    return bool(after) and after[0].code in (op.ROOT, op.POWER) and not smooth
