"""What rounding adds to the claims of a fit: it moves the matrix, and the pairs that are handed out.

A residual is that of the matrix that was computed. The claim is about the true one, of the rows as they are,
and about the numbers that a user gets. The difference is bounded here, and added to the residual.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mercer._core.errors import KernelError, ZeroVarianceError
from mercer._core.quick import changed
from mercer._core.types import Array, Rows
from mercer.approximations.landmarks import entry_error
from mercer.data.rows import take_rows
from mercer.engine.equal_rows import are_alike
from mercer.engine.pairwise import SQUARABLE
from mercer.kernels.base import Kernel
from mercer.kernels.evaluate import NONE, scaled
from mercer.operators import Centred
from mercer.operators.centred import ENTRY_UNITS
from mercer.planning.problem import PROBE_ROWS, probe_rows, spread_over
from mercer.solvers import EigenPairs

# A value of a kernel is right to a few units of rounding.
UNITS = 2.0
# Entries of equal rows differ by so many times that, with sums of products in different orders between.
ALIKE = 4.0
# Kernel values above this that all look alike are far from the origin, and not saturated.
DROWNING = 1e6
# Rows whose own values show what a power makes of rounding.
POWER_ROWS = 32


@dataclass(frozen=True)
class MatrixRounding:
    """How far the rounding of entries moves P S K S P, in the spectral norm.

    Errors of entries that have nothing to do with each other, `unit` of the largest entry a and weighted like
    it, make a random matrix, whose norm is at most twice the largest root sum of squares of a row (Wigner
    1955; Bandeira & van Handel 2016): 2 unit a √(max w Σw). Errors that a row has in common are DK + KD for
    a diagonal D. One side of each is centred, and ‖KP‖² ≤ ‖K‖ ‖PKP‖ ≤ a Σw λ₁. With neither argument, where
    all entries of a block are off alike, the norm is a few times unit a Σw: rows that are alike look so.
    """

    unit: float
    largest: float  # a = max k(x, x)
    weight: float  # Σw
    heaviest: float  # max w

    @classmethod
    def of(cls, operator: Centred, kernel: Kernel, x: Rows) -> MatrixRounding:
        """The rounding of the entries of a centred kernel matrix."""
        weights, largest = operator.weights, float(np.abs(operator.gram.diag()).max())
        heaviest = 1.0 if weights is None else float(weights.max())
        return cls(_unit(operator, kernel, x, largest), largest, operator.weight, heaviest)

    @property
    def _alone(self) -> float:
        """a √(max w Σw)."""
        # Roots of each: the product of two large numbers is out of range before its root is.
        return float(self.largest * np.sqrt(self.heaviest) * np.sqrt(self.weight))

    def moved(self, top: float) -> float:
        """How far the matrix is from the true one, whose largest eigenvalue is about `top`."""
        shared = np.sqrt(self.largest * self.weight) * np.sqrt(max(top, 0.0))
        return float(2.0 * self.unit * (self._alone + shared))

    def cut(self, top: float, eps: float) -> float:
        """Eigenvalues below this are rounding: of entries, each for itself, and of the solver (max |λ|)."""
        return eps * (4.0 * self._alone + 30.0 * top)

    @property
    def nothing(self) -> float:
        """A matrix whose largest eigenvalue is no more than this may be that of equal rows."""
        return ALIKE * self.unit * self.largest * self.weight


def _unit(operator: Centred, kernel: Kernel, x: Rows, largest: float) -> float:
    """The rounding of an entry, relative to the largest one: a few units, or what some entries show."""
    unit, eps = UNITS * operator.eps, float(np.finfo(np.float64).eps)
    # A given matrix is what it is, and a Python function is not called again.
    if kernel.is_precomputed or not kernel.parallel:
        return unit
    if not kernel.shift_invariant:
        # A power multiplies the relative error of a sum of d products by its exponent.
        few = take_rows(x, spread_over(operator.n, POWER_ROWS)).astype(np.float64)
        unit = max(unit, entry_error(kernel, few) / eps * operator.eps)
        if operator.eps <= eps:
            return unit
    chosen = spread_over(operator.n, PROBE_ROWS)
    few = probe_rows(x).astype(np.float64, copy=False)
    gram = operator.gram
    block = gram.dense() if len(chosen) == operator.n else gram.block(chosen)  # a new array
    block = block.astype(np.float64, copy=False)
    block.flat[:: len(block) + 1] = -np.inf  # which is known, and not taken from a tile
    j = block.argmax(axis=1)
    near = np.maximum.reduce(block, axis=1) + gram.minus
    if kernel.shift_invariant:
        # k(x, y) = k(x - y, 0), where no distance is a difference of large squares. Near pairs far from the
        # others lose most by it, and theirs are the largest values. Sparse rows are not centred first.
        zero = np.zeros((1, few.shape[1]))
        origin = sparse.csr_array(zero) if sparse.issparse(few) else zero
        exact = kernel.tile(few - few[j], origin)[:, 0]
    else:
        exact = kernel.tile(few, few)[np.arange(len(j)), j]
    gaps = np.abs(near - exact)[np.isfinite(near)]
    return max(unit, float(gaps.max(initial=0.0)) / largest if largest > 0.0 else 0.0)


def features_unit(roundings: int, dtype: Any) -> float:
    """By how much of itself a number is off after so many roundings: γ_r = ru/(1 - ru) (Higham 2002, 3.1)."""
    off = 0.5 * roundings * float(np.finfo(dtype).eps)
    return off / (1.0 - off)


def features_moved(trace: float, top: float, unit: float) -> float:
    """How far features that are off by `unit` of themselves move the eigenvalues of their Gram matrix."""
    # ‖E‖² is at most Σw‖δφ‖² ≤ unit² tr K, whatever the signs, and the eigenvalues of (Φ + E)(Φ + E)ᵀ move by
    # 2‖E‖√λ₁ + ‖E‖².
    error = unit * np.sqrt(max(trace, 0.0))
    return float(2.0 * error * np.sqrt(max(top, 0.0)) + error**2)


def in_precision(values: Array, dtype: Any) -> Array:
    """The values in a precision, or in float64 where it can't hold them, as of 1e±60 times a kernel."""
    largest, limits = float(np.abs(values).max(initial=0.0)), np.finfo(dtype)
    fits = largest == 0.0 or float(limits.tiny) <= largest <= float(limits.max)
    return values.astype(dtype if fits else np.float64)


def handed_out(pairs: EigenPairs, dtype: Any, *, moved: float, lowest: float = 0.0) -> EigenPairs:
    """The pairs in the precision of the rows, and what rounding adds to residuals: `moved`, of the matrix."""
    vectors, added = pairs.vectors, np.full(len(pairs.values), moved)
    if dtype != np.float64:
        vectors = vectors.astype(dtype)
        # With û = u + δ, K̃û differs from K̃u by ‖K̃‖‖δ‖ at most.
        lengths = np.linalg.norm(vectors - pairs.vectors, axis=0)  # (k,)
        norm = max(float(pairs.values.max(initial=0.0)), -lowest)
        sizes = np.abs(pairs.values - in_precision(pairs.values, dtype))  # (k,)
        added = added + sizes + norm * lengths
    if pairs.rounding is not None:
        added = added + pairs.rounding
    return changed(pairs, vectors=vectors, rounding=added)


# ── values that are out of the range of numbers ─────────────────────────────
def require_range(kernel: Kernel, x: Rows, dtype: Any, diagonal: Array | None = None) -> None:
    """Raise where a precision can't hold the kernel's values, or has lost digits of theirs.

    `diagonal` is k(x, x) of all rows, where that is known. In values of ordinary size no digit is lost.
    """
    (low, high), limits = SQUARABLE[np.dtype(dtype)], np.finfo(dtype)
    if kernel.is_precomputed or not kernel.parallel:
        return
    if diagonal is not None and not 0.0 <= float(diagonal.max()) <= low:
        return
    few = take_rows(x, np.zeros(1, dtype=np.intp)) if kernel.shift_invariant else probe_rows(x)
    if diagonal is not None and diagonal.any():
        few = take_rows(x, np.sort(np.argsort(diagonal)[-POWER_ROWS:]))
    with np.errstate(all="ignore"):  # reported below, in words
        values = np.abs(kernel.tile_diag(few.astype(dtype)).astype(np.float64))
        if low < float(values.max()) < high:
            return
        true = scaled(kernel.tree(), few.astype(np.float64))
        largest = float(np.max(2.0 * true.left + np.log2(np.abs(true.cosines))))
        lost = np.abs(values - np.abs(true.values())) > ENTRY_UNITS * limits.eps * values.max()
    if not math.isfinite(largest) or largest < NONE:  # seen elsewhere, or zero
        return
    if math.log2(limits.tiny) < largest < math.log2(limits.max) and not np.any(lost):
        return
    shown = f"{2.0**largest:.3g}" if abs(largest) < 1000 else f"about 2^{largest:.0f}"
    msg = (
        f"k(x, x) is {shown} on these rows, and {np.dtype(dtype)} holds numbers from {limits.tiny:.1e} to "
        f"{limits.max:.1e}. {_nearer(dtype)} or the kernel, by a number that brings its values nearer to one."
    )
    raise KernelError(msg)


def require_features_in_range(largest: float, dtype: Any) -> None:
    """Raise where features are so small that these, or sums of their squares, have lost digits."""
    limits, wide = np.finfo(dtype), np.finfo(np.float64)
    least = max(float(limits.tiny), float(np.sqrt(wide.tiny)))
    if 0.0 < largest < least:
        msg = (
            f"The features of these rows are {largest:.3g} in size, and products of theirs keep their digits "
            f"in {np.dtype(dtype)} from {least:.1e} on. {_nearer(dtype)} the columns by a number that brings "
            "them nearer to one."
        )
        raise KernelError(msg)


def _nearer(dtype: Any) -> str:
    if np.dtype(dtype) == np.float64:
        return "Multiply"
    return "Fit in float64, X.astype(np.float64), or multiply"


# ── rows that rounding can't tell apart ─────────────────────────────────────
def require_variance(
    values: Array, cut: float, *, nothing: float = 0.0, largest: float = 0.0
) -> None:
    """Raise when no eigenvalue is above rounding, or none above what rows without variance show."""
    if np.any(values > max(cut, nothing)):
        return
    # Values of about one are those of a kernel that has saturated, and large ones hide what they differ by.
    why = (
        "all rows map to one point, so there is no component to find. Check that the rows differ, by more "
        "than 1e-150 (scale the columns otherwise), and that the kernel has not saturated (a sigmoid or "
        "polynomial with a large gamma, an RBF with a tiny one)."
    )
    if largest > DROWNING:
        why = (
            f"kernel values are about {largest:.1g} and differ by less than their rounding. Centre the "
            "columns before computing the kernel."
        )
    msg = f"The data have zero variance in feature space: {why}"
    raise ZeroVarianceError(msg)


def require_different(x: Rows) -> None:
    """Raise when all rows are one and the same."""
    if are_alike(x):
        msg = (
            f"All {x.shape[0]} rows are equal, so there is no component to find: they have zero variance, "
            "whatever the kernel. Check that the right columns were read."
        )
        raise ZeroVarianceError(msg)
