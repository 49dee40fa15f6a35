"""Kernel PCA of a stream: a dictionary of points, and running moments of the rows projected onto it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer._core.errors import ZeroVarianceError
from mercer._core.types import Array, Rows
from mercer.approximations.landmarks import entry_error
from mercer.engine.base import Engine
from mercer.engine.moments import Moments
from mercer.engine.threads import blas_between_passes
from mercer.kernels.base import Kernel
from mercer.model.certificate import StreamCertificate
from mercer.model.projection import Projection
from mercer.model.result import Fit, keep
from mercer.model.rounding import ALIKE
from mercer.model.space import FeatureMean
from mercer.operators import StoredGram
from mercer.operators.centred import require_finite
from mercer.planning.recipe import Plan
from mercer.solvers import Lapack
from mercer.solvers.base import fixed_signs
from mercer.solvers.dense import top_pairs
from mercer.solvers.refine import NegativePart
from mercer.stream.dictionary import Batch, Dictionary, grown, require_positive, row_weights

# Points that a full dictionary is offered by a batch: one for so many that it has.
OFFER = 8
# How many times the loss a swap has to gain. Each swap projects the whole past once more, which the
# certificate pays for: measured, half of them come to nothing, and following a drift needs the others.
WORTH = 1.5
# A point of which the others leave less than eps^FLOOR · k(z, z) is not worth its place. What is left, r,
# makes entries of W of the size of 1/√r, and scores, in the precision of the rows, lose as many digits.
FLOOR = 0.65
# Looks at a batch: of points that go for new ones, other rows of it may have been combinations.
LOOKS = 2
UNIT = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Rules:
    """How a stream is read."""

    max_landmarks: int
    tol: float  # share of a batch's trace that the dictionary may miss
    forgetting: float  # what a row's weight is multiplied by when the next row comes
    least: int = 0  # points that the dictionary needs, whatever it misses


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
    error: float  # at least Σw‖φ - φ̂‖² = ‖√w(Φ - Φ̂)‖², Frobenius
    norm: float  # at least ‖√w(Φ - Φ̂)‖², spectral
    n_rows: int
    seed: int
    dtype: np.dtype[Any]  # of the scores
    cheapest: float = 0.0  # at most the smallest loss by leaving out one point

    @classmethod
    def start(cls, kernel: Kernel, rows: Rows, *, seed: int) -> Stream:
        """The stream before its first row; `rows` shows what the rows will look like."""
        dictionary = Dictionary(kernel, rows[:0].copy(), np.zeros((0, 0)), np.zeros((0, 0)))
        none, dtype = Moments.empty(0), np.dtype(rows.dtype)
        return cls(
            dictionary, none, trace=0, lost=0, error=0, norm=0, n_rows=0, seed=seed, dtype=dtype
        )

    def on(self, engine: Engine[Any]) -> Stream:
        """The same stream, whose rows to come are read by this engine."""
        return replace(self, dictionary=self.dictionary.on(engine))

    # ── a batch ─────────────────────────────────────────────────────────────
    def absorbed(self, x: Rows, weights: Array | None, rules: Rules) -> Stream:  # (b, d), (b,)
        """The stream after these rows, in this order: a new value, the old one stays what it is."""
        past, w = row_weights(weights, int(x.shape[0]), rules.forgetting)
        # Many small problems, and a few short passes.
        with blas_between_passes(rules.max_landmarks):
            seen, batch = self._faded(past), self._batch(x, w)
            for _ in range(LOOKS):
                joint, offered = seen._offered(batch, rules, forgotten=1.0 - past)
                takes, cheapest = seen._weighed(batch, offered, rules)
                if takes:
                    seen, batch = seen._extended(joint), offered
                else:
                    seen = replace(seen, cheapest=cheapest)
                is_over = seen.dictionary.size > rules.max_landmarks
                is_dependent = takes and seen.dictionary.is_dependent(seen._floor)
                if is_over or is_dependent:
                    seen, batch = seen._thinned(batch, rules.max_landmarks)
                if is_over or not is_dependent:
                    break
            after = seen._with(batch)
        trace, n_rows = seen.trace + float(w @ batch.diag), self.n_rows + int(x.shape[0])
        return replace(after, trace=trace, n_rows=n_rows)

    @property
    def _floor(self) -> float:
        """The least share of k(z, z) that the other points may leave of a point."""
        return float(np.finfo(self.dtype).eps) ** FLOOR

    def _batch(self, x: Rows, weights: Array) -> Batch:
        rows = x.astype(np.float64, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):  # an error in words follows
            diag = self.dictionary.kernel.tile_diag(rows).astype(np.float64, copy=False)
        require_finite(diag)
        return Batch(rows, weights, diag, self.dictionary.features(rows))

    def _faded(self, factor: float) -> Stream:
        sums = ("trace", "lost", "error", "norm", "cheapest")
        faded: dict[str, Any] = {name: factor * getattr(self, name) for name in sums}
        return replace(self, moments=self.moments.faded(factor), **faded)

    def _offered(self, batch: Batch, rules: Rules, *, forgotten: float) -> tuple[Dictionary, Batch]:
        """The dictionary with rows of the batch that may become points, and all coordinates in it."""
        # As large a part of the dictionary may be exchanged as was forgotten, and some in any case.
        offers = max(1, rules.max_landmarks // OFFER, int(forgotten * rules.max_landmarks))
        joint, offered = grown(
            self.dictionary,
            batch,
            tol=rules.tol,
            least=rules.least,
            limit=max(rules.max_landmarks, self.dictionary.size) + offers,
            floor=self._floor,
            rng=np.random.default_rng([self.seed, self.n_rows]),
        )
        # Not before: the rows that the dictionary is about to take in show most of what is wrong.
        require_positive(joint, offered)
        return joint, offered

    def _weighed(self, batch: Batch, offered: Batch, rules: Rules) -> tuple[bool, float]:
        """Whether points on offer can stay, and `cheapest` as it is known by then.

        They can when there is room, or when they are worth more than old ones. In the joint dictionary a
        new point is worth the energy along a direction orthogonal to all old points. The batch alone has
        any there, and no more than the largest eigenvalue. What old points are worth takes O(m³) to
        find, but rows only add to it: a number from before, faded, is a lower bound, and mostly enough.
        """
        m, p = self.dictionary.size, offered.f.shape[1]
        if m < rules.max_landmarks or p == m:
            return p > m, self.cheapest
        new = np.sqrt(batch.weights)[:, None] * offered.f[:, m:]
        values, _ = top_pairs(new.T @ new, 1)
        most = float(values[-1])
        if most <= WORTH * self.cheapest:
            return False, self.cheapest
        both = second_moment(self.moments.merged(batch.moments))
        cheapest = float(np.min(self.dictionary.losses(both)))
        return most > WORTH * cheapest, cheapest

    def _extended(self, dictionary: Dictionary) -> Stream:
        """The stream with more points; the stand-ins stay, their new coordinates are zero."""
        seen, m, p = self.moments, self.dictionary.size, dictionary.size
        scatter = np.zeros((p, p))
        scatter[:m, :m] = seen.scatter
        moments = Moments(seen.weight, np.pad(seen.mean, (0, p - m)), scatter)
        return replace(self, dictionary=dictionary, moments=moments, cheapest=0.0)

    def _with(self, batch: Batch) -> Stream:
        missed = batch.missed()
        return replace(
            self,
            moments=self.moments.merged(batch.moments),
            lost=self.lost + missed,
            error=self.error + missed,
            norm=self.norm + batch.norm(self.dictionary),
        )

    def _thinned(self, batch: Batch, size: int) -> tuple[Stream, Batch]:
        """The stream and the batch with `size` points at most: stand-ins are projected onto their span, by P.

        How far rows are from their stand-ins then, in either norm:

        * Rows of this batch were projected onto the joint span a moment ago. φ - φ̂ is orthogonal to it
          and φ̂ - Pφ̂ lies in it: Pφ̂ is the projection of φ itself, and the batch knows what that misses.
        * Rows before it were projected onto earlier spans. Points have come since; φ̂ - Pφ̂ has a part
          along them, and φ - φ̂ may have one too: no right angle, and only
          ‖Φ - Φ̂P‖ ≤ ‖Φ - Φ̂‖ + ‖Φ̂ - Φ̂P‖ (triangle inequality, over all of those rows at once).

        Both together: ‖[A; B]‖² ≤ ‖A‖² + ‖B‖². With the directions U that go, Φ̂ - Φ̂P = Φ̂UUᵀ, whose
        squared norms are the trace and the largest eigenvalue of UᵀMU. The squared lengths themselves
        add up for all rows: ‖φ̂‖² = ‖Pφ̂‖² + ‖φ̂ - Pφ̂‖².
        """
        both = second_moment(self.moments.merged(batch.moments))
        kept, gone = self.dictionary.weakest(both, size, self._floor)
        reduced, basis = self.dictionary.reduced(kept)
        energies = _energies(self.moments, gone)
        stream = replace(
            self,
            dictionary=reduced,
            moments=self.moments.mapped(basis),
            lost=self.lost + float(energies.sum()),
            error=_added(self.error, float(energies.sum())),
            norm=_added(self.norm, float(energies[-1])),
        )
        return stream, replace(batch, f=batch.f @ basis)

    # ── what was found ──────────────────────────────────────────────────────
    def fit(self, asked: int | float | None, *, n_bytes: int = 0) -> Fit:
        """PCA of the stand-ins: axes V of their scatter, scores k(x, Z)WV - μᵀV."""
        scatter = StoredGram(self.moments.scatter)
        self._require_variance(scatter.diag(), 0.0)
        total = float(np.trace(self.moments.scatter)) + self.lost
        k, mean = asked if isinstance(asked, int) else scatter.n, self.moments.mean
        solver, rng = Lapack(), np.random.default_rng(self.seed)
        pairs = solver(scatter, min(k, scatter.n), rng=rng)
        cut = self._cut(pairs.values)
        self._require_variance(pairs.values, cut)
        pairs = keep(pairs, asked, total=total, cut=cut)
        # The largest score of a landmark is positive, whatever the order of the points.
        offset = mean @ pairs.vectors
        pairs = pairs.turned(fixed_signs(self.dictionary.lower @ pairs.vectors - offset))
        coef, offset = self.dictionary.whiten @ pairs.vectors, mean @ pairs.vectors
        sections, d = self.dictionary.sections, int(self.dictionary.points.shape[1])
        rounding = cut + float(np.max(pairs.residuals)) * float(pairs.values[0])
        reason = f"{self.n_rows} rows arrived in batches, each read once"
        facts = self.dictionary.engine.facts()
        plan = Plan("low-rank", solver, None, n_bytes, (reason,), facts.lanes, facts.name)
        return Fit(
            Projection(sections, coef.astype(self.dtype), offset.astype(self.dtype)),
            pairs,
            total,
            rank_bound=min(self.n_rows - 1, sections.kernel.map_dimension(d) or self.n_rows),
            plan=plan,
            cut=cut,
            low_end=self._negative_part(),
            asked=asked,
            weight=self.moments.weight,
            mean=FeatureMean(self.dictionary.whiten @ mean, float(mean @ mean)),
            certificate=StreamCertificate(
                "around",
                self.trace,
                self.error,
                rounding,
                assumed=not self._is_valid,
                norm=min(self.norm, self.error),
            ),
        )

    @property
    def _is_valid(self) -> bool:
        return self.dictionary.kernel.why_valid() is not None

    def _negative_part(self) -> NegativePart | None:
        """Where validity is not known: what the landmarks show of it."""
        if self._is_valid:
            return None
        lower = self.dictionary.lower
        return NegativePart(float(np.linalg.eigvalsh(lower @ lower.T)[0]), 0.0, complete=False)

    def _cut(self, values: Array) -> float:
        """Eigenvalues below this are rounding: of the solver, and of the coordinates.

        Kernel values of equal rows differ, relative to k(x, x), by what sums of d products that are taken in
        different orders differ by; a power multiplies that.
        """
        kernel, points = self.dictionary.kernel, self.dictionary.points
        error = ALIKE + math.sqrt(int(points.shape[1]))
        known = kernel.parallel  # a Python function is not called for this
        error *= entry_error(kernel, points.astype(np.float64, copy=False)) if known else UNIT
        eps, top = float(np.finfo(self.dtype).eps), float(np.max(values, initial=0.0))
        return 30.0 * eps * top + error**2 * self.dictionary.condition * self.trace

    def _require_variance(self, values: Array, cut: float) -> None:
        if np.any(values > cut):
            return
        if self.trace == 0.0 and not self._is_valid:
            msg = (
                f"k(x, x) = 0 for all {self.n_rows} row(s) seen so far: {self.dictionary.kernel!r} gives "
                "them no length in feature space, as a distance would, which is not a kernel. Use a kernel, "
                "such as np.exp(-gamma * distance**2)."
            )
            raise ZeroVarianceError(msg)
        msg = (
            f"The {self.n_rows} row(s) seen so far have zero variance in feature space: all are one point, "
            "and there is no component yet. Go on with `partial_fit`, and check that the rows differ and "
            "that the kernel has not saturated."
        )
        raise ZeroVarianceError(msg)

    def __repr__(self) -> str:
        return f"Stream({self.n_rows} rows, {self.dictionary!r})"


def second_moment(moments: Moments) -> Array:
    """Σw f fᵀ = S + W μμᵀ."""
    return moments.scatter + moments.weight * np.outer(moments.mean, moments.mean)


def _energies(moments: Moments, u: Array) -> Array:  # (m, c) -> (c,)
    """Eigenvalues of uᵀMu, ascending: Σw‖uᵀf‖² is their sum."""
    values = np.linalg.eigvalsh(u.T @ second_moment(moments) @ u)
    return np.maximum(values, 0.0)


def _added(first: float, second: float) -> float:
    """(a + b)² from a² and b²."""
    return (math.sqrt(first) + math.sqrt(second)) ** 2
