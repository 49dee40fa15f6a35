"""How far the eigenvalues of an approximation can be from the true ones: proved, or estimated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from mercer._core.types import Array

# below: K - K̂ is positive semi-definite, so λ̂ ≤ λ ≤ λ̂ + tr(K - K̂) (Weyl).
# around: rows were projected at different times, so only |√λ - √λ̂| ≤ √(Σ‖φ - φ̂‖²) (Weyl again).
# estimate: |λ - λ̂| is about as large as stated, judged from sampled entries; no bound.
Kind: TypeAlias = Literal["below", "around", "estimate"]

# A kernel value is right to a few units of rounding, and so is a sum of m of them.
ENTRY = 4.0
EPS = float(np.finfo(np.float64).eps)

# A sum of products over the rows of a block, thousands of them one after the other, is off by about √b/6
# roundings of the sum of the sizes of its terms: 11 for b = 4096, and here twice that.
SUMMED = 22.0


@dataclass(frozen=True)
class Certificate:
    """What an approximation left out, and hence where the true eigenvalues lie."""

    kind: Kind
    trace: float  # tr K, uncentred, weighted where the rows are
    left_out: float  # tr(K - K̂); for an estimate, the error of K̂ in the spectral norm
    rounding: float = 0.0  # what the precision of the data adds to either side
    goal: float | None = None  # the share to be left out at most, where one was asked for
    assumed: bool = False  # whether it rests on a kernel being valid that is not known to be

    @property
    def falls_short(self) -> bool:
        """Whether more is left out than was asked for."""
        return self.goal is not None and self.share > self.goal

    @property
    def above(self) -> float:
        """How far above the one found a true eigenvalue may lie, of a factor that projects."""
        return self.left_out + self.rounding

    @property
    def around(self) -> float:
        """A bound on ‖√w(Φ - Φ̂)‖², spectral: here the Frobenius norm."""
        return self.left_out

    @property
    def share(self) -> float:
        """tr(K - K̂)/tr K; not a number for an estimate, which knows no such trace."""
        if self.kind == "estimate":
            return float("nan")
        return self.left_out / self.trace if self.trace > 0 else 0.0

    def bounds(self, values: Array) -> Array:  # (k,) -> (k, 2)
        """Lower and upper bound on each true eigenvalue (for an estimate: a range to expect)."""
        if self.kind == "below":
            return np.stack([np.maximum(values - self.rounding, 0.0), values + self.above], axis=1)
        if self.kind == "around":
            roots, gap = np.sqrt(np.maximum(values, 0.0)), np.sqrt(self.around)
            low, high = np.maximum(roots - gap, 0.0) ** 2, (roots + gap) ** 2
        else:
            low, high = values - self.left_out, values + self.left_out
        return np.stack([np.maximum(low - self.rounding, 0.0), high + self.rounding], axis=1)

    def __str__(self) -> str:
        if self.kind == "estimate":
            return (
                f"eigenvalues within about {self.left_out:.3g} of the true ones (an estimate from "
                "sampled kernel entries, not a bound)"
            )
        if self.kind == "below":
            where = (
                f"each true eigenvalue lies at most {self.above:.3g} above the one found, and at most "
                f"{self.rounding:.2g} below"
            )
        else:
            gap = np.sqrt(self.around)
            where = f"the square root of each true eigenvalue is within {gap:.3g} of the one found"
            if self.rounding > 0.0:
                where += f", give or take {self.rounding:.2g} of the eigenvalue by rounding"
        doubt = " (if the kernel is valid, which is not known)" if self.assumed else ""
        return f"{self.share:.2e} of tr K left out{doubt}: {where}"


@dataclass(frozen=True)
class StreamCertificate(Certificate):
    """|√λ - √λ̂| ≤ ‖Φ - Φ̂‖, for all eigenvalues at once (Weyl, for singular values).

    Centring is a projection, and makes no norm larger. The spectral norm is far below the Frobenius norm,
    the root of what was left out, where many directions are missed a little.
    """

    norm: float = math.inf  # at least ‖√w(Φ - Φ̂)‖², spectral

    @property
    def around(self) -> float:
        return self.norm


# ── of refined pairs ────────────────────────────────────────────────────────
def refined_ceiling(  # (k,), (k,), (k,), (r,) -> (k,)
    values: Array, off: Array, residuals: Array, rest: float, known: Array
) -> Array:
    """Upper bounds on the first k eigenvalues of A, positive semi-definite, from its Ritz pairs.

    A residual says that some eigenvalue is near, and not which. With U the first i Ritz vectors and V what is
    orthogonal to them, A is [[Θ, Rᵀ], [R, C]] in the basis [U, V]. Where C ≤ τI, A has as many eigenvalues
    above μ > τ as Θ + RᵀR/(μ - τ), at most (inertia of the Schur complement, Haynsworth 1968), so that λ_j is
    no larger than the greater eigenvalue of [[θ_j, ‖R‖], [‖R‖, τ]] (Weyl; compare Li & Li 2005).

    τ is the trace of C, `rest` beyond the pairs. It is ‖R‖ above a bound on λ_{i+1}, as a factor has `known`
    some, where θ_1 to θ_i are larger: of the i + 1 first eigenvalues of Θ and C together, which Weyl bounds
    so, i are those of Θ. Each θ is known up to `off`; `residuals` and `rest` are bounds.
    """
    least, values = values - off, values + off
    k, top = len(values), float(values[0])  # in units of which squares are in range
    high = np.full(k + 1, np.inf)
    high[: min(len(known), k + 1)] = known[: k + 1]
    for i in range(k, 0, -1):
        beside = top * float(np.linalg.norm(residuals[:i] / top))  # at least ‖R‖
        tau, counted = rest + float(np.sum(values[i:])), float(high[i]) + beside
        if counted < np.min(least[:i]):
            tau = min(tau, counted)
        middle, half = 0.5 * (values[:i] + tau), 0.5 * (values[:i] - tau)
        high[:i] = np.minimum(high[:i], middle + np.hypot(half, beside))
    return high[:k]


# ── of a low-rank factor ────────────────────────────────────────────────────
@dataclass(frozen=True, repr=False)
class EntryRounding:
    """What rounding of kernel values does to a factor's components, with coefficients A = WV.

    |k(x, z)| ≤ √k(x, x)√k(z, z), and each is off by `unit` of that.
    """

    lengths: Array  # (m,) k(z, z) of the landmarks
    trace: float  # tr K
    unit: float

    def errors(self, coef: Array) -> Array:  # (m, r) -> (r,)
        """How far the scores k(x, Z) A_i are off: a root sum of squares over the rows, weighed by A_i."""
        return self.unit * np.sqrt(self.trace * _reach(self.lengths, coef))

    def moves(self, values: Array, coef: Array) -> Array:  # (r,), (m, r) -> (r,)
        """How far the eigenvalue of each component may have moved."""
        # Where component i is off by e_i, its eigenvalue is by 2√λ̂_i e_i + e_i², and by no more than itself.
        reach, positive = _reach(self.lengths, coef), np.maximum(values, 0.0)
        error = ENTRY * (self.unit * np.sqrt(self.trace * reach))
        # W whitens the core to float64's rounding of it.
        whitened = ENTRY * EPS * np.sqrt(len(self.lengths)) * positive * reach
        return np.minimum(positive, 2.0 * np.sqrt(positive) * error + error**2 + whitened)

    def aside(self, values: Array, coef: Array, whiten: Array, rest: float) -> float:
        """A bound on the sum of the moves of all components but those given, the first k."""
        # V is orthogonal, so sums over all columns of A are those over the columns of W: of e_i², and
        # Σ√λ̂_i e_i ≤ √(Σλ̂_i Σe_i²) (Cauchy). The eigenvalues add up to the `rest`, each at most λ̂_k.
        reach = _aside(self.lengths, _reach(self.lengths, coef), whiten)
        squares = (ENTRY * self.unit) ** 2 * self.trace * reach  # Σe²
        last = max(float(values[-1]), 0.0)
        whitened = ENTRY * EPS * math.sqrt(len(self.lengths)) * min(last, rest) * reach
        return min(rest, 2.0 * math.sqrt(rest) * math.sqrt(squares) + squares + whitened)


def square_moves(squares: Array, coef: Array, dtype: np.dtype[Any]) -> Array:  # (m, r) -> (r,)
    """What products in `dtype` add when sections are squared before they are weighed: aᵀ(C̃ᵀC̃)a, a of A."""
    # `squares` are Σw(c - mean)² of each section c = k(x, z). Entry ij of C̃ᵀC̃ is off by a few roundings of
    # ‖c_i‖‖c_j‖, and aᵀ·a weighs these errors.
    return SUMMED * float(np.finfo(dtype).eps) * _reach(squares, coef)


def squares_aside(  # (m,), (k,), (m, r)
    squares: Array, moves: Array, whiten: Array, dtype: np.dtype[Any]
) -> float:
    """The sum of what `square_moves` says of all components but the first k, of which it said `moves`."""
    unit = SUMMED * float(np.finfo(dtype).eps)
    return unit * _aside(squares, moves / unit, whiten)


def _aside(lengths: Array, reaches: Array, whiten: Array) -> float:
    """Σ of the reaches of all columns of WV but the first, whose reaches are given."""
    return max(float(np.sum(_reach(lengths, whiten)) - np.sum(reaches)), 0.0)


def _reach(lengths: Array, coef: Array) -> Array:
    # Its squares are in range where those of the coefficients are not.
    scaled = np.sqrt(lengths)[:, None] * coef
    return np.einsum("ij,ij->j", scaled, scaled)  # (r,)


def proved_certificate(
    values: Array, moves: Array, *, rank: int, trace: float, held: float, dtype: np.dtype[Any]
) -> Certificate:
    """λ̂ ≤ λ ≤ λ̂ + tr(K - K̂), give or take rounding."""
    # The first j axes span a space on which K̂ is at least as large as λ̂_j less its moves and those before
    # it, so λ_j is: a lower bound. With lower bounds on all the others, the trace bounds each eigenvalue
    # from above. So neither side is off by more than the sum of all moves. The last of the values may stand
    # for the sum of many, with a bound on the sum of their moves: of those no more is asked than their sum.
    eps = float(np.finfo(dtype).eps)
    # The products that make the scatter, and the sum of the diagonal, round too.
    scatter = ENTRY * eps * np.sqrt(rank) * float(np.sum(np.maximum(values, 0.0)))
    rounding = float(np.sum(moves)) + scatter + ENTRY * eps * trace
    return Certificate("below", trace, max(trace - held, 0.0), rounding)
