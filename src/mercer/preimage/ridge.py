"""Kernel ridge regression from scores back to rows (Bakır, Weston & Schölkopf 2004)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mercer._core.errors import InputError
from mercer._core.spelling import spelled
from mercer.model.projection import Projection
from mercer.operators.sections import KernelSections
from mercer.preimage.base import FEW, Preimage, Quality, quality_of
from mercer.preimage.cost import Cost
from mercer.preimage.regression import Affine, solved
from mercer.preimage.tuning import (
    FACTOR,
    LINEAR,
    MOVED_ROWS,
    PENALTIES,
    SKETCH,
    STEPS,
    WIDEST,
    Sample,
    affine_features,
    latent,
    latent_scale,
    searched,
    sketched,
)

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices
    from mercer.kernels import Kernel
    from mercer.preimage.base import Back, Examples

# Rows for a first look at every width, and for choosing the width and the penalty; the map itself is learned
# from all rows. Fewer than this many are all looked at: there it is the calls that cost, not the rows.
FIRST_ROWS, TUNING_ROWS, ALL_ROWS = 600, 1500, 150


def tuning_sizes(n: int) -> tuple[int, int]:
    """Rows of the first and the second look: what the trials cost grows as slowly as the map's n³/3."""
    first = min(n, FIRST_ROWS, max(64, int(1.5 * n ** (2 / 3))))
    second = min(n, TUNING_ROWS, max(ALL_ROWS, 2 * n // 5))
    return min(first, second), second


@spelled
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
        everywhere: the way back is then linear.
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

    def check(self, kernel: Kernel) -> None:
        """Any kernel will do: only scores and rows are looked at."""
        del kernel
        knobs = (("alpha", self.alpha, ""), ("gamma", self.gamma, " (or 0: a linear way back)"))
        for name, value, besides in knobs:
            if value == "auto":
                continue
            number = isinstance(value, Real) and not isinstance(value, bool)
            linear = name == "gamma" and value == LINEAR
            if not (number and (linear or 0 < value < np.inf)):
                msg = f"Ridge needs {name} > 0 or 'auto'{besides}, but {name}={value!r} came."
                raise InputError(msg)
        if not isinstance(self.max_rows, Integral) or self.max_rows < 2:
            msg = f"Ridge needs max_rows >= 2, but max_rows={self.max_rows!r} came. Use 5000 or so."
            raise InputError(msg)

    def n_bytes(self, n: int, d: int, k: int) -> int:
        """The system and its two terms, rows and scores, and the trials on the tuning rows."""
        rows = min(n, self.max_rows)
        tuning = tuning_sizes(rows)[1]
        # Distances, dot products, a system and the inverse of its factor; later the whole system alone.
        moved = 4 * MOVED_ROWS * (tuning + d + k)
        trial = 7 * tuning**2 + moved + 6 * tuning * (min(d, SKETCH) + k)
        # A linear map decomposes its features instead, or their products where these are fewer.
        whole = max(3 * rows**2, 6 * rows * min(rows, k + 1)) + rows * (FEW + 2 * d)
        return 8 * (max(trial, whole) + rows * (6 * d + 3 * k))

    def cost(self, n: int, d: int, k: int) -> Cost:
        """Trials on the tuning rows, and the system of all."""
        rows = min(n, self.max_rows)
        tried = 0.0
        squares = float(rows**2)
        for m, trials in zip(tuning_sizes(rows), (40, 15), strict=True):
            tried += trials * (m**3 + 4.0 * m**2 * (min(d, SKETCH) + MOVED_ROWS / 4))
            squares += trials * m**2
        flops = tried + rows**3 / 3 + rows**2 * (2.0 * d + 2.0 * k + FEW)
        return Cost(exponentials=squares, flops=flops)

    def _learn(
        self, examples: Examples, *, rng: np.random.Generator
    ) -> tuple[Preimage, Back, Quality | None]:
        scores, x, weights = examples.scores, examples.rows.astype(np.float64), examples.counts
        mean = examples.mean
        x -= mean
        unit = float(2.0 ** min(np.frexp(np.max(np.abs(x), initial=0.0))[1], 1023))
        x /= unit  # a power of two, so that nothing rounds: squares of the errors neither overflow nor vanish
        scale, size = latent_scale(scores, weights), float(np.mean(weights))
        shares = weights / size
        gamma, alpha = self._chosen(scores, x, shares, scale, size=size, rng=rng)
        few = np.sort(rng.permutation(len(x))[:FEW])
        kernel = latent(gamma, scale)
        if gamma == LINEAR:
            fit = Affine.of(affine_features(scores, scale), x, shares).at(alpha)
            coef, missed = fit.coef, fit.left_out(few)
        else:
            coef, missed, more = _solved(kernel, scores, x, alpha / shares, few)
            alpha *= more
        quality = quality_of(examples, unit * (x[few] - missed) + mean, few)
        # In float64 whatever x is: with a small penalty the coefficients are large and cancel.
        projection = Projection(KernelSections(kernel, scores), unit * coef, -mean)
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
    ) -> tuple[float, float]:
        """The width and the penalty with the least error on rows left out; weights have mean one."""
        order, sizes = rng.permutation(len(x)), tuning_sizes(len(x))
        if self.gamma != "auto" and self.alpha != "auto":
            return float(self.gamma), float(self.alpha) / size
        some, first = np.sort(order[: sizes[1]]), np.sort(order[: sizes[0]])
        y = sketched(x[some], rng=rng)
        tuning = Sample(scores[some], y, weights[some], scale)
        few = tuning
        if len(first) < len(some):
            few = Sample(scores[first], y[np.isin(some, first)], weights[first], scale)
        alphas = PENALTIES if self.alpha == "auto" else np.array([float(self.alpha) / size])
        if self.gamma != "auto":
            return searched(tuning, tuning, np.array([float(self.gamma)]), alphas)
        # A score space is not the input space: the input kernel's gamma means nothing there. Where the way
        # back is linear (a polynomial kernel with all its components), no Gaussian will do: beside one,
        # however wide, a linear map has a share in each of κ's eigenvalues, and the share in those below
        # the penalty is lost, 1e-10 to 1e-7 of the rows. The limit γ = 0 has k + 1 eigenvalues.
        gammas = np.append(LINEAR, few.width * FACTOR ** np.arange(WIDEST, STEPS + 1.0))
        return searched(few, tuning, gammas, alphas)


@dataclass(frozen=True, repr=False)
class RidgeBack:
    """Scores -> rows: again an affine map of kernel sections."""

    projection: Projection

    @property
    def n_rows(self) -> int:
        """Rows that it was learned from."""
        return self.projection.sections.width

    def __call__(self, scores: Array) -> tuple[Array, None]:
        """Points whose scores are near the given ones."""
        return self.projection(scores), None


def _solved(
    kernel: Kernel, scores: Array, x: Array, penalties: Array, few: Indices
) -> tuple[Array, Array, float]:
    """Coefficients from all rows, what is missed of a few left out, and the factor of the penalties.

    They are tenfold where rounding leaves no factor.
    """
    more = 1.0
    while True:
        found = solved(kernel(scores), x, more * penalties, few)
        if found is not None:
            return *found, more
        more *= 10.0
