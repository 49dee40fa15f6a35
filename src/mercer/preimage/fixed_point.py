"""Fixed points of the gradient (Mika, Schölkopf, Smola, Müller, Scholz & Rätsch 1999)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.errors import InputError
from mercer.engine.pairwise import squared_norms
from mercer.kernels.algebra import Scale
from mercer.kernels.stationary import Radial
from mercer.operators.sections import KernelSections
from mercer.preimage.search import Search

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags
    from mercer.kernels.base import Kernel
    from mercer.model.space import FeatureSpace

# A point farther from its start than this many radii of the data has left them.
LEFT = 10.0


@dataclass(repr=True)
class FixedPoint(Search):
    """x ← Σ_i γ_i f'(‖x - z_i‖²) z_i / Σ_i γ_i f'(‖x - z_i‖²), for kernels f(‖x - x'‖²) with a decreasing f.

    Where the gradient of ‖φ(x) - ψ‖² vanishes, x is such a mean of the points z_i, ψ = Σ γ_i φ(z_i). The
    weights may be negative: a denominator near zero, and a step that leaves the data, end a search, and
    the answer is the best point seen, never worse than the best start.

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
    >>> X, _ = make_circles(200, noise=0.02, random_state=0)
    >>> model = KernelPCA(20, kernel="rbf", preimage=FixedPoint()).fit(X)
    >>> bool(abs(model.inverse_transform(model.transform(X[:5])) - X[:5]).max() < 0.05)
    True
    """

    def check(self, kernel: Kernel) -> None:
        """The kernel decreases with the distance."""
        self.check_knobs()
        if _radial(kernel) is None:
            msg = (
                f"FixedPoint needs a kernel that decreases with the distance (RBF, Matern, "
                f"RationalQuadratic), but {kernel!r} came. Use preimage='gradient' or 'ridge'."
            )
            raise InputError(msg)

    def improve(
        self, space: FeatureSpace, x: Array, t: Array, *, radius: float
    ) -> tuple[Array, Array, Flags]:
        """All searches side by side; those that have settled or left the data drop out."""
        sections = space.projection.sections
        assert isinstance(sections, KernelSections)  # a radial kernel has no explicit map
        weights, home = space.weights(t), x  # (p, m)
        best, least = x.copy(), space.distances(x, t)
        settled, active = np.zeros(len(x), dtype=bool), np.arange(len(x))
        x = x.copy()
        for _ in range(self.max_iter):
            new, sound = _step(sections, x[active], weights[active])
            sound &= squared_norms(new - home[active]) <= (LEFT * radius) ** 2
            moved = squared_norms(new - x[active])
            active, new, moved = active[sound], new[sound], moved[sound]
            x[active] = new
            distances = space.distances(new, t[active])
            better = distances < least[active]
            best[active[better]], least[active[better]] = new[better], distances[better]
            still = moved > (self.tol * radius) ** 2
            settled[active[~still]] = True
            active = active[still]
            if len(active) == 0:
                break
        unsettled = np.zeros(len(x), dtype=bool)
        unsettled[active] = True
        # One that was ended by a guard has an answer too, and no step to go on with.
        return best, least, settled | ~unsettled


def _step(sections: KernelSections, x: Array, weights: Array) -> tuple[Array, Flags]:
    """The next points, and whether each denominator was one to divide by."""
    kernel = _radial(sections.kernel)
    assert kernel is not None
    points = sections.points[:].astype(np.float64, copy=False)
    # Centred: far from the origin the quotient of two sums would round as the origin does.
    centre = points.mean(axis=0)
    pull = kernel.radial_slope(x, points)  # (p, m), ≤ 0
    pull *= weights
    total = pull.sum(axis=1)
    # ψ near φ(x) makes the total negative, as a weighted mean of points should have it.
    sound = -total > 1e-8 * np.abs(pull).sum(axis=1)
    below = np.where(sound, total, 1.0)[:, None]
    return centre + (pull @ (points - centre)) / below, sound


def _radial(kernel: Kernel) -> Radial | None:
    """The radial kernel, perhaps scaled; a factor changes no fixed point."""
    while isinstance(kernel, Scale) and kernel.factor > 0:
        kernel = kernel.kernel
    return kernel if isinstance(kernel, Radial) else None
