"""A kernel as a formula: what it makes of the distances and dot products of a pair of points.

Leaves are quantities of a pair, nodes are functions of them. NumPy tiles, derivatives, bounds on rounding and
ONNX graphs each walk this tree once (`mercer.kernels.evaluate`, `slopes`, `mercer.onnx.kernels`,
`mercer.diagnostics.rounding`), and what is asked of a kernel (is it shift-invariant? does it need dense
rows?) is read off it. A new kernel is a class with a constructor and a formula.

It lives below the kernels: an engine that has no NumPy walks the same tree (`TileKernel.tree`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

_SHOWN = {"sqdist": "‖x - x'‖²", "dot": "x·x'", "l1": "‖x - x'‖₁", "chi2": "χ²(x, x')"}


@dataclass(frozen=True)
class Expr:
    """A formula, or a part of one. Immutable; equal where it is written the same."""

    shown: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.shown.format(**vars(self))

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The formulas that it is a function of."""
        return tuple(value for value in vars(self).values() if isinstance(value, Expr))

    def walk(self) -> list[Expr]:
        """The formula and everything below it."""
        found: list[Expr] = [self]
        for node in found:  # which grows meanwhile
            found += node.parts
        return found

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of its leaves. A fit asks what follows from them a dozen times."""
        return frozenset(kind for node in self.walk() if (kind := getattr(node, "kind", None)))

    @cached_property
    def text(self) -> str:
        """The formula as it is written: a mask of columns and positions may be equal and not the same."""
        return repr(self)

    def has(self, *kinds: str) -> bool:
        """Whether a leaf of one of these kinds is in it."""
        return not self.kinds.isdisjoint(kinds)

    @cached_property
    def shift_invariant(self) -> bool:
        """Whether moving all points by one vector changes no value."""
        return not self.has("dot", "chi2", "opaque")

    @property
    def differentiable(self) -> bool:
        """Whether its derivative in x is known, but for kinks here and there."""
        return not self.has("opaque")

    @property
    def counts_only(self) -> bool:
        """Whether rows may hold no negative entry."""
        return self.has("chi2")

    @cached_property
    def densifies(self) -> bool:
        """Whether tiles of sparse rows are made of dense ones."""
        return self.has("l1", "chi2")

    @cached_property
    def names_columns(self) -> bool:
        """Whether a part of it is on columns by their names, which have positions once there are rows."""
        nodes = (node for node in self.walk() if isinstance(node, On))
        return any(isinstance(column, str) for node in nodes for column in node.columns)

    @property
    def divides(self) -> bool:
        """Whether a part of it is divided by the lengths of two points in feature space."""
        return any(isinstance(node, Unit) for node in self.walk())

    @property
    def vanishes(self) -> bool:
        """Whether values of far points are zero, where it is known: for one function of their distance."""
        falls = isinstance(self, (Exp, Matern)) or (isinstance(self, Pow) and self.exponent < 0)
        return falls and self.shift_invariant

    @property
    def decreasing(self) -> bool:
        """Whether it is a positive function of the distance ‖x - x'‖ that nowhere grows with it."""
        return _trend(self) in (-1, 0)


@dataclass(frozen=True)
class Pair(Expr):
    """A quantity of two points: ‖(x - x')/unit‖², x·x', Σ|x_d - x'_d| or Σ(x_d - x'_d)²/(x_d + x'_d).

    The unit, of squared distances alone, keeps a width apart whose square is out of range.
    """

    kind: Literal["sqdist", "dot", "l1", "chi2"]
    unit: float = 1.0

    def __str__(self) -> str:
        shown = _SHOWN[self.kind]
        return shown if self.unit == 1.0 else f"({shown}/{self.unit:g}²)"


@dataclass(frozen=True)
class Const(Expr):
    """One number for all pairs."""

    shown: ClassVar[str] = "{value:g}"

    value: float


@dataclass(frozen=True)
class Function(Expr):
    """A function of one formula."""

    of: Expr


@dataclass(frozen=True)
class Affine(Function):
    """scale · u + shift."""

    scale: float = 1.0
    shift: float = 0.0

    def __str__(self) -> str:
        shift = f" + {self.shift:g}" if self.shift else ""
        scale = "" if self.scale == 1.0 else f"{self.scale:g} "
        return f"({scale}{self.of}{shift})"


@dataclass(frozen=True)
class Exp(Function):
    """e^u."""

    shown: ClassVar[str] = "exp {of}"


@dataclass(frozen=True)
class Pow(Function):
    """u^p. With p = 1/2 of `sqdist` it is the distance; where u is negative, p is a whole number."""

    shown: ClassVar[str] = "{of}^{exponent:g}"

    exponent: float

    @property
    def whole(self) -> int | None:
        """p where it is a whole number: repeated multiplication, also of negative numbers."""
        return int(self.exponent) if float(self.exponent).is_integer() else None


@dataclass(frozen=True)
class Tanh(Function):
    """tanh u."""

    shown: ClassVar[str] = "tanh {of}"


@dataclass(frozen=True)
class Matern(Function):
    """2^(1-ν)/Γ(ν) · s^ν K_ν(s) with s = √(2νu), for u the square of a distance."""

    shown: ClassVar[str] = "M_{nu:g}({of})"

    nu: float


@dataclass(frozen=True)
class Unit(Function):
    """u(x, x')/√(u(x, x) u(x', x')), and 0 where u(x, x) = 0."""

    shown: ClassVar[str] = "unit({of})"


@dataclass(frozen=True)
class On(Function):
    """The formula on some of the columns: positions, or a mask of all."""

    shown: ClassVar[str] = "{of} on {columns}"

    columns: tuple[int, ...] | tuple[bool, ...]


@dataclass(frozen=True)
class Joined(Expr):
    """Two formulas, put together."""

    left: Expr
    right: Expr


@dataclass(frozen=True)
class Add(Joined):
    """u + v."""

    shown: ClassVar[str] = "({left} + {right})"


@dataclass(frozen=True)
class Mul(Joined):
    """u · v."""

    shown: ClassVar[str] = "{left} · {right}"


@dataclass(frozen=True)
class Opaque(Expr):
    """A kernel without a formula, as a leaf: a function, an object of scikit-learn, a class with a `tile`."""

    shown: ClassVar[str] = "{kernel!r}"
    kind: ClassVar[str] = "opaque"

    kernel: Any  # a `mercer.kernels.Kernel`, which lives above

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The kernels that it is made of, whatever it makes of them."""
        return tuple(child.shape() for child in self.kernel.children)


def _trend(expr: Expr) -> int | None:  # noqa: PLR0911  (a case, an answer)
    """1 for a positive function of ‖x - x'‖² that rises, -1 that falls, 0 for a constant; None otherwise."""
    match expr:
        case Pair(kind="sqdist"):
            return 1
        case Const(value):
            return 0 if value >= 0 else None
        case Affine(of, scale, shift):
            return _trend(of) if scale > 0 and shift >= 0 else None
        case Exp(Affine(of, scale)):  # positive whatever its sign is
            return _turned(of, scale)
        case Exp(of):
            return _trend(of)
        case Pow(of, exponent):
            return _turned(of, exponent)
        case Matern(of):
            return _turned(of, -1.0)
        case Joined(left, right):
            trends = {_trend(left), _trend(right)}
            together = trends - {0}
            return None if None in trends or len(together) > 1 else sum(t or 0 for t in together)
    return None


def _turned(of: Expr, sign: float) -> int | None:
    inner = _trend(of)
    return inner if inner is None or sign > 0 else -inner


# ── trees of mercer's own kernels, cached by class and parameters ───────────
# A fit asks for the same tree a dozen times, and to check the parameters of a kernel and to build its tree
# takes as long as a tile of fifty rows. Parameters may be set at any time, also those of a kernel inside
# another, so nothing is kept with an object: what it is now is the key.
MOST = 512  # a search over widths has a tree for each
PLAIN = frozenset((float, int, str, type(None), bool))

_TREES: dict[tuple[Any, ...], Expr] = {}


def remembered(kernel: Any, make: Callable[[], Expr], what: str) -> Expr:
    """The tree of the kernel as it is now, made where it is not known yet; `what` it is the tree of."""
    own = identity(kernel)
    found = None if own is None else _TREES.get((what, own))
    if found is None:
        found = make()
        # An opaque leaf holds one object of many that look alike.
        if own is not None and not found.has("opaque"):
            if len(_TREES) >= MOST:
                _TREES.clear()
            _TREES[what, own] = found
    return found


def identity(kernel: Any) -> tuple[Any, ...] | None:
    """The class, and the attributes with their types; None where a value may depend on more.

    True is equal to 1, and 1 to 1.0, but they are not the same parameter.
    """
    cls, own = type(kernel), vars(kernel)
    if not cls.__module__.startswith("mercer."):  # may have slots, or attributes of its class
        return None
    values = tuple(own.values())
    kinds = tuple(map(type, values))
    if PLAIN.issuperset(kinds):  # as of most: no loop
        return cls, tuple(own), kinds, values
    parts: list[Any] = [cls]
    for name, value in own.items():
        kind = type(value)
        if kind in PLAIN:
            parts += (name, kind, value)
        elif hasattr(value, "formula"):  # a kernel inside
            inner = identity(value)
            if inner is None:
                return None
            parts += (name, inner)
        else:
            return None
    return tuple(parts)
