"""Random Fourier features: an explicit map whose products approach a shift-invariant kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy import sparse

from mercer._core.observer import Observer
from mercer._core.params import Constraints, Whole
from mercer._core.public import public
from mercer._core.types import Array, Rows
from mercer.approximations.base import Approximation, LowRank
from mercer.data.rows import row_blocks
from mercer.engine.passes import FLOAT, pass_bytes
from mercer.engine.resolve import AUTO, resolve_engine
from mercer.engine.steps import Waves
from mercer.kernels.base import Kernel
from mercer.kernels.spectral import sample_frequencies, spectrum
from mercer.operators.sections import Explicit

# Enough rows for a centre: any point near the data does.
CENTRE_ROWS = 256

# Arrays as large as the frequencies that live at a time: by measurement 4.3 while those of one kernel
# are drawn, and one more for each product that waits for it; 3.5 in a pass.
COPIES = 8


@dataclass(frozen=True, repr=False)
class FourierSections(Explicit):
    """x -> √(a/M) [cos ω₁ᵀ(x - c), …, cos ω_Mᵀ(x - c), sin ω₁ᵀ(x - c), …, sin ω_Mᵀ(x - c)].

    The products of these features are a · mean_j cos(ω_jᵀ(x - y)). The centre c drops out, but keeps the
    phases small, whose rounding is relative to their size. Frequencies are float64, and rounded to the dtype
    of the rows for the product; where float32 phases would be off by more than 1e-4 the product is float64.

    >>> import numpy as np
    >>> phi = FourierSections(np.array([[np.pi], [2.0]]), amplitude=4.0, centre=np.zeros(1))
    >>> phi
    random Fourier features of 2 frequencies
    >>> phi(np.array([[0.0], [0.5]])).round(3)
    array([[1.414, 1.414, 0.   , 0.   ],
           [0.   , 0.764, 1.414, 1.19 ]])
    """

    frequencies: Annotated[Array, "m d"]  # float64
    amplitude: float  # k(0)
    centre: Annotated[Array, "d"]  # float64
    # Cosines and sines take longer than the product, and run on one core.
    parallel: ClassVar[bool] = True

    @property
    def width(self) -> int:
        return 2 * len(self.frequencies)

    def __call__(self, x: Rows) -> Array:  # (b, d) -> (b, 2M)
        return self.known(x)

    @cached_property
    def known(self) -> Waves:
        """The same as engines know them."""
        return Waves(self.frequencies, self.amplitude, self.centre)

    def diag(self, x: Rows) -> Array:
        """k(0), whatever x is: cos² + sin² = 1."""
        return np.full(x.shape[0], self.amplitude, dtype=x.dtype)

    def slope(self, x: Rows, weights: Array) -> Array:  # (b, d), (b, 2M) -> (b, d)
        m = len(self.frequencies)
        phi = self(x)
        turned = weights[:, m:] * phi[:, :m] - weights[:, :m] * phi[:, m:]
        return np.asarray(turned @ self.frequencies.astype(phi.dtype, copy=False))

    def diag_slope(self, x: Rows) -> Array:
        return np.zeros(x.shape, dtype=x.dtype)

    def __repr__(self) -> str:
        return f"random Fourier features of {len(self.frequencies)} frequencies"


@public
@dataclass(repr=True)
class RandomFourier(Approximation):
    """Random Fourier features (Rahimi & Recht 2007), orthogonal where the kernel is radial (Yu et al. 2016).

    k(x, y) = k(0) E cos(ωᵀ(x - y)) for a shift-invariant kernel; the mean of M draws is the product of two
    rows of 2M features. No pass over the data chooses them, and an entry of K is off by
    k(0)/√(2M) or less, as a rule, whatever n and d are: for many rows and a modest accuracy. Eigenvalues
    come with an estimate of their error, not with a bound.

    Parameters
    ----------
    n_features : int, default=1000
        2M: a cosine and a sine for each of M frequencies. An even number.
    refine : int, default=0
        Exact passes over K that turn the approximation into exact Ritz pairs with residuals.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCA
    >>> from mercer.approximations import RandomFourier
    >>> from mercer.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> exact = KernelPCA(2, kernel=RBF(0.5)).fit(X)
    >>> model = KernelPCA(2, kernel=RBF(0.5), approximation=RandomFourier(2000)).fit(X)
    >>> np.allclose(model.eigenvalues_, exact.eigenvalues_, rtol=0.05)
    True
    """

    n_features: int = 1000
    refine: int = 0

    constraints: ClassVar[Constraints] = {"n_features": Whole(2, even=True), "refine": Whole(0)}

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
        del weights, observer  # the law of the frequencies is the kernel's alone, and drawn at once
        m, d = self.n_features // 2, int(x.shape[1])
        omega, amplitude = sample_frequencies(kernel, d, m, rng=rng)
        # In Fortran's order the transpose, which is what a sparse product reads, needs no copy.
        engine = resolve_engine(engine)
        sections = FourierSections(np.asfortranarray(omega), amplitude, _centre(x), engine=engine)
        return LowRank(sections, whiten=None, landmarks=None, projects=False)

    def check(self, kernel: Kernel, shape: tuple[int, int]) -> None:
        super().check(kernel, shape)
        spectrum(kernel)  # raises where there is none

    def n_bytes(self, shape: tuple[int, int], itemsize: int) -> int:
        """Drawing holds normal deviates, their Q and R, and parts of a kernel that are added up."""
        n, d = shape
        frequencies = FLOAT * (self.n_features // 2) * d
        return COPIES * frequencies + pass_bytes(n, d, self.n_features, itemsize)

    def width(self, n: int) -> int:
        del n
        return int(self.n_features)


def _centre(x: Rows) -> Array:  # (d,)
    """The mean of the first rows, in 24 bits: rows in float32 and in float64 are shifted alike by it."""
    _, block = next(iter(row_blocks(x, CENTRE_ROWS)))
    n = block.shape[0]
    # The sums that a sparse matrix takes of float32 are float32.
    total = np.ones(n) @ block if sparse.issparse(block) else block.sum(axis=0, dtype=np.float64)
    mantissa, exponent = np.frexp(total / n)
    return np.ldexp(np.rint(np.ldexp(mantissa, 24)), exponent - 24)
