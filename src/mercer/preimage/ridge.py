"""Kernel ridge regression from scores back to rows (Bakır, Weston & Schölkopf 2004)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from mercer._core.params import Constraints, Number, Whole
from mercer._core.public import public
from mercer._core.types import Array, Indices
from mercer.engine.threads import single_threaded_blas
from mercer.kernels import Kernel
from mercer.model.projection import Projection
from mercer.operators.sections import KernelSections
from mercer.preimage.base import FEW, Cost, Examples, Learned, Preimage, quality_of
from mercer.preimage.regression import Decomposition, Spectrum, solved
from mercer.preimage.tuning import (
    LINEAR,
    MOVED_ROWS,
    PENALTIES,
    SKETCH,
    STRIDES,
    Look,
    Sample,
    affine_features,
    latent,
    latent_scale,
    searched,
    sketched,
)

# The width and the penalty are chosen with ROWS[0] n**ROWS[1] k**ROWS[2] of n rows, but with all of so many
# and no more than so many; a first look at a few widths takes a third of them, or FIRST_ROWS. The map itself
# is learned from all rows.
ROWS, ALL_ROWS, MOST_ROWS, FIRST_ROWS = (2.55, 0.7, 0.12), 100, 1500, 64
# Decompositions of the first and of the second look, usually, and the operations of one over m³.
LOOKS, EIGH = (3, 4), 5.0


def tuning_sizes(n: int, k: int) -> tuple[int, int]:
    """Rows of the first and the second look: what the trials cost grows more slowly than the map's n³/3.

    A map of more scores takes more rows to be seen: 150 of 300 rows for two scores and 220 for 50, 349 and
    513 of 1000. One look will do where the first would be little cheaper.
    """
    factor, of_rows, of_scores = ROWS
    many = int(factor * n**of_rows * max(k, 1) ** of_scores)
    second = min(n, max(ALL_ROWS, min(many, MOST_ROWS)))
    first = max(FIRST_ROWS, second // 3)
    return (first if 2 * first <= second else second), second


@public
@dataclass
class Ridge(Preimage):
    """x̂(t) = mean + Σ_i a_i κ(t, t_i), with (κ + αI)a = X - mean.

    κ is a Gaussian in score space plus a linear term, or 1 plus the linear term, so that what is linear
    comes back nearly to rounding. Its width and α are those with the least error when each row is left out in
    turn, among those that bring scores beside those of the rows back no worse than the mean would.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        The penalty. Where rounding makes the system of a very small one unsolvable it is raised;
        ``preimage_.method.alpha`` says what was used.
    gamma : float or "auto", default="auto"
        Width of the latent Gaussian, chosen together with alpha. 0 is a Gaussian without end, which is 1
        everywhere: the pre-image is then linear.
    max_rows : int, default=5000
        The rows it learns from: all of them, or a seeded sample where there are more. The system is of
        that size, and its solution costs max_rows³.
    rows : array-like of shape (n, p), optional
        What to come back to, one row for each training row; the training rows themselves where it is
        left out. A precomputed kernel needs it: its rows are not known otherwise.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from mercer import KernelPCA
    >>> X, _ = make_circles(200, noise=0.02, random_state=0)
    >>> model = KernelPCA(20, kernel="rbf", preimage=Ridge()).fit(X)
    >>> bool(abs(model.inverse_transform(model.transform(X[:5])) - X[:5]).max() < 0.05)
    True
    """

    alpha: float | Literal["auto"] = "auto"
    gamma: float | Literal["auto"] = "auto"
    max_rows: int = 5000
    rows: Any = field(default=None, repr=False, compare=False)  # arrays have no one truth value

    constraints: ClassVar[Constraints] = {
        "alpha": Number(0, also=("auto",)),
        "gamma": Number(0, also=(LINEAR, "auto")),
        "max_rows": Whole(2),
    }
    hints: ClassVar[Mapping[str, str]] = {"gamma": "With 0 the pre-image is linear."}

    def n_bytes(self, n: int, d: int, k: int) -> int:
        """The system and its two terms, rows and scores, and the trials on the tuning rows."""
        rows = min(n, self.max_rows)
        first, tuning = tuning_sizes(rows, k)
        # Distances, dot products, κ and its decomposition with its workspace, beside the best so far.
        columns = min(d, SKETCH)
        tried = -(-len(PENALTIES) // STRIDES[0]) * columns
        trial = 9 * tuning**2 + 2 * first**2 + tuning * (3 * tried + 6 * columns + 4 * k)
        trial += 4 * MOVED_ROWS * (first + tuning + d + k)
        # A linear map decomposes its features instead, or their products where these are fewer.
        whole = max(3 * rows**2, 6 * rows * min(rows, k + 1)) + rows * (2 * d + k) + 2 * FEW**2
        return 8 * (max(trial, whole) + rows * (6 * d + 3 * k))

    def cost(self, n: int, d: int, k: int) -> Cost:
        """Trials on the tuning rows, and the system of all."""
        rows = min(n, self.max_rows)
        flops, squares = rows**3 / 3 + rows**2 * (2.0 * d + 2.0 * k), float(rows**2)
        tried = -(-len(PENALTIES) // STRIDES[0]) * min(d, SKETCH)
        for m, looks in zip(tuning_sizes(rows, k), LOOKS, strict=True):
            flops += looks * (EIGH * m**3 + 2.0 * m**2 * (tried + MOVED_ROWS))
            squares += looks * m**2
        return Cost(exponentials=squares, flops=flops)

    def _learn(self, examples: Examples, *, rng: np.random.Generator) -> Learned:
        scores, x, weights = examples.scores, examples.rows.astype(np.float64), examples.counts
        mean = examples.mean
        x -= mean
        unit = float(2.0 ** min(np.frexp(np.max(np.abs(x), initial=0.0))[1], 1023))
        x /= unit  # a power of two, so that nothing rounds: squares of the errors neither overflow nor vanish
        scale, size = latent_scale(scores, weights), float(np.mean(weights))
        shares = weights / size
        with single_threaded_blas():  # many problems of some hundred rows each
            gamma, alpha, spectrum = self._chosen(scores, x, shares, scale, size=size, rng=rng)
        few = np.sort(rng.permutation(len(x))[:FEW])
        kernel = latent(gamma, scale)
        if gamma == LINEAR and spectrum is None:
            spectrum = Spectrum.of_features(affine_features(scores, scale), shares)
        if spectrum is not None:
            regression = spectrum.of(x)
            coef, missed = regression.coef(alpha), regression.left_out(alpha, few)
        else:
            coef, missed, more = _solved(kernel, scores, x, alpha / shares, few)
            alpha *= more
        quality = quality_of(examples, unit * (x[few] - missed) + mean, few)
        # In float64 whatever x is: with a small penalty the coefficients are large and cancel.
        sections = KernelSections(kernel, scores, engine=examples.engine)
        projection = Projection(sections, unit * coef, -mean)
        chosen = replace(self, alpha=alpha * size, gamma=gamma, rows=None)
        return chosen, RidgeBack(projection), quality

    def _chosen(
        self,
        scores: Array,
        x: Array,
        weights: Array,
        scale: float,
        *,
        size: float,
        rng: np.random.Generator,
    ) -> tuple[float, float, Decomposition | None]:
        """The width and the penalty with the least error on rows left out; weights have mean one.

        With them their decomposition, where it is that of all rows: nothing of order n³ is done twice.
        """
        order, (few, many) = rng.permutation(len(x)), tuning_sizes(*scores.shape)
        if self.gamma != "auto" and self.alpha != "auto":
            return float(self.gamma), float(self.alpha) / size, None
        y = sketched(x, rng=rng)
        alphas = PENALTIES if self.alpha == "auto" else np.array([float(self.alpha) / size])

        def sample(rows: Indices) -> Sample:
            return Sample(scores[rows], y[rows], weights[rows], scale)

        tuning = sample(np.sort(order[:many]))
        if self.gamma != "auto":
            best = tuning.tried(float(self.gamma), alphas)
        else:
            # A score space is not the input space: the input kernel's gamma means nothing there.
            look = Look(tuning, tuning.width, alphas)
            rows = np.sort(order[:few])
            first = Look(sample(rows), look.guess, alphas) if few < many else look
            best = searched(first, look)
        return best.gamma, best.alpha, best.spectrum if many == len(x) else None


@dataclass(frozen=True, repr=False)
class RidgeBack:
    """Scores -> rows: again an affine map of kernel sections, learned from all rows at once."""

    projection: Projection

    @property
    def n_rows(self) -> int:
        return self.projection.sections.width

    def __call__(self, scores: Array, skip: Indices | None = None) -> tuple[Array, None]:
        del skip
        return self.projection(scores), None


def _solved(
    kernel: Kernel, scores: Array, x: Array, penalties: Array, few: Indices
) -> tuple[Array, Array, float]:
    """Coefficients from all rows, what is missed of a few left out, and the factor of the penalties."""
    others = np.ones(len(x), dtype=bool)
    others[few] = False
    order = np.concatenate([np.flatnonzero(others), few])  # what is left out comes last
    more, coef = 1.0, np.empty_like(x)
    while True:
        found = solved(kernel(scores[order]), x[order], more * penalties[order], len(few))
        if found is not None:
            coef[order] = found[0]
            return coef, found[1], more
        more *= 10.0  # rounding left no factor
