"""A kernel's operations on pairs of rows on the device: tiles, values of rows with themselves, and slopes.

The operations are those that compiled tiles run (`mercer.engine.native.program`), one to one. What is worked
on is new, so each of them changes it where it lies.

Slopes are those of kernels of one quantity, x·z or ‖x - z‖²: each tile of the stack has beside it its
derivative in that quantity. Sums over points, weighed by these, are made there as well, so that nothing
comes back for each pair of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from mercer._core.types import Array
from mercer.data.rows import row_slices
from mercer.engine.base import FLOAT64
from mercer.engine.native import bindings as op
from mercer.engine.native.program import Leaf, Program, Step
from mercer.engine.pairwise import NEAR, NEAR_ENTRIES, ROUNDING
from mercer.engine.steps import FixedPoints, Pulls

if TYPE_CHECKING:
    from torch import Tensor

    from mercer.engine.torch.engine import TorchEngine
    from mercer.engine.torch.rows import Side, TorchRows

DIFFERENCES = "donot_use_mm_for_euclid_dist"
FAR = 1000.0  # e^-s is nothing there, in either precision
# A device starts some thirty operations, of 10 µs each, for what the host does with fewer pairs in that time.
FEW_PAIRS = 2**16


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
            tile.clamp_(max=FAR)
            return _polynomial(step.coefficients, tile).mul_(tile.neg_().exp_())
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
    if is_kinked(program, place):
        return _near_too(leaf, x, y)
    limit = ROUNDING[np.dtype(str(x.like.dtype).removeprefix("torch."))]
    sound = program.sharpest * (x.most(leaf) + y.most(leaf)) <= limit  # NaN is not
    return _expanded(leaf, x, y) if sound else _by_differences(leaf, x, y)


def _expanded(leaf: Leaf, x: Side, y: Side) -> Tensor:
    """‖x‖² - 2x·y + ‖y‖², both counted from one origin; what cancels may leave less than zero."""
    import torch

    (left, x_norms), (right, y_norms) = x.packed(leaf), y.packed(leaf)
    tile = torch.addmm(y_norms[None, :], left, right.T, alpha=-2.0)
    return tile.add_(x_norms[:, None]).clamp_(min=0.0)


def _near_too(leaf: Leaf, x: Side, y: Side) -> Tensor:
    """‖x - y‖² whose root is right for near points too: as in `pairwise.scaled_distances`, by differences."""
    tile = _expanded(leaf, x, y)
    most = max(float(tile.max()), x.most(leaf) + y.most(leaf))
    near = (tile < NEAR[np.dtype(np.float64)] * most).nonzero()
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


# ── slopes ──────────────────────────────────────────────────────────────────
def only_leaf(program: Program) -> Leaf | None:
    """The one quantity that values are made of; None where there are several, or another kind of one."""
    if len(program.leaves) != 1 or any(step.lengths is not None for step in program.steps):
        return None
    (leaf,) = program.leaves
    whole = leaf.columns is None and not leaf.unit_rows
    return leaf if whole and leaf.kind in ("dot", "sqdist") else None


def slopes(program: Program, x: Side, y: Side) -> Tensor:  # -> (n, m)
    """[f'(u_ij)] of a kernel f of the quantity u; 0 for a kink at u = 0."""
    stack: list[tuple[Tensor, Tensor]] = []
    for place, step in enumerate(program.steps):
        if step.code == op.PAIR:
            u = pair(program, place, program.leaves[step.number], x, y)
            stack.append((u, u.new_ones(())))
        elif step.code == op.CONSTANT:
            stack.append((x.like.new_full((), step.a), x.like.new_zeros(())))
        elif step.code in (op.ADD, op.MULTIPLY):
            (v, dv), (u, du) = stack.pop(), stack.pop()
            stack.append((u + v, du + dv) if step.code == op.ADD else (u * v, du * v + dv * u))
        elif step.code != op.POLY_EXP:  # which is done with the root before it
            u, du = stack.pop()
            after = program.steps[place + 1 : place + 2]
            is_matern = step.code == op.ROOT and after and after[0].code == op.POLY_EXP
            value, slope = _matern(after[0], u) if is_matern else _sloped(step, u)
            stack.append((value, slope * du))
    return stack[-1][1].expand(x.n, y.n)


def _sloped(step: Step, u: Tensor) -> tuple[Tensor, Tensor]:
    """f(u) and f'(u) of an operation."""
    match step.code:
        case op.AFFINE:
            return step.a * u + step.b, u.new_full((), step.a)
        case op.EXP:
            value = (step.a * u).exp()
            return value, step.a * value
        case op.TANH:
            value = u.tanh()
            return value, 1.0 - value.square()
        case op.WHOLE_POWER:
            n = step.number
            return u**n, n * u ** max(n - 1, 0)
        case op.POWER | op.ROOT:
            p = step.a if step.code == op.POWER else 0.5
            return u**p, _no_kink(p * u ** (p - 1.0))
    raise ValueError(step.code)


def _matern(step: Step, u: Tensor) -> tuple[Tensor, Tensor]:
    """Σ c_i s^i e^-s of s = √u, and its derivative in u: (Σ ((i + 1) c_(i+1) - c_i) s^i) e^-s/(2s).

    All but the first of these kernels have c_0 = c_1: the sum begins with s, and nothing is divided by it.
    """
    assert step.coefficients is not None
    c = step.coefficients
    s = u.sqrt().clamp_(max=FAR)
    decay = (-s).exp()
    turned = np.append(np.arange(1, len(c)) * c[1:], 0.0) - c
    if len(c) == 1:
        return c[0] * decay, _no_kink(0.5 * turned[0] * decay / s)
    return _polynomial(c, s) * decay, 0.5 * _polynomial(turned[1:], s) * decay


def _polynomial(c: Array, s: Tensor) -> Tensor:
    *lower, total = c.tolist()
    found = s.new_full(s.shape, total)
    for each in reversed(lower):
        found.mul_(s).add_(each)
    return found


def _no_kink(slope: Tensor) -> Tensor:
    return slope.where(~slope.isinf(), 0.0)


# ── sums over points ────────────────────────────────────────────────────────
class DevicePulls:
    """The points of a step on the device, and what they weigh."""

    def __init__(self, step: Pulls, points: TorchRows, leaf: Leaf) -> None:
        # Nothing here may hold the step: it is the key by which these are found.
        self.points, self.leaf, place = points, leaf, points.place
        self._coef = place.tensor(step.coef, FLOAT64)  # (m, k)
        self._mean = None if step.mean is None else place.tensor(step.mean, FLOAT64)
        points.settle()

    def sums(self, x: Side, t: Array) -> tuple[Tensor, Tensor, Tensor]:  # (b,), (b,), (b, d)
        """Σ_j p_ij, Σ_j |p_ij| and Σ_j p_ij z_j of p = γ f'; z from the origin of the points."""
        points, targets = self.points, self.points.place.tensor(t, FLOAT64)
        total, size = (x.like.new_zeros(x.n) for _ in range(2))
        moment = x.like.new_zeros(x.n, points.d)
        for j in row_slices(points.n, points.place.width(FLOAT64, points.program.depth + 2)):
            z = points.side(j)
            weights = targets @ self._coef[j].T  # (b, q)
            pull = weights if self._mean is None else weights.add_(self._mean[j])
            pull *= slopes(points.program, x, z)
            total += pull.sum(dim=1)
            moment += pull @ z.packed(self.leaf)[0]
            size += pull.abs_().sum(dim=1)
        points.forget()
        return total, size, moment


_SENT: WeakKeyDictionary[Pulls, dict[Any, DevicePulls]] = WeakKeyDictionary()


def pulls_of(step: Pulls, engine: TorchEngine) -> DevicePulls | None:
    """The points of a step where they are from search to search; None where the host has to look."""
    there, key = _SENT.setdefault(step, {}), engine.place
    if key not in there:
        points = engine.load(step.points, step.kernel, FLOAT64)
        leaf = only_leaf(points.program)
        if leaf is None or points.on_host:
            return None
        there[key] = DevicePulls(step, points, leaf)
    return there[key]


def pulled(step: Pulls, there: DevicePulls, x: Array, t: Array) -> Array | None:
    """What the step makes of rows; None where values are out of range."""
    points, leaf = there.points, there.leaf
    width = int(x.shape[1]) + isinstance(step, FixedPoints)
    out, origin = np.empty((len(x), width)), points.place.tensor(points.origin, FLOAT64)
    for i in row_slices(len(x), points.place.width(FLOAT64, points.program.depth + 2)):
        side = points.side_of(x[i])
        total, size, moment = there.sums(side, t[i])
        if isinstance(step, FixedPoints):
            # ψ near φ(x) makes the total negative, as a weighted mean of points should have it.
            sound = -total > step.share * size
            found = origin + moment / total.where(sound, 1.0)[:, None]
            out[i, -1] = sound.cpu().numpy()
        elif leaf.kind == "dot":
            found = moment
        else:
            found = 2.0 * (total[:, None] * side.packed(leaf)[0] - moment)
        out[i, : x.shape[1]] = found.cpu().numpy()
    return out if np.isfinite(out).all() else None
