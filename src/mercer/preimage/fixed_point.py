"""Fixed points of the gradient (Mika, Schölkopf, Smola, Müller, Scholz & Rätsch 1999)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mercer._core.errors import InputError
from mercer._core.public import public
from mercer.data.rows import row_slices
from mercer.engine.numpy import POINTS
from mercer.engine.pairwise import squared_norms
from mercer.kernels.slopes import radial_slope
from mercer.operators.sections import KernelSections
from mercer.preimage.search import Search, require_suits

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags
    from mercer.kernels.base import Kernel
    from mercer.model.space import FeatureSpace
    from mercer.preimage.base import Back, Examples, Preimage, Quality

# A point farther from its start than this many radii of the data has left them.
LEFT = 10.0
# A denominator below this share of its terms is rounding.
SMALL = 1e-8


@public
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

    needs_points: ClassVar[bool] = True

    def check(self, kernel: Kernel) -> None:
        """The kernel decreases with the distance."""
        self.check_params()
        known = "(RBF, Matern, RationalQuadratic, their sums and products)"
        needed = f"a kernel that decreases with the distance {known}"
        require_suits(self, kernel, kernel.shape().decreasing, needed)

    def _learn(
        self, examples: Examples, *, rng: np.random.Generator
    ) -> tuple[Preimage, Back, Quality | None]:
        assert examples.space is not None  # `check` has seen to it
        sections = examples.space.projection.sections
        if not isinstance(sections, KernelSections):
            msg = (
                f"FixedPoint makes a mean of points that the model rests on, but {sections!r} rests on "
                "none. Use preimage='gradient' or 'ridge'."
            )
            raise InputError(msg)
        return super()._learn(examples, rng=rng)

    def improve(
        self, space: FeatureSpace, x: Array, t: Array, *, radius: float
    ) -> tuple[Array, Array, Flags]:
        """All searches side by side; those that have settled or left the data drop out."""
        home, x = x, x.copy()
        best, least = x.copy(), space.distances(x, t)
        active = np.arange(len(x))
        for _ in range(self.max_iter):
            if len(active) == 0:
                break
            new, sound = _step(space, x[active], t[active])
            sound &= squared_norms(new - home[active]) <= (LEFT * radius) ** 2
            active, new = active[sound], new[sound]
            moved = squared_norms(new - x[active])
            x[active] = new
            distances = space.distances(new, t[active])
            better = distances < least[active]
            best[active[better]], least[active[better]] = new[better], distances[better]
            active = active[moved > (self.tol * radius) ** 2]
        # One that a guard has ended has an answer too, and no step to go on with.
        settled = np.ones(len(x), dtype=bool)
        settled[active] = False
        return best, least, settled


def _step(space: FeatureSpace, x: Array, t: Array) -> tuple[Array, Flags]:
    """The next points, and whether each denominator was one to divide by."""
    sections, coef = space.projection.sections, space.projection.coef
    assert isinstance(sections, KernelSections)  # `_learn` has seen to it
    total, size, moment = np.zeros(len(x)), np.zeros(len(x)), np.zeros(x.shape)
    # Distances do not change with the origin. One among the points keeps the quotient from rounding as
    # numbers far from it do.
    centre = x.mean(axis=0)
    x = x - centre
    for j in row_slices(sections.width, POINTS):
        points = sections.points[j].astype(np.float64, copy=False) - centre
        pull = radial_slope(sections.kernel.tree(), x, points)  # (p, q), none positive
        # γ of these points only: the weights of all points are never there at once.
        pull *= t @ coef[j].T + space.mean.coef[j]
        total += pull.sum(axis=1)
        moment += pull @ points
        size += np.abs(pull, out=pull).sum(axis=1)
    # ψ near φ(x) makes the total negative, as a weighted mean of points should have it.
    sound = -total > SMALL * size
    return centre + moment / np.where(sound, total, 1.0)[:, None], sound
