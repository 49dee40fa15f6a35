"""A formula as a list of operations on tiles: what the compiled library runs."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mercer.engine import formula as f
from mercer.engine.native import bindings as lib

if TYPE_CHECKING:
    from mercer._core.types import Array

    Columns = tuple[int, ...] | None  # positions; all, where none are said

MOST_TILES = 4  # of the stack: each is as large as the tile that is made
HALVES = 7  # Matérn kernels of ν = 1/2, 3/2, …, beyond which their sums cancel


class NotCompiledError(Exception):
    """A formula, or a part of it, that has no compiled form; the message says which."""


def positions(columns: tuple[int, ...] | tuple[bool, ...]) -> tuple[int, ...]:
    """Positions, also of a mask: compared as tuples, (False, True) and (0, 1) are equal."""
    if all(isinstance(each, bool | np.bool_) for each in columns):
        return tuple(np.flatnonzero(columns).tolist())
    return tuple(int(each) for each in columns)


@dataclass(frozen=True)
class Leaf:
    """A quantity of two rows, on some columns, of rows as they are or of length one."""

    kind: str
    columns: Columns = None
    unit_rows: bool = False
    of: f.Expr | None = None  # of lengths in feature space: the formula


# ── nodes that derivatives have beside those of formulas ───────────────────
@dataclass(frozen=True)
class Smooth(f.Function):
    """u, and 0 where it has no end: the derivative of a root at zero."""


@dataclass(frozen=True)
class Divided(f.Function):
    """u(x, x')/√(v(x, x) v(x', x')), and 0 where v(x, x) = 0."""

    by: f.Expr


@dataclass(frozen=True, eq=False)
class Step:
    """An operation, as `bindings.Op` has it."""

    code: int
    number: int = 0
    a: float = 1.0
    b: float = 0.0
    coefficients: Array | None = None
    lengths: Leaf | None = None  # of OUTER: what the tile is divided by


@dataclass
class Program:
    """Operations on a stack of tiles, in turn."""

    leaves: list[Leaf] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    depth: int = 0
    sharpest: float = 0.0  # the largest factor of a squared distance

    @classmethod
    def of(cls, tree: f.Expr, most_tiles: int = MOST_TILES) -> Program:
        """The operations of a formula; raises `NotCompiledError` where it has none."""
        program = cls()
        program._write(tree, None, 0)
        if program.depth > most_tiles:
            msg = f"its formula needs {program.depth} tiles at a time, more than {most_tiles}"
            raise NotCompiledError(msg)
        return program

    @cached_property
    def shared(self) -> tuple[list[Step], int]:
        """The steps, with tiles kept of quantities that are needed more than once; how many are."""
        uses = Counter(step.number for step in self.steps if step.code == lib.PAIR)
        kept: dict[int, int] = {}
        out: list[Step] = []
        for step in self.steps:
            again = step.code == lib.PAIR and step.number in kept
            out.append(Step(lib.TAKE, number=kept[step.number]) if again else step)
            if step.code == lib.PAIR and uses[step.number] > 1 and not again:
                kept[step.number] = len(kept)
                out.append(Step(lib.KEEP, number=kept[step.number]))
        return out, len(kept)

    def _write(self, expr: f.Expr, columns: Columns, under: int) -> None:  # noqa: PLR0912  (a case, a rule)
        """The steps of a part, whose result is the tile above `under` others."""
        self.depth = max(self.depth, under + 1)
        match expr:
            case f.Pair(kind, unit):
                self._pair(Leaf(kind, columns), 1.0, unit, 0.0)
            case f.Const(value):
                self.steps.append(Step(lib.CONSTANT, a=value))
            case f.Exp(f.Affine(of, scale, 0.0)):
                self._write(of, columns, under)
                self._scaled_exp(scale)
            case f.Exp(of):
                self._write(of, columns, under)
                self.steps.append(Step(lib.EXP))
            case f.Affine(f.Pair(kind, unit), scale, shift):
                self._pair(Leaf(kind, columns), scale, unit, shift)
            case f.Affine(of, scale, shift):
                self._write(of, columns, under)
                self.steps.append(Step(lib.AFFINE, a=scale, b=shift))
            case f.Tanh(of):
                self._write(of, columns, under)
                self.steps.append(Step(lib.TANH))
            case f.Pow(of):
                self._write(of, columns, under)
                self._power(expr)
            case f.Matern(of, nu):
                self._write(of, columns, under)
                self._matern(nu)
            case f.Add(left, right) | f.Mul(left, right):
                self._write(left, columns, under)
                self._write(right, columns, under + 1)
                self.steps.append(Step(lib.ADD if isinstance(expr, f.Add) else lib.MULTIPLY))
            case f.Unit(f.Pair(kind="dot")):
                self._pair(Leaf("dot", columns, unit_rows=True), 1.0, 1.0, 0.0)
            case f.Unit(of):
                self._write(Divided(of, of), columns, under)
            case Divided(of, by):
                self._write(of, columns, under)
                self.steps.append(Step(lib.OUTER, lengths=Leaf("length", columns, of=by)))
            case Smooth(of):
                self._write(of, columns, under)
                self.steps.append(Step(lib.SMOOTH))
            case f.On(of) if columns is None:
                self._write(of, positions(expr.columns), under)
            case _:
                msg = f"{expr} has no compiled form"
                raise NotCompiledError(msg)

    def _pair(self, leaf: Leaf, scale: float, unit: float, shift: float) -> None:
        """scale u/unit² + shift."""
        scale = scale / unit / unit
        if not math.isfinite(scale) or (scale == 0.0 and math.isfinite(unit)):
            msg = f"its unit of length, {unit:g}, has a square out of range"
            raise NotCompiledError(msg)
        if leaf not in self.leaves:
            self.leaves.append(leaf)
        self.steps.append(Step(lib.PAIR, number=self.leaves.index(leaf)))
        if leaf.kind == "sqdist":
            self.sharpest = max(self.sharpest, abs(scale))
        if scale != 1.0 or shift:
            self.steps.append(Step(lib.AFFINE, a=scale, b=shift))

    def _scaled_exp(self, scale: float) -> None:
        """e^(scale u): one step, and where u is a scaled pair itself its factor joins in."""
        last = self.steps[-1]
        if last.code == lib.PAIR and self.leaves[last.number].kind == "sqdist":
            self.sharpest = max(self.sharpest, abs(scale))
        self.steps.append(Step(lib.EXP, a=scale))

    def _power(self, power: f.Pow) -> None:
        if power.exponent == 0.5:
            self.steps.append(Step(lib.ROOT))
        elif power.whole is not None and power.whole >= 0:
            self.steps.append(Step(lib.WHOLE_POWER, number=power.whole))
        else:
            self.steps.append(Step(lib.POWER, a=power.exponent))

    def _matern(self, nu: float) -> None:
        """e^-s Σ (p + i)!/(i! (p - i)!) (2s)^(p - i) · p!/(2p)! with s = √(2νu), for ν = p + 1/2."""
        p = round(nu - 0.5)
        if p + 0.5 != nu or not 0 <= p <= HALVES:
            msg = f"a Matérn kernel of nu={nu:g}, not one of 1/2, 3/2, …, {HALVES}.5, needs Bessel functions"
            raise NotCompiledError(msg)
        c = np.zeros(p + 1)
        for i in range(p + 1):
            share = math.factorial(p + i) // (math.factorial(i) * math.factorial(p - i))
            c[p - i] = share * 2.0 ** (p - i) * math.factorial(p) / math.factorial(2 * p)
        self.steps += [
            Step(lib.AFFINE, a=2.0 * nu),
            Step(lib.ROOT),
            Step(lib.POLY_EXP, number=p, coefficients=c),
        ]


def own_values(expr: f.Expr, x: Array) -> Array:  # noqa: PLR0911, PLR0912  (n, d) -> (n,)
    """u(x, x) of each row."""
    match expr:
        case f.Pair(kind="dot"):
            return np.einsum("ij,ij->i", x, x)
        case f.Pair():
            return np.zeros(len(x))
        case f.Const(value):
            return np.full(len(x), value)
        case f.Affine(of, scale, shift):
            return scale * own_values(of, x) + shift
        case f.Exp(of):
            return np.exp(own_values(of, x))
        case f.Tanh(of):
            return np.tanh(own_values(of, x))
        case f.Pow(of, exponent):
            return own_values(of, x) ** exponent
        case f.Add(left, right):
            return own_values(left, x) + own_values(right, x)
        case f.Mul(left, right):
            return own_values(left, x) * own_values(right, x)
        case f.Unit(of):
            return (own_values(of, x) > 0).astype(np.float64)
        case f.On(of):
            return own_values(of, x[:, positions(expr.columns)])
        case f.Matern(of) if not np.any(own_values(of, x)):
            return np.ones(len(x))
        case Divided(of, by):
            own = own_values(by, x)
            return np.divide(own_values(of, x), own, out=np.zeros(len(x)), where=own > 0)
        case Smooth(of):
            with np.errstate(divide="ignore"):
                own = own_values(of, x)
            return np.where(np.isinf(own), 0.0, own)
    msg = f"lengths of {expr} have no compiled form"
    raise NotCompiledError(msg)
