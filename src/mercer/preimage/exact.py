"""Pre-images in closed form: coordinates of an odd power, distances to neighbours; what can be undone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from mercer._core.params import Constraints, Whole
from mercer._core.public import public
from mercer._core.types import Array, Indices
from mercer.data.rows import row_slices
from mercer.engine.formula import Affine, Exp, Expr, Matern, Pair, Pow
from mercer.engine.pairwise import squared_norms
from mercer.kernels.base import Kernel
from mercer.kernels.evaluate import DOT
from mercer.kernels.evaluate import values as evaluated
from mercer.kernels.matern import inverse_matern
from mercer.model.space import FeatureSpace
from mercer.preimage.base import FEW, Cost, Examples, Learned, Preimage, quality_without
from mercer.preimage.search import SLICE_NUMBERS, Neighbours

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
        known = of_dot_product(kernel) is not None
        return "" if known else "the linear kernel or a polynomial of odd degree"

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


# ── from distances in feature space to distances in input space (Kwok & Tsang 2004) ──────
# A point this many times as far from the mean as any row has left the data.
LEFT = 2.0
# Directions in which the neighbours spread less than this share of their widest are left alone.
FLAT = 1e-6


@public
@dataclass(repr=True)
class Distances(Preimage):
    """Distances from ψ to the images of near rows say how far the pre-image is from those rows.

    For a kernel f(‖x - z‖²), f tells the input distance from ‖ψ - φ(z)‖²; for an invertible function of
    x·z, the dot products tell it. The point with these distances is found by least squares in the span of
    the neighbours (Gower 1968). No iteration, and no start that could be a bad one. Distances that no point
    has may put it anywhere along directions in which the neighbours hardly differ: of this point, those
    with fewer of their main directions, and the row with the nearest scores, the one whose image is nearest
    to ψ is taken.

    Parameters
    ----------
    n_neighbours : int, default=10
    max_rows : int, default=5000
        Rows to choose neighbours from.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from mercer import KernelPCA
    >>> X, _ = make_circles(200, noise=0.02, random_state=0)
    >>> model = KernelPCA(20, kernel="rbf", preimage=Distances()).fit(X)
    >>> bool(abs(model.inverse_transform(model.transform(X[:5])) - X[:5]).max() < 0.05)
    True
    """

    n_neighbours: int = 10
    max_rows: int = 5000

    constraints: ClassVar[Constraints] = {"n_neighbours": Whole(2), "max_rows": Whole(2)}

    def missing_in(self, kernel: Kernel) -> str:
        if of_distance(kernel) is not None or of_dot_product(kernel) is not None:
            return ""
        known = "(RBF, Matern, RationalQuadratic, Linear, Polynomial of odd degree)"
        return f"a kernel whose value tells the distance {known}"

    def n_bytes(self, n: int, d: int, k: int) -> int:
        """Examples, and a slice of targets against all of them and beside their neighbours."""
        rows = min(n, self.max_rows)
        one = (self.n_neighbours + 2) * max(d, k)
        return 8 * (rows * (d + k + 2) + 2 * n * (k + 1) + 9 * max(SLICE_NUMBERS, rows, one))

    def cost(self, n: int, d: int, k: int) -> Cost:
        """Rows that the quality is taken from, a point for each neighbour, against all points."""
        m, q = min(FEW, n, self.max_rows), self.n_neighbours
        small = 60.0 * q * q * max(q, min(d, 4 * q))  # a decomposition each
        entries, flops = n * (m * min(q + 2.0, d + 2.0) + n), m * (2.0 * n * k + 50.0 * small)
        return Cost(entries=entries, flops=flops)

    def _learn(self, examples: Examples, *, rng: np.random.Generator) -> Learned:
        kernel, space = examples.kernel, examples.space
        assert space is not None  # `check` has seen to it
        near = Neighbours(examples.scores, examples.rows)
        # What a row adds to its distance from any target.
        own = (space.errors if _is_linear(kernel) else space.mean_products)(examples.rows)
        back = DistancesBack(self, kernel, space, near, own, examples.mean, examples.radius)
        return self, back, quality_without(examples, back, least=4, rng=rng)


@dataclass(frozen=True, repr=False)
class DistancesBack:
    """Neighbours, and all that their distances to a target are made of."""

    method: Distances
    kernel: Kernel
    space: FeatureSpace
    near: Neighbours
    own: Annotated[Array, "n"]  # ‖φ(z_i) - its projection‖² for a linear kernel, else φ(z_i)·μ
    centre: Annotated[Array, "d"]  # of the rows
    radius: float

    @property
    def n_rows(self) -> int:
        return len(self.near.scores)

    def __call__(self, scores: Array, skip: Indices | None = None) -> tuple[Array, None]:
        """Points at the distances that feature space tells; a row in `skip` is no neighbour."""
        d, k = int(self.near.rows.shape[1]), scores.shape[1]
        points, count = np.empty((len(scores), d)), self.method.n_neighbours
        height = max(1, SLICE_NUMBERS // max(self.n_rows, (count + 2) * max(d, k)))
        for i in row_slices(len(scores), height):
            chosen = self.near.nearest(scores[i], count, None if skip is None else skip[i])
            z, squares = self.near.points(chosen), self._input_distances(scores[i], chosen)
            points[i] = self._best(scores[i], np.array(list(map(_located, z, squares))), z[:, :1])
        return points, None

    def _best(self, t: Array, found: Array, nearest: Array) -> Array:
        """The one nearest to ψ, (b, d), of the points found, (b, m, d), and the nearest row, (b, 1, d)."""
        if _is_linear(self.kernel):  # these distances agree, and a linear map may go anywhere
            return np.asarray(found[:, -1])
        left = np.square(found - self.centre).sum(axis=2) > (LEFT * self.radius) ** 2
        found = np.concatenate([nearest, np.where(left[:, :, None], nearest, found)], axis=1)
        b, m, d = found.shape
        far = self.space.distances(found.reshape(b * m, d), np.repeat(t, m, axis=0)).reshape(b, m)
        return np.asarray(found[np.arange(b), np.argmin(far, axis=1)])

    def _input_distances(self, t: Array, chosen: Indices) -> Array:  # (b, k), (b, q) -> (b, q)
        """‖x - z‖² for each neighbour z, as its value with ψ tells it; inf where it tells nothing."""
        factor = unscaled(self.kernel.tree())[1]
        if _is_linear(self.kernel):
            # ‖ψ - φ(z)‖² itself, along the components and beside them: no origin, far away, is in it.
            along = np.square(t[:, None] - self.near.scores[chosen]).sum(axis=2)
            return (along + self.own[chosen]) / factor
        offset = self.space.projection.offset
        # φ(z)·ψ(t) = Σ_j t_j (s_j(z) + b_j) + φ(z)·μ.
        inner = np.einsum("bk,bqk->bq", t, self.near.scores[chosen] + offset)
        inner += self.own[chosen]
        inner /= factor
        norms = self.space.target_norms(t) / factor
        radial, dots = of_distance(self.kernel), of_dot_product(self.kernel)
        if radial is not None:
            # ‖ψ - φ(z)‖² = 2 - 2f(‖x - z‖²) for a point x with φ(x) = ψ, whose length is one.
            squares = norms[:, None] + 1.0 - 2.0 * inner
            return undone(radial, 1.0 - 0.5 * squares)
        assert dots is not None  # `check` has seen to it
        products, own = undone(dots, inner), undone(dots, norms)
        rows = np.einsum("bqd,bqd->bq", *(2 * [self.near.points(chosen)]))
        return np.maximum(np.maximum(own, 0.0)[:, None] + rows - 2.0 * products, 0.0)


def _is_linear(kernel: Kernel) -> bool:
    return unscaled(kernel.tree())[0] == DOT


def _located(z: Array, squares: Array) -> Array:  # (q, d), (q,) -> (m + 1, d)
    """Points with these squared distances to the rows z, by least squares in more and more of their span.

    The first is their mean, the last uses every direction in which they spread, m = min(q, d) at most.
    """
    m = min(z.shape)
    usable = np.isfinite(squares)
    if np.sum(usable) < 2:
        return np.repeat(z[:1], m + 1, axis=0)
    z, squares = z[usable], squares[usable]
    mean = z.mean(axis=0)
    left, sizes, right = np.linalg.svd(z - mean, full_matrices=False)
    keep = sizes > FLAT * sizes[0]
    # ‖x - z_i‖² - ‖z_i - mean‖² is the same for all i but for -2 (x - mean)·(z_i - mean) (Gower).
    half = 0.5 * (squared_norms(z - mean) - squares)
    half -= half.mean()
    steps = np.zeros((m + 1, z.shape[1]))
    steps[0] = mean
    along = (left[:, keep].T @ half) / sizes[keep]
    steps[1 : 1 + len(along)] = along[:, None] * right[keep]
    return np.asarray(np.cumsum(steps, axis=0))


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
