"""Slopes by the compiled library: sums over points, of which nothing as large as a tile is left.

Σ_j γ_ij ∂k(x_i, z_j)/∂x_i is a sum over the quantities u of the kernel, of Σ_j p_ij ∂u(x_i, z_j)/∂x_i with
p = γ ∂k/∂u. A derivative is a formula (`derivative`), weights γ_ij = t_i·a_j + c_j are dot products of pairs,
one more quantity, and so p is a tile like any other. It is multiplied with points, from whose sums those of
differences follow, or meets derivatives column by column.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mercer._core.types import Array
from mercer.data.rows import row_slices
from mercer.engine.base import FLOAT32, FLOAT64
from mercer.engine.native import bindings as lib
from mercer.engine.native.bindings import aligned
from mercer.engine.native.passes import BLOCK, GROUP, SUMS_BYTES, NativeRows, Pass
from mercer.engine.native.program import (
    MOST_TILES,
    Leaf,
    NotCompiledError,
    Program,
    Step,
    derivative,
    length_slopes,
    of_columns,
    quantities,
    spread,
)
from mercer.engine.numpy import NumpyEngine
from mercer.engine.pairwise import lengths
from mercer.engine.shifted import centre_of
from mercer.engine.steps import FixedPoints, Pulls

WEIGHTS = Leaf("weights")
# Rows of a run, whose sums are there at once; operations between two looks at signals, a tenth of a second.
MOST_ROWS, LOOK = 2**13, 2**30


def pulled(
    engine: NumpyEngine, step: Pulls, x: Any, *targets: Array, dtype: Any, n_threads: int
) -> Array | None:
    """What the step makes of rows; None where rows, kernel or values are not for compiled tiles."""
    dtype = np.result_type(dtype or x.dtype, step.coef, *targets)
    if not isinstance(x, np.ndarray) or dtype not in (FLOAT32, FLOAT64) or not len(x):
        return None
    points = _points_of(engine, step, dtype)
    if points is None:
        return None
    # Without targets a row counts once for each axis, and each of these is one.
    (b, d), k = x.shape, 1 if targets else step.coef.shape[1]
    out = np.empty((b, k, d + isinstance(step, FixedPoints)), dtype=dtype)
    groups = -(-points.rows.n // (GROUP * BLOCK))
    height = max(BLOCK, min(MOST_ROWS, SUMS_BYTES // (8 * (d + 1) * groups)))
    for i in row_slices(b, max(1, height // k)):
        rows = engine.load(np.repeat(x[i], k, axis=0), step.kernel, dtype)
        if not isinstance(rows, NativeRows):
            return None
        rows.sliced = False  # derivatives are taken of packed ones
        t = targets[0][i] if targets else np.tile(np.eye(k), (rows.n // k, 1))
        found = points.pulled(step, rows, t, n_threads)
        # Out of range, which NumPy knows how to reach or to refuse.
        if not np.isfinite(found).all():
            return None
        out[i] = found.reshape(-1, *out.shape[1:])
    return out[:, 0] if targets else out


# ── points, from search to search ───────────────────────────────────────────
@dataclass(frozen=True, eq=False)
class Part:
    """A quantity, what weighs it, and what the weights are multiplied with."""

    leaf: Leaf
    program: Program  # of γ ∂k/∂u
    v: Array | None  # (m, c), padded: points, or ones; None where derivatives have no such form

    @classmethod
    def of(cls, step: Pulls, leaf: Leaf, points: NativeRows, centre: Array) -> Part | None:
        """The part of a step; None where the kernel does not move with this quantity."""
        slope = derivative(step.kernel.tree(), leaf)
        if slope is None:
            return None
        program = Program.of(slope, 2 * MOST_TILES)
        program.steps += [Step(lib.PAIR, number=len(program.leaves)), Step(lib.MULTIPLY)]
        program.leaves.append(WEIGHTS)
        program.depth = max(program.depth, 2)
        z: Array = of_columns(points.rows, leaf.columns).astype(np.float64, copy=False)
        match leaf.kind:
            case "sqdist":
                z = np.column_stack([z - of_columns(centre[None], leaf.columns), np.ones(len(z))])
            case "dot" if leaf.unit_rows:
                z = _of_length_one(z)
            case "dot":
                pass
            case "length":
                z = np.ones((len(z), 1))
            case _:
                return cls(leaf, program, None)
        width = points.native.vector_bytes // points.dtype.itemsize
        shape = points.panels * points.panel, -(-z.shape[1] // width) * width
        v = aligned(shape, points.dtype, zero=True)  # whole vectors and panels
        v[: len(z), : z.shape[1]] = z
        return cls(leaf, program, v)

    def moved(self, x: Array, sums: Array, centre: Array) -> Array:  # (n, c), (n, …) -> (n, c)
        """Σ_j p_ij ∂u(x_i, z_j)/∂x_i of the columns of the quantity, from sums over points."""
        match self.leaf.kind:
            case "sqdist":
                x = x - of_columns(centre[None], self.leaf.columns)
                return 2.0 * (sums[:, -1:] * x - sums[:, :-1])
            case "dot" if self.leaf.unit_rows:  # ∂(u·v)/∂x with u = x/‖x‖ is (v - (u·v)u)/‖x‖
                own, u = lengths(x)[:, None], _of_length_one(x)
                out = sums - np.einsum("ij,ij->i", sums, u)[:, None] * u
                return np.divide(out, own, out=np.zeros_like(out), where=own > 0)
            case "length":
                return -sums * length_slopes(self.leaf, x)
        return sums


class PulledPoints:
    """The points of a step as the library has them, and what they weigh."""

    def __init__(self, step: Pulls, points: NativeRows) -> None:
        # Nothing here may hold the step: it is the key by which these are found.
        self.rows, self.centre = points, centre_of(points.rows)
        points.sliced = False
        coef = step.coef if step.mean is None else np.column_stack([step.coef, step.mean])
        self.coef = _weights(coef, points)
        found = (Part.of(step, each, points, self.centre) for each in quantities(points.program))
        self.parts = [part for part in found if part is not None]

    def pulled(self, step: Pulls, rows: NativeRows, t: Array, n_threads: int) -> Array:
        """Slopes of rows, or their next points."""
        if step.mean is not None:
            t = np.column_stack([t, np.ones(len(t))])
        weights, centre = (_weights(t, rows), self.coef), self.centre
        x = rows.rows.astype(np.float64, copy=False)
        if isinstance(step, FixedPoints):
            (part,) = self.parts
            sums, sizes = Pulling(rows, self.rows, part, weights, sized=True).run(n_threads)
            # ψ near φ(x) makes the total negative, as a weighted mean of points should have it.
            sound = -sums[:, -1] > step.share * sizes[:, 0]
            mean = sums[:, :-1] / np.where(sound, sums[:, -1], 1.0)[:, None]
            return np.column_stack([centre + mean, sound])
        out = np.zeros(x.shape)
        for part in self.parts:
            sums, _ = Pulling(rows, self.rows, part, weights).run(n_threads)
            columns = part.leaf.columns
            spread(out, columns, part.moved(of_columns(x, columns), sums, centre))
        return out


# By step, which a feature space keeps: a search takes many of them, some of a few rows.
_PACKED: WeakKeyDictionary[Pulls, dict[np.dtype[Any], PulledPoints | None]] = WeakKeyDictionary()


def _points_of(engine: NumpyEngine, step: Pulls, dtype: np.dtype[Any]) -> PulledPoints | None:
    """The points of a step, packed once; None where the host computes on them."""
    there = _PACKED.setdefault(step, {})
    if dtype not in there:  # two threads may both make them: nothing half-made is ever there
        points, found = engine.load(step.points, step.kernel, dtype), None
        if isinstance(points, NativeRows) and points.n:
            with suppress(NotCompiledError):
                found = PulledPoints(step, points)
        if found is not None and isinstance(step, FixedPoints):
            found = found if [part.leaf for part in found.parts] == [Leaf("sqdist")] else None
        there[dtype] = found
    return there[dtype]


def _weights(v: Array, like: NativeRows) -> NativeRows:
    """Numbers of rows whose dot products with others are weights."""
    v = np.ascontiguousarray(v, dtype=np.float64)
    return NativeRows(v, like.dtype, sliced=False, program=like.program, native=like.native)


def _of_length_one(x: Array) -> Array:
    own = lengths(x)[:, None]
    return np.divide(x, own, out=np.zeros_like(x), where=own > 0)


# ── the pass ────────────────────────────────────────────────────────────────
class Pulling(Pass):
    """Σ_j p_ij v_j, or Σ_j p_ij ∂u(x_i, z_j)/∂x_i; and Σ_j |p_ij| where that is asked for."""

    def __init__(
        self,
        x: NativeRows,
        z: NativeRows,
        part: Part,
        weights: tuple[NativeRows, NativeRows],
        *,
        sized: bool = False,
    ) -> None:
        leaf = part.leaf
        super().__init__(x, z, program=part.program, beside={WEIGHTS: weights})
        columns = leaf.width(x.d)
        self.width = columns + (leaf.kind == "sqdist") if leaf.kind != "length" else 1
        job, pulls = self.job, lib.Pulls(kind=lib.KINDS.get(leaf.kind, 0), columns=columns)
        self.sums = self._grouped(columns if part.v is None else part.v.shape[1])
        groups, rows, _ = self.sums.shape
        self.sizes = np.zeros((groups, rows, 1))
        if part.v is not None:
            job.v, job.sums = self._address(part.v), self._address(self.sums)
            job.vectors = part.v.shape[1] * self.dtype.itemsize // self.native.vector_bytes
        else:
            origin = z.origin
            pulls.left, pulls.right = (self._address(e.packed(leaf, origin)[0]) for e in (x, z))
            pulls.sums = self._address(self.sums)
        if sized:
            pulls.sizes = self._address(self.sizes)
        if sized or part.v is None:
            self._alive.append(pulls)
            job.pulls = ctypes.pointer(pulls)
        entry = 2 * (2 * columns + weights[0].d) + 64 * int(job.depth)
        self.tickets = max(1, min(lib.TICKETS, LOOK // (self.side**2 * int(job.group) * entry)))

    def run(self, n_threads: int) -> tuple[Array, Array]:  # (n, c), (n, 1)
        """Both sums, over all groups of points."""
        self._drawn(n_threads, tickets=self.tickets)
        n = self.x.n
        sums = np.add.reduce(self.sums[:, :n, : self.width], axis=0)
        return np.asarray(sums), np.add.reduce(self.sizes[:, :n], axis=0)
