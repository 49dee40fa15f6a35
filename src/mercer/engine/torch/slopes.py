"""Slopes of a kernel on the device: of kernels of one quantity, x·z or ‖x - z‖², a number for each pair.

Each tile of the stack has beside it its derivative in that quantity. Sums over points, weighed by these,
are made there as well, so that of a pair of rows nothing comes back.
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
from mercer.engine.steps import FixedPoints, Pulls
from mercer.engine.torch.evaluate import FAR, pair
from mercer.engine.torch.rows import Side, TorchRows

if TYPE_CHECKING:
    from torch import Tensor

    from mercer.engine.torch.engine import TorchEngine

# A device starts some thirty operations, of 10 µs each, for what the host does with fewer pairs in that time.
FEW_PAIRS = 2**16


def only_leaf(program: Program) -> Leaf | None:
    """The one quantity that values are made of; None where there are several, or none that is known here."""
    if len(program.leaves) != 1 or any(step.lengths is not None for step in program.steps):
        return None
    (leaf,) = program.leaves
    whole = leaf.columns is None and not leaf.unit_rows
    return leaf if whole and leaf.kind in ("dot", "sqdist") else None


# ── a derivative for each pair ──────────────────────────────────────────────
def slopes(program: Program, x: Side, y: Side) -> Tensor:  # -> (n, m)
    """[f'(u_ij)] of a kernel f of the quantity u; 0 for a kink at u = 0."""
    stack: list[tuple[Tensor, Tensor]] = []
    steps = program.steps
    for place, step in enumerate(steps):
        if step.code == op.PAIR:
            u = pair(program, place, program.leaves[step.number], x, y)
            stack.append((u, u.new_ones(())))
        elif step.code == op.CONSTANT:
            stack.append((x.like.new_full((), step.a), x.like.new_zeros(())))
        elif step.code in (op.ADD, op.MULTIPLY):
            (v, dv), (u, du) = stack.pop(), stack.pop()
            stack.append((u + v, du + dv) if step.code == op.ADD else (u * v, du * v + dv * u))
        elif step.code == op.POLY_EXP:
            pass  # done with the root before it
        elif step.code == op.ROOT and _after(steps, place) == op.POLY_EXP:
            u, du = stack.pop()
            value, slope = _matern(steps[place + 1], u)
            stack.append((value, slope * du))
        else:
            u, du = stack.pop()
            value, slope = _applied(step, u)
            stack.append((value, slope * du))
    return stack[-1][1].expand(x.n, y.n)


def _after(steps: list[Step], place: int) -> int | None:
    return steps[place + 1].code if place + 1 < len(steps) else None


def _applied(step: Step, u: Tensor) -> tuple[Tensor, Tensor]:
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
