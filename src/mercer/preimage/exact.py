"""Pre-images in closed form: linear kernels, and odd powers of the dot product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.errors import InputError
from mercer.kernels.dot import OfDotProducts
from mercer.preimage.base import FEW, Preimage, held_out_quality

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.kernels.base import Kernel
    from mercer.preimage.base import Back, Examples, Quality


@dataclass(repr=True)
class Exact(Preimage):
    """x_j = f⁻¹(ψ·φ(c e_j))/c for a kernel f(x·x') that can be inverted, e_j the axes of input space.

    If ψ = φ(x), then ψ·φ(c e_j) = f(c x_j): the coordinates can be read off one by one (Schölkopf, Mika,
    Smola, Rätsch & Müller 1998). For the linear kernel this is mean + scores · axes, always; for an odd
    power it is exact where ψ is the image of a point, as with all components, and an estimate elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCA
    >>> X = np.random.default_rng(0).standard_normal((50, 3)) + 5.0
    >>> model = KernelPCA(3, kernel="linear", preimage=Exact()).fit(X)
    >>> np.allclose(model.inverse_transform(model.transform(X)), X)
    True
    """

    max_rows: int = 5000  # to measure the quality on

    def check(self, kernel: Kernel) -> None:
        """The kernel is an invertible function of the dot product."""
        if not isinstance(kernel, OfDotProducts) or kernel.dot_product(np.ones(1)) is None:
            msg = (
                f"Exact needs the linear kernel or a polynomial of odd degree, but {kernel!r} came. Use "
                "preimage='gradient' or 'ridge'."
            )
            raise InputError(msg)

    def n_bytes(self, n: int, d: int) -> int:
        """The axes of input space against all points."""
        return 8 * (2 * n * d + 2 * d * d)

    def _learn(
        self, examples: Examples, *, rng: np.random.Generator
    ) -> tuple[Preimage, Back, Quality | None]:
        space, kernel = examples.space, examples.kernel
        assert space is not None
        assert isinstance(kernel, OfDotProducts)
        rows = examples.rows.astype(np.float64, copy=False)
        # Any c does on paper; one of the size of the data keeps both terms of a power in sight.
        c = float(np.sqrt(np.mean(rows**2))) or 1.0
        axes = space.projection.sections(c * np.eye(rows.shape[1]))  # (d, m)
        back = ExactBack(kernel, axes @ space.projection.coef, axes @ space.mean.coef, c, len(rows))
        chosen = np.sort(rng.choice(len(examples), min(FEW, len(examples)), replace=False))
        points = back(examples.scores[chosen])
        return self, back, held_out_quality(examples, points, chosen)


@dataclass(frozen=True, repr=False)
class ExactBack:
    """ψ(t)·φ(c e_j) is affine in t."""

    kernel: OfDotProducts
    slopes: Array  # (d, k)
    start: Array  # (d,)
    c: float
    n_rows: int

    def __call__(self, scores: Array) -> Array:
        """One coordinate after the other."""
        products = self.kernel.dot_product(scores @ self.slopes.T + self.start)
        assert products is not None
        return products / self.c
