"""Nyström: the kernel matrix seen from landmarks that are given, or drawn once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from mercer._core.errors import ParameterError
from mercer._core.observer import Observer
from mercer._core.params import Constraints, OneOf, Whole, is_whole, require
from mercer._core.public import public
from mercer._core.types import Array, Indices, Rows
from mercer.approximations.base import TOO_MANY, Approximation, LowRank, check_points
from mercer.approximations.landmarks import entry_error, k_means_plus_plus, sample_size, uniform
from mercer.data.rows import take_rows
from mercer.engine.passes import FLOAT, pass_bytes
from mercer.engine.resolve import AUTO, resolve_engine
from mercer.kernels.base import Kernel
from mercer.kernels.rows import as_rows
from mercer.operators.sections import KernelSections


@public
@dataclass(eq=False, repr=False)
class Nystrom(Approximation):
    """K̂ = k(X, Z) k(Z, Z)⁺ k(Z, X), the projection of K onto the span of φ(Z) (Williams & Seeger 2001).

    Each true eigenvalue lies above the one found, by no more than the trace left out. Uniform landmarks
    miss rare clusters; `RPCholesky` looks for what is not explained yet.

    Parameters
    ----------
    landmarks : int or array of shape (m, d), default=500
        The number of rows that become landmarks, or points of your own. Points are rounded to the dtype
        of the rows they meet.
    sampling : {"uniform", "k-means++"}, default="uniform"
        ``"uniform"`` draws rows without replacement, in proportion to their weights where they have
        some. ``"k-means++"`` spreads landmarks out by D² sampling in feature space, over a seeded sample
        of 20 rows a landmark, at least 10 000; where fewer rows are distinct it stops early.
    refine : int, default=0
        Exact passes over K that turn the approximation into exact Ritz pairs with residuals.

    See Also
    --------
    RPCholesky : Landmarks chosen by what is left to explain.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCA
    >>> from mercer.approximations import Nystrom
    >>> from mercer.kernels import RBF
    >>> X, Z = np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]])
    >>> model = KernelPCA(1, kernel=RBF(0.5), approximation=Nystrom(Z)).fit(X)
    >>> print(f"{model.fit_.trace_error:.3f}")  # of the middle row, which is not a landmark
    0.117
    """

    landmarks: int | Any = 500
    sampling: str = "uniform"
    refine: int = 0

    constraints: ClassVar[Constraints] = {
        "sampling": OneOf(("uniform", "k-means++")),
        "refine": Whole(0),
    }

    def __call__(
        self,
        kernel: Kernel,
        x: Rows,
        *,
        weights: Array | None,
        rng: np.random.Generator,
        observer: Observer,
        engine: Any = AUTO,
    ) -> LowRank:
        del observer  # no pass over the rows is needed
        engine = resolve_engine(engine)
        self.check(kernel, (int(x.shape[0]), int(x.shape[1])))
        chosen: Indices | None = None
        if not is_whole(self.landmarks):
            points = as_rows(self.landmarks).astype(x.dtype)
        else:
            m = int(self.landmarks)
            if self.sampling == "uniform":
                chosen = uniform(int(x.shape[0]), m, weights=weights, rng=rng)
            else:
                chosen = k_means_plus_plus(kernel, x, m, weights=weights, rng=rng, engine=engine)
            points = take_rows(x, chosen)
        sections = KernelSections(kernel, points, engine=engine)
        return LowRank.projecting(sections, chosen, entry_error(kernel, points))

    def check(self, kernel: Kernel, shape: tuple[int, int]) -> None:
        check_points(kernel, self)
        super().check(kernel, shape)
        (n, d), refused = shape, partial(ParameterError.about, "landmarks", of="Nystrom")
        if is_whole(self.landmarks):
            require("landmarks", self.landmarks, Whole(1, n), of="Nystrom", remedy=TOO_MANY)
            return
        if not (isinstance(self.landmarks, (np.ndarray, list)) or sparse.issparse(self.landmarks)):
            wanted = f"an integer >= 1 or an array of points with {d} columns"
            raise refused(self.landmarks, must_be=wanted)
        points = as_rows(self.landmarks)
        if points.shape[0] < 1 or points.shape[1] != d:
            wanted = f"points with the {d} columns of the rows"
            got = f"an array of shape {points.shape}"
            remedy = "Give at least one point, with the same features in the same order."
            raise refused(points.shape, must_be=wanted, got=got, remedy=remedy)
        values = points.data if sparse.issparse(points) else points
        if not np.all(np.isfinite(values)):
            got, remedy = "NaN or infinity", "Drop or fill in those points."
            raise refused(self.landmarks, must_be="finite points", got=got, remedy=remedy)
        kernel.check_rows(points)

    def n_bytes(self, shape: tuple[int, int], itemsize: int) -> int:
        n, d = shape
        m = self.width(n)
        drawing = 5 * FLOAT * n  # shares of the rows
        if self.sampling == "k-means++":
            drawing += FLOAT * sample_size(n, m) * (2 * (d + 2) + 12)
        small = FLOAT * m * (14 * m + 3 * (d + 2))  # m x m problems
        return drawing + small + pass_bytes(n, d, m, itemsize)

    def at_most(self, n: int) -> Nystrom:
        return replace(self, landmarks=min(self.landmarks, n)) if is_whole(self.landmarks) else self

    def width(self, n: int) -> int:
        if is_whole(self.landmarks):
            return min(n, int(self.landmarks))
        return int(np.shape(self.landmarks)[0])

    def __repr__(self) -> str:
        given = self.landmarks
        shown = repr(given) if is_whole(given) else f"<{self.width(0)} points>"
        return f"Nystrom(landmarks={shown}, sampling={self.sampling!r}, refine={self.refine})"
