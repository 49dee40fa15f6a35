"""Kernel ridge regression from scores back to rows (Bakır, Weston & Schölkopf 2004)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import linalg

from mercer._core.errors import InputError
from mercer._core.spelling import spelled
from mercer.engine.pairwise import squared_norms
from mercer.kernels import RBF, Kernel, Linear, Polynomial
from mercer.model.projection import Projection
from mercer.operators.sections import KernelSections
from mercer.preimage.base import FEW, Preimage, Quality, quality_of
from mercer.preimage.tuning import (
    MOVED_ROWS,
    Spectrum,
    Trial,
    best_penalty,
    best_width,
    narrowed,
    sketched,
    widths,
)

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.preimage.base import Back, Examples

# Rows for choosing the width and the penalty; the final map is learned from all rows. A first look at
# the widths is taken with fewer: a decomposition costs the cube of their number.
FIRST_ROWS, TUNING_ROWS = 600, 1500
ALL = slice(None)
PENALTIES = np.logspace(-12, 2, 29)
# The γ of a Gaussian that is the same everywhere: κ is 1 plus the linear term.
LINEAR = 0.0


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
        """The system and its two terms, rows and scores, and the decompositions of the tuning rows."""
        rows, tuning = min(n, self.max_rows), min(n, self.max_rows, TUNING_ROWS)
        # A decomposition with its workspace beside that of another width; later one, and the system.
        moved = 4 * MOVED_ROWS * (tuning + d + k)
        squares = max(6 * tuning**2 + max(2 * tuning**2, moved), tuning**2 + 2 * rows**2)
        return 8 * (squares + rows * (6 * d + 3 * k) + 3 * tuning * d)

    def _learn(
        self, examples: Examples, *, rng: np.random.Generator
    ) -> tuple[Preimage, Back, Quality | None]:
        scores, x = examples.scores, examples.rows.astype(np.float64)
        mean = x.mean(axis=0)
        x -= mean
        unit = float(2.0 ** min(np.frexp(np.max(np.abs(x), initial=0.0))[1], 1023))
        x /= unit  # a power of two, so that nothing rounds: squares of the errors neither overflow nor vanish
        some = np.sort(rng.permutation(len(x))[:TUNING_ROWS])
        best = self._best(scores, scores[some], sketched(x[some], rng=rng), rng=rng)
        missed = best.spectrum.left_out(x[some], np.array([best.alpha]))[0]
        few = some[:: max(1, len(some) // FEW)]
        guesses = unit * (x[few] - missed[:: max(1, len(some) // FEW)]) + mean
        error = unit * float(np.sqrt(np.mean(missed**2)))
        quality = quality_of(examples, guesses, few, error=error)
        kernel, alpha = _latent(best.gamma, scores), best.alpha
        if len(some) == len(x):  # decomposed already: nothing of order n³ is done twice
            coef = best.spectrum.coef(x, alpha)
        else:
            coef, alpha = _solved(kernel, scores, x, alpha)
        # In float64 whatever x is: with a small penalty the coefficients are large and cancel.
        projection = Projection(KernelSections(kernel, scores), unit * coef, -mean)
        chosen = replace(self, alpha=alpha, gamma=best.gamma, rows=None)
        return chosen, RidgeBack(projection), quality

    def _best(self, scores: Array, tuning: Array, x: Array, *, rng: np.random.Generator) -> Trial:
        """The width and the penalty with the least error on rows left out."""

        def tried(gamma: float, rows: slice = ALL) -> Trial:
            latent = _latent(gamma, scores)
            return best_penalty(latent, gamma, tuning[rows], x[rows], self._penalties)

        if self.gamma != "auto":
            return tried(float(self.gamma))
        # A score space is not the input space: the input kernel's gamma means nothing there.
        gamma = float(RBF().resolve(scores, rng=rng).gamma)  # type: ignore[arg-type]
        # Where the way back is linear (a polynomial kernel with all its components), no Gaussian will do:
        # beside one, however wide, a linear map has a share in each of κ's eigenvalues, and the share in
        # those below the penalty is lost, 1e-10 to 1e-7 of the rows. The limit γ = 0 has k + 1 eigenvalues.
        gammas = np.append(LINEAR, widths(gamma))
        few = slice(None, None, -(-len(x) // FIRST_ROWS))
        first = best_width(gammas, lambda g: tried(g, few))
        if few.step == 1:
            return first
        # More rows see finer detail: narrower widths may be better still.
        at = int(np.searchsorted(gammas, first.gamma))
        beside = gammas[max(0, at - 1) : at + 2]
        best = best_width(beside, tried)
        return best if best.gamma < beside[-1] else narrowed(best, tried)

    def _penalties(self, spectrum: Spectrum) -> Array:
        if self.alpha != "auto":
            return np.array([float(self.alpha)])
        # Less than what rounding adds to κ anyhow is no penalty.
        floor = 4.0 * np.finfo(np.float64).eps * float(np.sum(spectrum.values))
        return PENALTIES[floor < PENALTIES]


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


def _latent(gamma: float, scores: Array) -> Kernel:
    """Gaussian plus linear, the latter scaled to the same size.

    The 1 that a Gaussian without end leaves is needed: rows and scores are centred with every row, so
    without it a row that is left out is still known as minus the sum of the others.
    """
    size = float(np.mean(squared_norms(scores)))
    scale = 1.0 / size if size > 0 else 1.0
    return Polynomial(1, scale, coef0=1.0) if gamma == LINEAR else RBF(gamma) + scale * Linear()


def _solved(kernel: Kernel, scores: Array, x: Array, alpha: float) -> tuple[Array, float]:
    """(κ + αI)⁻¹ x by Cholesky, in place on one triangle; α tenfold where rounding leaves no factor."""
    while True:
        system = kernel(scores)
        system[np.diag_indices_from(system)] += alpha
        try:
            factor = linalg.cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            alpha *= 10.0
        else:
            return linalg.cho_solve(factor, x, check_finite=False), alpha
