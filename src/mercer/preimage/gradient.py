"""Downhill with the gradient itself: for any kernel that has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.public import public
from mercer.engine.pairwise import squared_norms
from mercer.preimage.search import Search, has_descent, require_suits

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags
    from mercer.kernels.base import Kernel
    from mercer.model.space import FeatureSpace

ENOUGH = 1e-4  # of the decrease that the slope promises (Armijo)
SHORTER, LONGER = 0.25, 4.0


@public
@dataclass(repr=True)
class Gradient(Search):
    """Minimises ‖φ(x) - ψ‖² over x by gradient descent with Barzilai & Borwein's (1988) steps.

    All targets go downhill side by side, each with a step length of its own, and no step goes uphill.

    Parameters
    ----------
    n_starts : int, default=3
        Rows with the nearest scores to start from; their mean is one more start.
    max_iter : int, default=200
    tol : float, default=1e-6
        A search has settled when a step is shorter than this share of the data's radius.
    max_rows : int, default=5000
        Rows to choose starts from.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from mercer import KernelPCA
    >>> from mercer.kernels import Polynomial
    >>> X, _ = make_circles(200, noise=0.02, random_state=0)
    >>> model = KernelPCA(5, kernel=Polynomial(2), preimage=Gradient()).fit(X)
    >>> bool(abs(model.inverse_transform(model.transform(X[:5])) - X[:5]).max() < 1e-3)
    True
    """

    def check(self, kernel: Kernel) -> None:
        """The kernel has a derivative, and measures distances."""
        self.check_params()
        # A squared distance below zero has no least value to look for.
        valid = "a kernel that is known to be positive semi-definite"
        needed = valid if kernel.differentiable else "a kernel with a known derivative"
        require_suits(self, kernel, has_descent(kernel), needed)

    def improve(
        self, space: FeatureSpace, x: Array, t: Array, *, radius: float
    ) -> tuple[Array, Array, Flags]:
        """Descent from every start at once; those that have settled drop out."""
        x, value = x.copy(), space.distances(x, t)
        slope, least = space.distance_slopes(x, t), _least_coordinate(space)
        # A first step of a tenth of the radius, whatever the scale of the kernel.
        length = np.sqrt(squared_norms(slope))
        step = 0.1 * radius / np.where(length > 0, length, 1.0)
        active = np.flatnonzero(length > 0)
        for _ in range(self.max_iter):
            if len(active) == 0:
                break
            new = np.maximum(x[active] - step[active, None] * slope[active], least)
            move = new - x[active]
            found = space.distances(new, t[active])
            promised = -np.einsum("ij,ij->i", move, slope[active])
            good = found <= value[active] - ENOUGH * promised
            step[active[~good]] *= SHORTER
            taken = active[good]
            if len(taken):
                fresh = space.distance_slopes(new[good], t[taken])
                step[taken] = _next_step(move[good], fresh - slope[taken], step[taken])
                x[taken], value[taken], slope[taken] = new[good], found[good], fresh
            active = active[squared_norms(move) > (self.tol * radius) ** 2]
        settled = np.ones(len(x), dtype=bool)
        settled[active] = False
        return x, value, settled


def _least_coordinate(space: FeatureSpace) -> float:
    """0 for a kernel of histograms, which have no negative entries; else there is no bound."""
    kernel = getattr(space.projection.sections, "kernel", None)
    return 0.0 if kernel is not None and kernel.positive_only else -np.inf


def _next_step(move: Array, change: Array, step: Array) -> Array:
    """s·s/s·y, the inverse curvature along the last move; where that is not positive, a longer step."""
    along = np.einsum("ij,ij->i", move, change)
    curved = along > 0
    found = squared_norms(move) / np.where(curved, along, 1.0)
    return np.where(curved, np.clip(found, SHORTER**4 * step, LONGER**4 * step), LONGER * step)
