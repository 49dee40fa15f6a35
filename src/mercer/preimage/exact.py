"""Pre-images in closed form: linear kernels, and odd powers of the dot product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mercer._core.params import Constraints, Whole
from mercer._core.public import public
from mercer.data.rows import row_slices
from mercer.preimage.base import FEW, Preimage, quality_of
from mercer.preimage.cost import Cost
from mercer.preimage.invert import of_dot_product, undone
from mercer.preimage.search import require_suits

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.kernels.base import Kernel
    from mercer.preimage.base import Back, Examples, Quality

AXES = 2**20  # numbers that a block of axes of input space may hold


@public
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

    constraints: ClassVar[Constraints] = {"max_rows": Whole(1)}

    def check(self, kernel: Kernel) -> None:
        """The kernel is an invertible function of the dot product, and the knob a whole number."""
        self.check_params()
        needed = "the linear kernel or a polynomial of odd degree"
        require_suits(self, kernel, of_dot_product(kernel) is not None, needed)

    def n_bytes(self, n: int, d: int, k: int) -> int:
        """A block of axes against all points, what became of all axes, and the rows to measure on."""
        block = _block(d)
        against = block * (
            3 * d + n + k + 1
        )  # the axes, their features or their values with all points
        return 8 * (n * (2 * d + k) + 3 * d * (k + 1) + against + min(n, self.max_rows) * (d + k))

    def cost(self, n: int, d: int, k: int) -> Cost:
        """The axes against all points, and the rows that the quality is taken from."""
        return Cost(entries=n * (d + 2.0 * FEW), flops=2.0 * n * (k + 1) * (d + FEW))

    def _learn(
        self, examples: Examples, *, rng: np.random.Generator
    ) -> tuple[Preimage, Back, Quality | None]:
        space, kernel = examples.space, examples.kernel
        assert space is not None  # `check` has seen to it
        rows = examples.rows
        # Any c does on paper; one of the size of the data keeps both terms of a power in sight.
        squares = np.mean(np.square(rows, dtype=np.float64), axis=1)
        c = float(np.sqrt(np.average(squares, weights=examples.counts))) or 1.0
        d = int(rows.shape[1])
        # φ(c e_j)·v and φ(c e_j)·μ, a part of the scores and of the mean that the rows c e_j have.
        both = np.column_stack([space.projection.coef, space.mean.coef])
        axes = np.empty((d, both.shape[1]))  # (d, k + 1)
        for j in row_slices(d, _block(d)):  # all c e_j at once would be d² numbers
            unit = np.zeros((j.stop - j.start, d))
            unit[np.arange(len(unit)), np.arange(j.start, j.stop)] = c
            axes[j] = space.projection.sections.times(unit, both)
        back = ExactBack(kernel, axes[:, :-1], axes[:, -1], c, len(rows))
        chosen = examples.few(rng=rng)
        return self, back, quality_of(examples, back.read_off(examples.scores[chosen]), chosen)


def _block(d: int) -> int:
    """How many axes of input space are looked at together."""
    return min(d, max(1, AXES // d))


@dataclass(frozen=True, repr=False)
class ExactBack:
    """ψ(t)·φ(c e_j) is affine in t."""

    kernel: Kernel
    slopes: Array  # (d, k)
    start: Array  # (d,)
    c: float
    n_rows: int

    def __call__(self, scores: Array) -> tuple[Array, None]:
        """One coordinate after the other."""
        return self.read_off(scores), None

    def read_off(self, scores: Array) -> Array:  # (b, k) -> (b, d)
        """x_j = f⁻¹(ψ·φ(c e_j))/c."""
        return undone(self.kernel.tree(), scores @ self.slopes.T + self.start) / self.c
