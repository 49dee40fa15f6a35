"""Pre-images in closed form: linear kernels, and odd powers of the dot product; what can be undone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from mercer._core.params import Constraints, Whole
from mercer._core.public import public
from mercer.data.rows import row_slices
from mercer.engine.formula import Affine, Exp, Expr, Matern, Pair, Pow
from mercer.kernels.evaluate import values as evaluated
from mercer.kernels.matern import inverse_matern
from mercer.preimage.base import FEW, Cost, Preimage, quality_without

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices
    from mercer.kernels.base import Kernel
    from mercer.preimage.base import Examples, Learned

AXES = 2**20  # numbers that a block of axes of input space may hold


@public
@dataclass(repr=True)
class Exact(Preimage):
    """x_j = f⁻¹(ψ·φ(c e_j))/c for a kernel f(x·x') that can be inverted, e_j the axes of input space.

    If ψ = φ(x), then ψ·φ(c e_j) = f(c x_j): the coordinates can be read off one by one (Schölkopf, Mika,
    Smola, Rätsch & Müller 1998). For the linear kernel this is mean + scores · axes, always; for an odd
    power it is exact where ψ is the image of a point, as with all components, and an estimate elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCA
    >>> X = np.random.default_rng(0).standard_normal((50, 3)) + 5.0
    >>> model = KernelPCA(3, kernel="linear", preimage=Exact()).fit(X)
    >>> np.allclose(model.inverse_transform(model.transform(X)), X)
    True
    """

    max_rows: int = 5000  # to measure the quality on

    constraints: ClassVar[Constraints] = {"max_rows": Whole(1)}

    def missing_in(self, kernel: Kernel) -> str:
        if of_dot_product(kernel) is not None:
            return ""
        return "the linear kernel or a polynomial of odd degree"

    def n_bytes(self, n: int, d: int, k: int) -> int:
        """A block of axes against all points, what became of all axes, and the rows to measure on."""
        block = _block(d)
        # The axes, their features or their values with all points.
        against = block * (3 * d + n + k + 1)
        return 8 * (n * (2 * d + k) + 3 * d * (k + 1) + against + min(n, self.max_rows) * (d + k))

    def cost(self, n: int, d: int, k: int) -> Cost:
        """The axes against all points, and the rows that the quality is taken from."""
        return Cost(entries=n * (d + 2.0 * FEW), flops=2.0 * n * (k + 1) * (d + FEW))

    def _learn(self, examples: Examples, *, rng: np.random.Generator) -> Learned:
        space, kernel = examples.space, examples.kernel
        assert space is not None  # `check` has seen to it
        rows = examples.rows
        # Any c does on paper; one of the size of the data keeps both terms of a power in sight.
        squares = np.mean(np.square(rows, dtype=np.float64), axis=1)
        c = float(np.sqrt(np.average(squares, weights=examples.counts))) or 1.0
        d = int(rows.shape[1])
        # φ(c e_j)·v and φ(c e_j)·μ, a part of the scores and of the mean that the rows c e_j have.
        both = np.column_stack([space.projection.coef, space.mean.coef])
        axes = np.empty((d, both.shape[1]))  # (d, k + 1)
        for j in row_slices(d, _block(d)):  # all c e_j at once would be d² numbers
            unit = np.zeros((j.stop - j.start, d))
            unit[np.arange(len(unit)), np.arange(j.start, j.stop)] = c
            axes[j] = space.projection.sections.times(unit, both)
        back = ExactBack(kernel, axes[:, :-1], axes[:, -1], c, len(rows))
        return self, back, quality_without(examples, back, least=1, rng=rng)


def _block(d: int) -> int:
    """How many axes of input space are looked at together."""
    return min(d, max(1, AXES // d))


@dataclass(frozen=True, repr=False)
class ExactBack:
    """ψ(t)·φ(c e_j) is affine in t."""

    kernel: Kernel
    slopes: Annotated[Array, "d k"]
    start: Annotated[Array, "d"]
    c: float
    n_rows: int

    def __call__(self, scores: Array, skip: Indices | None = None) -> tuple[Array, None]:
        """x_j = f⁻¹(ψ·φ(c e_j))/c, which no row has a part in."""
        del skip
        return undone(self.kernel.tree(), scores @ self.slopes.T + self.start) / self.c, None


# ── what can be undone: values that tell the distance of two points, or their dot product ────
def unscaled(expr: Expr) -> tuple[Expr, float]:
    """(f, c) of a formula c·f with c > 0."""
    factor = 1.0
    while isinstance(expr, Affine) and expr.scale > 0 and expr.shift == 0:
        factor *= expr.scale
        expr = expr.of
    return expr, factor


def of_dot_product(kernel: Kernel) -> Expr | None:
    """The formula without its factor, where its values tell dot products: an even power has lost the sign."""
    expr = unscaled(kernel.shape())[0]
    return expr if _leaf(expr) == "dot" else None


def of_distance(kernel: Kernel) -> Expr | None:
    """The formula without its factor, where its values tell distances, and are 1 for a distance of 0."""
    expr = unscaled(kernel.shape())[0]
    if _leaf(expr) != "sqdist" or not expr.decreasing:
        return None
    return expr if evaluated(expr, np.zeros((1, 1)))[0] == 1.0 else None


def _leaf(expr: Expr) -> str | None:
    """The kind of pair that the values tell, through functions each of which can be undone."""
    match expr:
        case Pair(kind):
            return kind
        case Affine(of, scale) if scale != 0:
            return _leaf(of)
        case Pow(of, p):
            inner = _leaf(of)
            return inner if inner != "dot" or (expr.whole is not None and p % 2 == 1) else None
        case Exp(of) | Matern(of):
            inner = _leaf(of)
            return inner if inner != "dot" else None
    return None


def undone(expr: Expr, values: Array) -> Array:
    """The quantity of the pair for values of its formula: of distances 0 from f(0) on, inf from 0 down."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        found = _undone(expr, values)
    return np.maximum(found, 0.0) if _leaf(expr) == "sqdist" else found


def _undone(expr: Expr, values: Array) -> Array:
    match expr:
        case Affine(of, scale, shift):
            return _undone(of, (values - shift) / scale)
        case Pow(of, p) if _leaf(of) == "dot":
            return _undone(of, np.sign(values) * np.abs(values) ** (1.0 / p))
        case Pow(of, p):
            return _undone(of, np.power(np.maximum(values, 0.0), 1.0 / p))
        case Exp(of):
            return _undone(of, np.log(np.maximum(values, 0.0)))
        case Matern(of, nu):
            s = inverse_matern(np.clip(values, 0.0, 1.0), nu)
            return _undone(of, 0.5 * s**2 / nu)
        case Pair(unit=unit):
            return np.asarray(values * unit**2)
    raise TypeError(type(expr))
