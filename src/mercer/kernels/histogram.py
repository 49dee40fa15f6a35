"""Kernels for histograms and other counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from mercer._core.errors import InputError
from mercer.engine.pairwise import chi2_distances, weighted_chi2_slopes
from mercer.kernels.base import Kernel, positive

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows


class Chi2(Kernel):
    """exp(-γ Σ_d (x_d - x'_d)²/(x_d + x'_d)), for histograms: no entry may be negative.

    Parameters
    ----------
    gamma : float, default=1.0

    Examples
    --------
    >>> Chi2()([[1.0, 0.0]], [[0.0, 1.0]]).round(4)
    array([[0.1353]])
    """

    def __init__(self, gamma: float = 1.0) -> None:
        self.gamma = gamma

    def check_parameters(self) -> None:
        """Gamma is positive."""
        positive("gamma", self.gamma, kernel="Chi2")

    @property
    def positive_only(self) -> bool:
        """Yes: it is a kernel of histograms."""
        return True

    def check_rows(self, x: Rows) -> None:
        """No entry is negative."""
        lowest = x.data.min(initial=0) if sparse.issparse(x) else x.min(initial=0)
        if lowest < 0:
            msg = (
                f"Negative values in data: Chi2 is a kernel of histograms, but the data hold {lowest:.6g}. "
                "Shift the columns to start at zero, or use RBF."
            )
            raise InputError(msg)

    def tile(self, x: Rows, y: Rows) -> Array:
        tile = chi2_distances(x, y, -self.gamma)
        return np.exp(tile, out=tile)

    def tile_diag(self, x: Rows) -> Array:
        return np.ones(x.shape[0], dtype=x.dtype)

    @property
    def differentiable(self) -> bool:
        """Yes, where entries are positive."""
        return True

    def tile_slope(self, x: Rows, y: Rows, weights: Array) -> Array:
        tile = self.tile(x, y)
        tile *= weights
        tile *= -self.gamma
        return weighted_chi2_slopes(tile, x, y)

    def diag_slope(self, x: Rows) -> Array:
        return np.zeros(x.shape, dtype=x.dtype)

    def why_valid(self) -> str | None:
        """The distance is conditionally negative definite on non-negative rows (Schoenberg)."""
        return "its exponent is conditionally negative definite on non-negative data (Schoenberg)"
