"""A formula as a list of operations on tiles: what the compiled library runs, of kernels and derivatives."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mercer._core.types import Array
from mercer.engine import formula as f
from mercer.engine.native import bindings as lib

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

    def width(self, d: int) -> int:
        """The number of columns that are taken of d."""
        return d if self.columns is None else len(self.columns)


# ── nodes that derivatives have beside those of formulas ────────────────────
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
    steepest: float = 0.0  # and of any part of the formula
    # Of products, as quantities of a row with itself.
    factors: list[Leaf] = field(default_factory=list)

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

    def _write(self, expr: f.Expr, columns: Columns, under: int) -> None:
        """The steps of a part, whose result is the tile above `under` others."""
        self.depth = max(self.depth, under + 1)
        match expr:
            case f.Pair(kind, unit):
                self._pair(Leaf(kind, columns), 1.0, unit, 0.0)
            case f.Const(value):
                self.steps.append(Step(lib.CONSTANT, a=value))
            case f.Exp(f.Affine(of, scale, 0.0)):  # one step, whose factor joins that of a pair
                self._write(of, columns, under)
                last = self.steps[-1]
                if last.code == lib.PAIR and self.leaves[last.number].kind == "sqdist":
                    self.sharpest = max(self.sharpest, abs(scale))
                self.steepest = max(self.steepest, abs(scale))
                self.steps.append(Step(lib.EXP, a=scale))
            case f.Affine(f.Pair(kind, unit), scale, shift):
                self._pair(Leaf(kind, columns), scale, unit, shift)
            case f.Joined(left, right):
                self._write(left, columns, under)
                self._write(right, columns, under + 1)
                self.steps.append(Step(lib.ADD if isinstance(expr, f.Add) else lib.MULTIPLY))
                if isinstance(expr, f.Mul):  # without dot products no value of a factor is large
                    sides = [side for side in expr.parts if side.has("dot")]
                    self.factors += [Leaf("length", columns, of=side) for side in sides]
            case f.Unit(f.Pair(kind="dot")):
                self._pair(Leaf("dot", columns, unit_rows=True), 1.0, 1.0, 0.0)
            case f.Unit(of):
                self._write(Divided(of, of), columns, under)
            case f.On(of) if columns is None:
                self._write(of, positions(expr.columns), under)
            case f.Function(of):
                self._write(of, columns, under)
                self.steepest = max(self.steepest, abs(getattr(expr, "scale", 0.0)))
                self.steps += _applied(expr, columns)
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
        self.steepest = max(self.steepest, abs(scale))
        if leaf.kind == "sqdist":
            self.sharpest = max(self.sharpest, abs(scale))
        if scale != 1.0 or shift:
            self.steps.append(Step(lib.AFFINE, a=scale, b=shift))


def _applied(expr: f.Function, columns: Columns) -> list[Step]:  # noqa: PLR0911  (a case, an answer)
    """The steps of a node after those of the formula that it is a function of."""
    match expr:
        case f.Exp():
            return [Step(lib.EXP)]
        case f.Affine(_, scale, shift):
            return [Step(lib.AFFINE, a=scale, b=shift)]
        case f.Tanh():
            return [Step(lib.TANH)]
        case f.Pow(_, 0.5):
            return [Step(lib.ROOT)]
        case f.Pow(whole=int(n)) if n >= 0:
            return [Step(lib.WHOLE_POWER, number=n)]
        case f.Pow(_, exponent):
            return [Step(lib.POWER, a=exponent)]
        case f.Matern(_, nu):
            return _matern(nu)
        case Divided(_, by):
            return [Step(lib.OUTER, lengths=Leaf("length", columns, of=by))]
        case Smooth():
            return [Step(lib.SMOOTH)]
    msg = f"{expr} has no compiled form"
    raise NotCompiledError(msg)


def _matern(nu: float) -> list[Step]:
    """e^-s Σ (p + i)!/(i! (p - i)!) (2s)^(p - i) · p!/(2p)! with s = √(2νu), for ν = p + 1/2."""
    p = round(nu - 0.5)
    if p + 0.5 != nu or not 0 <= p <= HALVES:
        msg = f"a Matérn kernel of nu={nu:g}, not one of 1/2, 3/2, …, {HALVES}.5, needs Bessel functions"
        raise NotCompiledError(msg)
    c = np.zeros(p + 1)
    for i in range(p + 1):
        share = math.factorial(p + i) // (math.factorial(i) * math.factorial(p - i))
        c[p - i] = share * 2.0 ** (p - i) * math.factorial(p) / math.factorial(2 * p)
    last = Step(lib.POLY_EXP, number=p, coefficients=c)
    return [Step(lib.AFFINE, a=2.0 * nu), Step(lib.ROOT), last]


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
        case f.Unit(f.Pair(kind="dot")):
            return np.any(x, axis=1).astype(np.float64)
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


# ── the derivative of a formula in one of its quantities is a formula ───────
def quantities(program: Program) -> list[Leaf]:
    """What moves with x in a formula: quantities of pairs, and lengths that parts of it are divided by."""
    lengths = [step.lengths for step in program.steps if step.lengths is not None]
    return [*program.leaves, *dict.fromkeys(lengths)]


def derivative(expr: f.Expr, leaf: Leaf, columns: Columns = None) -> f.Expr | None:  # noqa: PLR0911
    """∂k/∂u of a quantity u, with 0 for a kink; None where that is zero everywhere.

    For a length ‖φ(x)‖ by which a part v of the formula is divided it is v ∂k/∂v: k falls by as much for each
    share by which the length grows.
    """
    match expr:
        case f.Pair(kind, unit):
            return f.Const(1.0 / unit / unit) if leaf == Leaf(kind, columns) else None
        case f.Const():
            return None
        case f.Unit(f.Pair(kind="dot")):
            return f.Const(1.0) if leaf == Leaf("dot", columns, unit_rows=True) else None
        case f.Unit(of):
            own = expr if leaf == Leaf("length", columns, of=of) else None
            inner = derivative(of, leaf, columns)
            return _sum(own, None if inner is None else Divided(inner, of))
        case f.On(of):
            inner = derivative(of, leaf, positions(expr.columns))
            return None if inner is None else f.On(inner, expr.columns)
        case f.Affine(of, scale):
            return _scaled(derivative(of, leaf, columns), scale)
        case f.Add(left, right):
            return _sum(derivative(left, leaf, columns), derivative(right, leaf, columns))
        case f.Mul(left, right):
            first = _product(derivative(left, leaf, columns), right)
            return _sum(first, _product(derivative(right, leaf, columns), left))
    (of,) = expr.parts
    inner = derivative(of, leaf, columns)
    return None if inner is None else _product(inner, _outer(expr, of))


def _outer(expr: f.Expr, of: f.Expr) -> f.Expr:
    """f'(u) of a node f(u)."""
    match expr:
        case f.Exp():
            return expr
        case f.Tanh():
            return f.Affine(f.Pow(expr, 2.0), -1.0, 1.0)
        case f.Pow(_, 0.0 | 1.0 as p):
            return f.Const(p)
        case f.Pow(_, p):
            below = of if p == 2 else f.Pow(of, p - 1.0)
            return f.Affine(Smooth(below) if p < 1 else below, p)
        case f.Matern(_, 0.5):  # e^-s with s = √u
            root = f.Pow(of, 0.5)
            inverse = Smooth(f.Pow(of, -0.5))
            return f.Affine(f.Mul(f.Exp(f.Affine(root, -1.0)), inverse), -0.5)
        case f.Matern(_, nu):
            # d/ds s^ν K_ν(s) = -s^ν K_(ν-1)(s): the next rougher one, of the same s.
            rougher = f.Matern(f.Affine(of, nu / (nu - 1.0)), nu - 1.0)
            return f.Affine(rougher, -0.5 * nu / (nu - 1.0))
    raise TypeError(type(expr))


def _scaled(u: f.Expr | None, scale: float) -> f.Expr | None:
    if u is None or scale == 0.0:
        return None
    return f.Const(scale * u.value) if isinstance(u, f.Const) else f.Affine(u, scale)


def _product(u: f.Expr | None, v: f.Expr) -> f.Expr | None:
    if isinstance(v, f.Const):
        return _scaled(u, v.value)
    if isinstance(u, f.Const):
        return _scaled(v, u.value)
    return None if u is None else f.Mul(u, v)


def _sum(u: f.Expr | None, v: f.Expr | None) -> f.Expr | None:
    return f.Add(u, v) if u is not None and v is not None else u or v


# ── both sides moving ───────────────────────────────────────────────────────
def own_slopes(expr: f.Expr, x: Array) -> Array:  # (n, d) -> (n, d)
    """∂u(x, x)/∂x: of the quantities of a row with itself, x·x moves, and so do lengths."""
    out = np.zeros(x.shape)
    for leaf in quantities(Program.of(expr)):
        part = of_columns(x, leaf.columns)
        moved = 2.0 * part if leaf.kind == "dot" and not leaf.unit_rows else None
        if leaf.kind == "length":
            moved = -2.0 * length_slopes(leaf, part)
        inner = None if moved is None else derivative(expr, leaf)
        if inner is not None and moved is not None:
            spread(out, leaf.columns, own_values(inner, x)[:, None] * moved)
    return out


def length_slopes(leaf: Leaf, x: Array) -> Array:  # (n, d) -> (n, d)
    """The relative growth of ‖φ(x)‖ with x, ½ ∂u(x, x)/∂x / u(x, x); 0 where it is zero."""
    assert leaf.of is not None
    own = own_values(leaf.of, x)[:, None]
    return np.divide(0.5 * own_slopes(leaf.of, x), own, out=np.zeros(x.shape), where=own > 0)


def of_columns(x: Array, columns: Columns) -> Array:
    """The columns that a quantity looks at."""
    return x if columns is None else x[:, np.asarray(columns)]


def spread(out: Array, columns: Columns, slopes: Array) -> None:  # (n, d), (n, c)
    """Add slopes in their places; a column that was picked twice counts twice."""
    if columns is None:
        out += slopes
    else:
        np.add.at(out.T, np.asarray(columns), slopes.T)
