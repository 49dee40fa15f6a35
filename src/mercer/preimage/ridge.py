"""Kernel ridge regression from scores back to rows (Bakır, Weston & Schölkopf 2004)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import linalg

from mercer._core.errors import InputError
from mercer.kernels import RBF, Kernel, Linear
from mercer.model.projection import Projection
from mercer.operators.sections import KernelSections
from mercer.preimage.base import Preimage, Quality

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices
    from mercer.preimage.base import Back, Examples

# Rows for choosing the penalty; the final map is learned from all rows.
TUNING_ROWS = 1500
HELD_OUT = 0.25
PENALTIES = np.logspace(-9, 1, 11)
# The latent width, around the median rule. A score space is not the input space: the input kernel's
# own gamma means nothing there.
WIDTH_FACTORS = (0.25, 1.0, 4.0)


@dataclass
class Ridge(Preimage):
    """x̂(t) = mean + Σ_i a_i κ(t, t_i), with (κ + αI)a = X - mean.

    κ is a Gaussian in score space plus a linear term, so that what is linear comes back nearly exactly.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        The penalty. ``"auto"`` tries several on rows that are held out, and takes the best.
    gamma : float or "auto", default="auto"
        Width of the latent Gaussian, chosen together with alpha.
    max_rows : int, default=5000
        The rows it learns from: all of them, or a seeded sample where there are more. The system is of
        that size, and its solution costs max_rows³.

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

    def _learn(
        self, examples: Examples, *, rng: np.random.Generator
    ) -> tuple[Preimage, Back, Quality | None]:
        """Choose what is left to choose on held-out rows, then solve once on all rows."""
        scores64, x64 = examples.scores, examples.rows.astype(np.float64)
        chosen, quality = self._choose(scores64, x64, rng=rng)
        kernel = _latent(float(chosen.gamma), scores64)
        mean = x64.mean(axis=0)
        system = kernel(scores64)
        system[np.diag_indices_from(system)] += float(chosen.alpha)
        # Cholesky on one triangle, in place: the O(n³) solve is done once, here.
        factor = linalg.cho_factor(system, lower=True, overwrite_a=True)
        coef = linalg.cho_solve(factor, x64 - mean)  # (n, d)
        # In float64 whatever x is: with a small penalty the coefficients are large and cancel.
        projection = Projection(KernelSections(kernel, scores64), coef, -mean)
        return chosen, RidgeBack(projection), quality

    def check(self, kernel: Kernel) -> None:
        """Any kernel will do: only scores and rows are looked at."""
        del kernel
        for name, value in (("alpha", self.alpha), ("gamma", self.gamma)):
            if value != "auto" and not (
                isinstance(value, Real) and not isinstance(value, bool) and value > 0
            ):
                msg = f"Ridge needs {name} > 0 or 'auto', but {name}={value!r} came."
                raise InputError(msg)
        if not isinstance(self.max_rows, Integral) or self.max_rows < 2:
            msg = f"Ridge needs max_rows >= 2, but max_rows={self.max_rows!r} came. Use 5000 or so."
            raise InputError(msg)

    def n_bytes(self, n: int, d: int) -> int:
        """The system, its factor, the rows and their coefficients, and what choosing the penalty takes."""
        rows = min(n, self.max_rows)
        return 2 * 8 * rows**2 + 5 * 8 * rows * d + 4 * 8 * min(n, TUNING_ROWS) ** 2

    def _choose(
        self, scores: Array, x: Array, *, rng: np.random.Generator
    ) -> tuple[Ridge, Quality | None]:
        """The penalty and width with the least error on held-out rows."""
        n = len(scores)
        rows = rng.permutation(n)[:TUNING_ROWS]
        n_held = int(HELD_OUT * len(rows))
        median = float(RBF().resolve(scores, rng=rng).gamma)  # type: ignore[arg-type]
        gammas = [f * median for f in WIDTH_FACTORS] if self.gamma == "auto" else [self.gamma]
        alphas = PENALTIES if self.alpha == "auto" else np.array([self.alpha])
        if n_held == 0:  # too few rows to hold any out
            return replace(
                self, alpha=float(alphas[len(alphas) // 2]), gamma=float(gammas[0])
            ), None
        held, train = rows[:n_held], rows[n_held:]
        mean = x[train].mean(axis=0)
        best, least = self, np.inf
        for gamma in gammas:
            errors = _held_out_errors(
                _latent(float(gamma), scores),
                scores,
                x - mean,
                train=train,
                held=held,
                alphas=alphas,
            )
            i = int(np.argmin(errors))
            if errors[i] < least:
                best, least = replace(self, alpha=float(alphas[i]), gamma=float(gamma)), errors[i]
        of_mean = float(np.sqrt(np.mean((x[held] - mean) ** 2)))
        return best, Quality(float(least), of_mean)


@dataclass(frozen=True, repr=False)
class RidgeBack:
    """Scores -> rows: again an affine map of kernel sections."""

    projection: Projection

    @property
    def n_rows(self) -> int:
        """Rows that it was learned from."""
        return self.projection.sections.width

    def __call__(self, scores: Array) -> Array:
        """Points whose scores are near the given ones."""
        return self.projection(scores)


def _latent(gamma: float, scores: Array) -> Kernel:
    """Gaussian plus linear, the latter scaled to the same size."""
    size = float(np.mean(np.einsum("ij,ij->i", scores, scores)))
    return RBF(gamma) + (1.0 / size if size > 0 else 1.0) * Linear()


def _held_out_errors(
    kernel: Kernel, scores: Array, x: Array, *, train: Indices, held: Indices, alphas: Array
) -> Array:
    """Root mean squared held-out error for each penalty, from one eigendecomposition."""
    values, vectors = np.linalg.eigh(kernel(scores[train]))
    values = np.maximum(values, 0.0)
    left = kernel(scores[held], scores[train]) @ vectors  # (h, t)
    right = vectors.T @ x[train]  # (t, d)
    errors = [
        np.sqrt(np.mean((left @ (right / (values + alpha)[:, None]) - x[held]) ** 2))
        for alpha in alphas
    ]
    return np.array(errors)
