"""From distances in feature space to distances in input space (Kwok & Tsang 2004)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.errors import InputError
from mercer.engine.pairwise import squared_norms
from mercer.engine.tiles import row_slices
from mercer.kernels.dot import OfDotProducts
from mercer.kernels.stationary import Radial
from mercer.preimage.base import FEW, Preimage, held_out_quality
from mercer.preimage.search import SLICE_NUMBERS, Neighbours

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices
    from mercer.kernels.base import Kernel
    from mercer.model.space import FeatureSpace
    from mercer.preimage.base import Back, Examples, Quality

# Directions in which the neighbours spread less than this share of their widest are left alone.
FLAT = 1e-6


@dataclass(repr=True)
class Distances(Preimage):
    """Distances from ψ to the images of near rows say how far the pre-image is from those rows.

    For a kernel f(‖x - z‖²), f tells the input distance from ‖ψ - φ(z)‖²; for an invertible function of
    x·z, the dot products tell it. The point with these distances is found by least squares in the span of
    the neighbours (Gower 1968). No iteration, and no start that could be a bad one.

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
        for knob, least in (("n_neighbours", 2), ("max_rows", 2)):
            value = getattr(self, knob)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
                msg = (
                    f"Distances needs a whole number {knob} >= {least}, but {knob}={value!r} came."
                )
                raise InputError(msg)
        invertible = isinstance(kernel, Radial) or (
            isinstance(kernel, OfDotProducts) and kernel.dot_product(np.ones(1)) is not None
        )
        if not invertible:
            msg = (
                f"Distances needs a kernel whose value tells the distance (RBF, Matern, RationalQuadratic, "
                f"Linear, Polynomial of odd degree), but {kernel!r} came. Use preimage='gradient' or 'ridge'."
            )
            raise InputError(msg)

    def n_bytes(self, n: int, d: int) -> int:
        """Examples, and a slice of targets against all of them and beside their neighbours."""
        rows = min(n, self.max_rows)
        return 8 * (2 * rows * (d + 64) + 4 * SLICE_NUMBERS + 4 * self.n_neighbours * d * 64)

    def _learn(
        self, examples: Examples, *, rng: np.random.Generator
    ) -> tuple[Preimage, Back, Quality | None]:
        assert examples.space is not None  # `check` has seen to it
        rows = examples.rows.astype(np.float64, copy=False)
        means = examples.space.mean_products(rows)
        near = Neighbours(examples.scores, rows)
        back = DistancesBack(self, examples.kernel, examples.space, near, means)
        if len(examples) < 4:  # nothing to hold out
            return self, back, None
        chosen = np.sort(rng.choice(len(examples), min(FEW, len(examples)), replace=False))
        points = back.located(examples.scores[chosen], skip=chosen)
        return self, back, held_out_quality(examples, points, chosen)


@dataclass(frozen=True, repr=False)
class DistancesBack:
    """Neighbours, and all that their distances to a target are made of."""

    method: Distances
    kernel: Kernel
    space: FeatureSpace
    near: Neighbours
    means: Array  # (n,) φ(z_i)·μ

    @property
    def n_rows(self) -> int:
        """Rows to choose neighbours from."""
        return len(self.near.scores)

    def __call__(self, scores: Array) -> Array:
        """Points at the distances that feature space tells."""
        return self.located(scores)

    def located(self, scores: Array, skip: Indices | None = None) -> Array:
        """Points, (b, d); rows in `skip` are nobody's neighbours."""
        points = np.empty((len(scores), self.near.rows.shape[1]))
        for i in row_slices(len(scores), max(1, SLICE_NUMBERS // self.n_rows)):
            chosen = self.near.nearest(
                scores[i], self.method.n_neighbours, None if skip is None else skip[i]
            )
            squares = self._input_distances(scores[i], chosen)  # (b, q)
            for place, (own, square) in enumerate(zip(chosen, squares, strict=True), i.start):
                points[place] = _located(self.near.rows[own], square)
        return points

    def _input_distances(self, t: Array, chosen: Indices) -> Array:  # (b, k), (b, q) -> (b, q)
        """‖x - z‖² for each neighbour z, as its value with ψ tells it; inf where it tells nothing."""
        offset = self.space.projection.offset
        # φ(z)·ψ(t) = Σ_j t_j (s_j(z) + b_j) + φ(z)·μ.
        inner = np.einsum("bk,bqk->bq", t, self.near.scores[chosen] + offset)
        inner += self.means[chosen]
        norms = self.space.target_norms(t)
        if isinstance(self.kernel, Radial):
            # ‖ψ - φ(z)‖² = 2 - 2f(‖x - z‖²) for a point x with φ(x) = ψ, whose length is one.
            squares = norms[:, None] + 1.0 - 2.0 * inner
            return self.kernel.squared_distance(1.0 - 0.5 * squares)
        assert isinstance(self.kernel, OfDotProducts)
        products, own = self.kernel.dot_product(inner), self.kernel.dot_product(norms)
        assert products is not None
        assert own is not None
        rows = squared_norms(self.near.rows)[chosen]
        return np.maximum(np.maximum(own, 0.0)[:, None] + rows - 2.0 * products, 0.0)


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
