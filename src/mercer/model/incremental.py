"""Kernel PCA of a stream: a dictionary of points, and running moments of the rows projected onto it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import KernelError, ZeroVarianceError
from mercer.engine.moments import Moments
from mercer.model.certificate import Certificate
from mercer.model.dictionary import Dictionary, pivots
from mercer.model.linear import require_finite
from mercer.model.problem import Plan
from mercer.model.projection import Projection
from mercer.model.result import Fit, keep
from mercer.operators import StoredGram
from mercer.operators.sections import KernelSections
from mercer.solvers import Lapack
from mercer.solvers.base import fixed_signs

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.kernels.base import Kernel

# Points that a full dictionary may be offered by one batch: one for so many that it has.
OFFER = 8
# A residual k(x, x) - ‖f(x)‖² below minus this share of k(x, x) is not rounding: there is no φ.
INDEFINITE = 1e-6


@dataclass(frozen=True)
class Knobs:
    """How a stream is read."""

    max_landmarks: int
    tol: float  # share of a batch's trace that the dictionary may miss
    forgetting: float  # what a row's weight is multiplied by when the next row comes


@dataclass(frozen=True, repr=False)
class Stream:
    """What is known of all rows φ seen so far: the moments of stand-ins φ̂ in the dictionary's span.

    A row's stand-in is made once, when the row is seen: its projection onto the span of that moment. It
    stays as it is while the dictionary grows, and is projected again when the dictionary drops points.
    """

    dictionary: Dictionary
    moments: Moments  # of the coordinates of φ̂
    trace: float  # Σw‖φ‖²
    lost: float  # Σw(‖φ‖² - ‖φ̂‖²)
    error: float  # at least Σw‖φ - φ̂‖²
    n_rows: int
    seed: int
    dtype: np.dtype[Any]  # of the scores

    @classmethod
    def start(cls, kernel: Kernel, rows: Rows, *, seed: int) -> Stream:
        """Before the first row; `rows` shows what the rows will look like."""
        dictionary = Dictionary.empty(kernel, rows)
        return cls(dictionary, Moments.empty(0), 0.0, 0.0, 0.0, 0, seed, np.dtype(rows.dtype))

    # ── a batch ─────────────────────────────────────────────────────────────
    def absorbed(self, x: Rows, weights: Array | None, knobs: Knobs) -> Stream:  # (b, d), (b,)
        """After these rows, in this order: a new value, the old one stays what it is."""
        rows = x.astype(np.float64, copy=False)
        past, w = row_weights(weights, int(x.shape[0]), knobs.forgetting)
        diag = self._diag(rows)
        f = self.dictionary.features(rows)
        self._require_positive(diag, f)
        old = self._faded(past)
        joint, f = old._grown(x, rows, f, diag, w, knobs)
        batch = Moments.of(f, w)
        missed = float(w @ _missed(diag, f))
        seen = replace(old, dictionary=joint, moments=padded(old.moments, joint.size))
        if joint.size <= knobs.max_landmarks:
            after = seen._with(batch, missed)
        else:
            after = seen._thinned(batch, missed, knobs.max_landmarks)
        return replace(
            after, trace=old.trace + float(w @ diag), n_rows=self.n_rows + int(x.shape[0])
        )

    def _faded(self, factor: float) -> Stream:
        return replace(
            self,
            moments=self.moments.faded(factor),
            trace=self.trace * factor,
            lost=self.lost * factor,
            error=self.error * factor,
        )

    def _grown(
        self, x: Rows, rows: Rows, f: Array, diag: Array, w: Array, knobs: Knobs
    ) -> tuple[Dictionary, Array]:
        """The dictionary with points of the batch, where they are needed, and the batch's coordinates."""
        room = max(0, knobs.max_landmarks - self.dictionary.size)
        chosen, new = pivots(
            self.dictionary.kernel,
            rows,
            f,
            diag,
            w,
            tol=knobs.tol,
            limit=room + max(1, knobs.max_landmarks // OFFER),
            floor=self.floor,
            rng=np.random.default_rng([self.seed, self.n_rows]),
        )
        if len(chosen) == 0 or (room == 0 and not self._worth_it(f, new, w)):
            return self.dictionary, f
        f = np.concatenate([f, new], axis=1)
        return self.dictionary.extended(x[chosen], f[chosen]), f

    def _worth_it(self, f: Array, new: Array, w: Array) -> bool:
        """Whether a point of the batch can stay in a full dictionary, in another's place.

        In the joint dictionary it is worth the energy along a direction that is orthogonal to all old
        points; the batch alone has any there, and no more than the largest eigenvalue.
        """
        most = float(np.linalg.eigvalsh((new * w[:, None]).T @ new)[-1])
        second = second_moment(self.moments.merged(Moments.of(f, w)))
        return most > float(np.min(self.dictionary.losses(second)))

    def _with(self, batch: Moments, missed: float) -> Stream:
        return replace(
            self,
            moments=self.moments.merged(batch),
            lost=self.lost + missed,
            error=self.error + missed,
        )

    def _thinned(self, batch: Moments, missed: float, size: int) -> Stream:
        """With the batch, and with `size` points only: stand-ins are projected onto what is left, by P.

        How far a row is from its stand-in then:

        * Rows of this batch were projected onto the joint span a moment ago. φ - φ̂ is orthogonal to it
          and φ̂ - Pφ̂ lies in it: ‖φ - Pφ̂‖² = ‖φ - φ̂‖² + ‖φ̂ - Pφ̂‖² (Pythagoras).
        * Rows before it were projected onto earlier spans. Points have come since, φ̂ - Pφ̂ has a part
          along them and φ - φ̂ may have one too: no right angle. Over all of those rows at once,
          √Σw‖φ - Pφ̂‖² ≤ √Σw‖φ - φ̂‖² + √Σw‖φ̂ - Pφ̂‖² (Minkowski).
        """
        both = self.moments.merged(batch)
        dictionary = self.dictionary
        kept, gone = dictionary.weakest(second_moment(both), dictionary.size - size)
        reduced, basis = dictionary.reduced(kept)
        then, now = (_energy(moments, gone) for moments in (self.moments, batch))
        return replace(
            self,
            dictionary=reduced,
            moments=both.mapped(basis),
            lost=self.lost + then + missed + now,
            error=(np.sqrt(self.error) + np.sqrt(then)) ** 2 + missed + now,
        )

    @property
    def floor(self) -> float:
        """Share of k(x, x) below which a residual is not worth a point.

        A point with that residual makes entries of W of the size of its root, and scores, which are
        computed in the precision of the rows, lose as many digits.
        """
        return float(np.finfo(self.dtype).eps) ** 0.7

    def _diag(self, rows: Rows) -> Array:
        diag = self.dictionary.kernel.tile_diag(rows).astype(np.float64, copy=False)
        require_finite(diag)
        return diag

    def _require_positive(self, diag: Array, f: Array) -> None:
        """Raise where no feature space can be behind the kernel: a length below zero, or a projection
        that is longer than what it is the projection of.
        """
        residual = diag - np.einsum("ij,ij->i", f, f)
        if np.any(diag < 0.0) or np.any(residual < -INDEFINITE * diag):
            i = int(np.argmin(np.minimum(diag, residual)))
            msg = (
                f"{self.dictionary.kernel!r} is not positive semi-definite on these data: row {i} of the "
                f"batch has k(x, x) = {diag[i]:.3g}, and its projection onto the {self.dictionary.size} "
                f"landmarks has {diag[i] - residual[i]:.3g}. A stream is summed up in a feature space, and "
                "there is none. Use a valid kernel or other parameters; `mercer.check_kernel` shows a witness."
            )
            raise KernelError(msg)

    # ── what was found ──────────────────────────────────────────────────────
    def fit(self, asked: int | float | None, *, n_bytes: int = 0) -> Fit:
        """PCA of the stand-ins: axes V of their scatter, scores k(x, Z)WV - μᵀV."""
        scatter = StoredGram(self.moments.scatter)
        total = float(np.trace(self.moments.scatter)) + self.lost
        k = asked if isinstance(asked, int) else scatter.n
        solver, rng = Lapack(), np.random.default_rng(self.seed)
        pairs = solver(scatter, min(k, scatter.n), rng=rng)
        cut = self._cut(pairs.values)
        self._require_variance(pairs.values, cut)
        pairs = keep(pairs, asked, total=total, cut=cut)
        # The largest score of a landmark is positive: in whichever order the points came in.
        offset = self.moments.mean @ pairs.vectors
        pairs = pairs.turned(fixed_signs(self.dictionary.lower @ pairs.vectors - offset))
        rounding = cut + float(np.max(pairs.residuals)) * float(pairs.values[0])
        reasons = (f"{self.n_rows} rows came in batches, and were seen once",)
        return Fit(
            self._projection(pairs.vectors),
            pairs,
            total,
            rank_bound=self._rank_bound(),
            plan=Plan("low-rank", solver, "none", n_bytes, reasons),
            cut=cut,
            low_end=None,
            asked=asked,
            weight=self.moments.weight,
            certificate=Certificate("around", self.trace, self.error, rounding),
        )

    def _projection(self, axes: Array) -> Projection:  # (m, k)
        coef, offset = self.dictionary.whiten @ axes, self.moments.mean @ axes
        sections = KernelSections(self.dictionary.kernel, self.dictionary.points)
        return Projection(sections, coef.astype(self.dtype), offset.astype(self.dtype))

    def _rank_bound(self) -> int:
        dictionary = self.dictionary
        dimension = dictionary.kernel.map_dimension(int(dictionary.points.shape[1]))
        return min(self.n_rows - 1, self.n_rows if dimension is None else dimension)

    def _cut(self, values: Array) -> float:
        """Eigenvalues below this are rounding: of the solver, and of the coordinates."""
        eps, top = float(np.finfo(self.dtype).eps), float(np.max(values, initial=0.0))
        unit = float(np.finfo(np.float64).eps)
        return 30.0 * eps * top + 4.0 * unit**2 * self.dictionary.condition * self.trace

    def _require_variance(self, values: Array, cut: float) -> None:
        if np.any(values > cut):
            return
        msg = (
            f"The {self.n_rows} row(s) seen so far have zero variance in feature space: all are one point, "
            "and there is no component yet. Go on with `partial_fit`, and check that the rows differ and "
            "that the kernel has not saturated."
        )
        raise ZeroVarianceError(msg)

    def __repr__(self) -> str:
        return f"Stream({self.n_rows} rows, {self.dictionary!r})"


def row_weights(weights: Array | None, n: int, forgetting: float) -> tuple[float, Array]:
    """What is left of the past after n rows, and what each of them weighs after the last.

    A row of weight s counts as s rows, here too: each of them fades those before it, and the row's own
    copies. With a rows after it that is f^a + … + f^(a + s - 1) = (f^a - f^(a + s))/(1 - f).
    """
    s = np.ones(n) if weights is None else weights
    if forgetting == 1.0:
        return 1.0, s
    after = np.cumsum(s[::-1])[::-1] - s
    log = np.log(forgetting)
    # expm1 keeps the digits of 1 - f^s for weights far below one.
    w = np.exp(after * log) * (np.expm1(s * log) / np.expm1(log))
    return float(np.exp(s.sum() * log)), w


def padded(moments: Moments, size: int) -> Moments:
    """The same rows in a larger space: their new coordinates are zero."""
    m = len(moments.mean)
    mean, scatter = np.zeros(size), np.zeros((size, size))
    mean[:m], scatter[:m, :m] = moments.mean, moments.scatter
    return Moments(moments.weight, mean, scatter)


def second_moment(moments: Moments) -> Array:
    """Σw f fᵀ = S + W μμᵀ."""
    return moments.scatter + moments.weight * np.outer(moments.mean, moments.mean)


def _energy(moments: Moments, u: Array) -> float:  # (m, c)
    """Σw‖uᵀf‖² = tr(uᵀMu)."""
    spread = float(np.sum((moments.scatter @ u) * u))
    return max(spread, 0.0) + moments.weight * float(np.sum((moments.mean @ u) ** 2))


def _missed(diag: Array, f: Array) -> Array:  # (b,), (b, m)
    """‖φ - φ̂‖² = k(x, x) - ‖f‖², from above: with what rounding can take from the difference."""
    residual = np.maximum(diag - np.einsum("ij,ij->i", f, f), 0.0)
    return residual + (f.shape[1] + 8) * float(np.finfo(np.float64).eps) * diag
