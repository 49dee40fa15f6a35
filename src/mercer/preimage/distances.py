"""From distances in feature space to distances in input space (Kwok & Tsang 2004)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.errors import InputError
from mercer.engine.pairwise import squared_norms
from mercer.engine.tiles import row_slices
from mercer.kernels.dot import Linear
from mercer.preimage.base import Preimage, extent, quality_of
from mercer.preimage.invert import of_distance, of_dot_product, unscaled
from mercer.preimage.search import SLICE_NUMBERS, Neighbours, check_count, otherwise

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices
    from mercer.kernels.base import Kernel
    from mercer.model.space import FeatureSpace
    from mercer.preimage.base import Back, Examples, Quality

# A point this many times as far from the mean as any row has left the data.
LEFT = 2.0
# Directions in which the neighbours spread less than this share of their widest are left alone.
FLAT = 1e-6


@dataclass(repr=True)
class Distances(Preimage):
    """Distances from ψ to the images of near rows say how far the pre-image is from those rows.

    For a kernel f(‖x - z‖²), f tells the input distance from ‖ψ - φ(z)‖²; for an invertible function of
    x·z, the dot products tell it. The point with these distances is found by least squares in the span of
    the neighbours (Gower 1968). No iteration, and no start that could be a bad one. Where distances that
    no point has put it far outside of the data, the nearest row is the answer.

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

    def check(self, kernel: Kernel) -> None:
        """The kernel can be inverted, and the knobs are whole numbers."""
        check_count(self, "n_neighbours", 2)
        check_count(self, "max_rows", 2)
        if of_distance(kernel) is None and of_dot_product(kernel) is None:
            msg = (
                f"Distances needs a kernel whose value tells the distance (RBF, Matern, RationalQuadratic, "
                f"Linear, Polynomial of odd degree), but {kernel!r} came. Use "
                f"preimage={otherwise(kernel)}."
            )
            raise InputError(msg)

    def n_bytes(self, n: int, d: int, k: int) -> int:
        """Examples, and a slice of targets against all of them and beside their neighbours."""
        rows = min(n, self.max_rows)
        one = self.n_neighbours * max(d, k)
        return 8 * (rows * (d + k + 2) + 2 * n * (k + 1) + 6 * max(SLICE_NUMBERS, rows, one))

    def _learn(
        self, examples: Examples, *, rng: np.random.Generator
    ) -> tuple[Preimage, Back, Quality | None]:
        assert examples.space is not None  # `check` has seen to it
        near = Neighbours(examples.scores, examples.rows)
        own = _own(examples)
        back = DistancesBack(
            self, examples.kernel, examples.space, near, own, *extent(examples.rows)
        )
        if len(examples) < 4:  # nothing to hold out
            return self, back, None
        chosen = examples.few(rng=rng)
        points = back.located(examples.scores[chosen], skip=chosen)
        return self, back, quality_of(examples, points, chosen)


@dataclass(frozen=True, repr=False)
class DistancesBack:
    """Neighbours, and all that their distances to a target are made of."""

    method: Distances
    kernel: Kernel
    space: FeatureSpace
    near: Neighbours
    own: Array  # (n,) ‖φ(z_i) - its projection‖² for a linear kernel, else φ(z_i)·μ
    centre: Array  # (d,) of the rows
    radius: float

    @property
    def n_rows(self) -> int:
        """Rows to choose neighbours from."""
        return len(self.near.scores)

    def __call__(self, scores: Array) -> tuple[Array, None]:
        """Points at the distances that feature space tells."""
        return self.located(scores), None

    def located(self, scores: Array, skip: Indices | None = None) -> Array:
        """Points, (b, d); rows in `skip` are nobody's neighbours."""
        d, k = int(self.near.rows.shape[1]), scores.shape[1]
        points, count = np.empty((len(scores), d)), self.method.n_neighbours
        height = max(1, SLICE_NUMBERS // max(self.n_rows, count * max(d, k)))
        for i in row_slices(len(scores), height):
            chosen = self.near.nearest(scores[i], count, None if skip is None else skip[i])
            z, squares = self.near.points(chosen), self._input_distances(scores[i], chosen)
            points[i] = self._held(np.array(list(map(_located, z, squares))), z[:, 0])
        return points

    def _held(self, points: Array, nearest: Array) -> Array:  # (b, d), (b, d) -> (b, d)
        """The points, or the nearest row where one has left the data; a linear map may go anywhere."""
        if _is_linear(self.kernel):
            return points
        left = squared_norms(points - self.centre) > (LEFT * self.radius) ** 2
        return np.where(left[:, None], nearest, points)

    def _input_distances(self, t: Array, chosen: Indices) -> Array:  # (b, k), (b, q) -> (b, q)
        """‖x - z‖² for each neighbour z, as its value with ψ tells it; inf where it tells nothing."""
        factor = unscaled(self.kernel)[1]
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
            return radial.squared_distance(1.0 - 0.5 * squares)
        assert dots is not None  # `check` has seen to it
        products, own = dots.dot_product(inner), dots.dot_product(norms)
        assert products is not None
        assert own is not None
        rows = np.einsum("bqd,bqd->bq", *(2 * [self.near.points(chosen)]))
        return np.maximum(np.maximum(own, 0.0)[:, None] + rows - 2.0 * products, 0.0)


def _is_linear(kernel: Kernel) -> bool:
    return isinstance(unscaled(kernel)[0], Linear)


def _own(examples: Examples) -> Array:  # (n,)
    """What a row adds to its distance from any target."""
    assert examples.space is not None
    if _is_linear(examples.kernel):
        return examples.space.errors(examples.rows)
    return examples.space.mean_products(examples.rows)


def _located(z: Array, squares: Array) -> Array:  # (q, d), (q,) -> (d,)
    """The point with these squared distances to the rows z, in their span, by least squares."""
    usable = np.isfinite(squares)
    if np.sum(usable) < 2:
        return np.asarray(z[0])
    z, squares = z[usable], squares[usable]
    mean = z.mean(axis=0)
    left, sizes, right = np.linalg.svd(z - mean, full_matrices=False)
    keep = sizes > FLAT * sizes[0]
    if not np.any(keep):
        return np.asarray(mean)
    # ‖x - z_i‖² - ‖z_i - mean‖² is the same for all i but for -2 (x - mean)·(z_i - mean) (Gower).
    half = 0.5 * (squared_norms(z - mean) - squares)
    half -= half.mean()
    return np.asarray(mean + right[keep].T @ ((left[:, keep].T @ half) / sizes[keep]))
