"""What a route of a fit is given, and what it hands over: a projection and the evidence that it is right."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import numpy as np

from mercer._core import errors
from mercer._core.errors import MercerWarning, Remedy, many
from mercer._core.observer import SILENT, Observer
from mercer._core.quick import changed
from mercer._core.table import Printed
from mercer._core.types import Array, Rows
from mercer._core.wording import Message, brief
from mercer.engine.base import Engine
from mercer.engine.resolve import AUTO, resolve_engine
from mercer.kernels.base import Kernel
from mercer.model.certificate import Certificate
from mercer.model.projection import Projection
from mercer.model.space import FeatureMean
from mercer.operators.sections import KernelSections
from mercer.planning.recipe import Plan
from mercer.solvers.base import EigenPairs, Status, largest_size
from mercer.solvers.refine import SPOT_ROWS, NegativePart


@dataclass(frozen=True, repr=False)
class Task:
    """Kernel PCA of these rows, as planned."""

    kernel: Kernel  # resolved
    x: Rows  # checked
    asked: int | float | None  # components, or a share of the variance
    plan: Plan
    rng: np.random.Generator
    weights: Array | None = None  # (n,)
    observer: Observer = SILENT
    engine: Engine[Any] = field(default_factory=partial(resolve_engine, AUTO))


# The largest eigenvalue within this factor of the average one: ranking says nothing.
FLAT = 1.05
# The source of residuals above this is worth a word.
WORTH_A_WORD = 1e-10


@dataclass(frozen=True, repr=False)
class Fit(Printed):
    """What every fit hands over, on every route."""

    projection: Projection
    pairs: EigenPairs
    total: float  # tr(HKH): the true total, kept components or not
    rank_bound: int  # how many eigenvalues can be non-zero
    plan: Plan
    cut: float  # eigenvalues below this are rounding
    low_end: NegativePart | None  # None: the kernel is valid by construction
    asked: int | float | None
    weight: float  # Σw: the number of rows, where they carry no weights
    mean: FeatureMean  # of the training rows, in feature space
    roots: Annotated[Array, "n"] | None = None  # √w, where the rows carry weights
    certificate: Certificate | None = None  # of an approximation; None: the pairs are of K itself
    ceiling: Annotated[Array, "k"] | None = None  # of refined pairs: upper bounds on eigenvalues

    @property
    def keeps_points(self) -> bool:
        """Whether the projection needs rows that it was fitted to."""
        return isinstance(self.projection.sections, KernelSections)

    def with_points(self, points: Rows) -> Fit:
        """The same fit on the same rows, wherever they lie now."""
        sections = self.projection.sections
        if not isinstance(sections, KernelSections):
            return self
        moved = KernelSections(sections.kernel, points, engine=sections.engine)
        return changed(self, projection=changed(self.projection, sections=moved))

    def first(self, k: int, asked: float | None = None) -> Fit:
        """The same fit with its first k components: nothing is computed again, and the evidence stays."""
        whole, pairs = self.projection, self.pairs.first(k)
        # Copies: slices would keep the coefficients of all components alive.
        coef, offset = np.ascontiguousarray(whole.coef[:, :k]), whole.offset[:k].copy()
        projection = changed(whole, coef=coef, offset=offset)
        if len(pairs.values) < len(self.pairs.values):
            vectors, products = (a.copy() for a in (pairs.vectors, pairs.products))
            pairs = changed(pairs, vectors=vectors, products=products)
        ceiling = None if self.ceiling is None else self.ceiling[:k].copy()
        own = {"projection": projection, "pairs": pairs, "ceiling": ceiling}
        return changed(self, **own, asked=k if asked is None else asked)

    @property
    def eigenvalues(self) -> Array:
        """Eigenvalues of HKH, descending."""
        return self.pairs.values

    @property
    def is_low_rank(self) -> bool:
        """Whether the pairs are those of the features' scatter, (r, k), not of the rows, (n, k)."""
        return self.certificate is not None

    @property
    def is_refined(self) -> bool:
        """Whether the pairs are Ritz pairs of a valid kernel's matrix, whose eigenvalues lie above."""
        return self.pairs.status is Status.REFINED and self.low_end is None

    @property
    def rounded(self) -> Array:  # (k,)
        """How far rounding may have moved each eigenvalue."""
        off = np.full(len(self.eigenvalues), self.cut)
        return off if self.pairs.rounding is None else off + self.pairs.rounding

    @property
    def rest(self) -> float:
        """What is left of the total variance beside the components."""
        return max(self.total - float(self.eigenvalues.sum()), 0.0)

    @property
    def trace_error(self) -> float:
        """Share of tr K that an approximation left out: 0 when exact, NaN where only estimates exist."""
        return 0.0 if self.certificate is None else self.certificate.share

    @property
    def bounds(self) -> Array:  # (k, 2)
        """Where the true eigenvalues lie: the residuals say so, or the certificate.

        A residual says that *some* true eigenvalue is that near. Refined pairs, of which an eigenvalue
        may be missing altogether, are bounded by residuals, trace and what a factor proved before together.
        """
        values = self.eigenvalues
        if self.certificate is not None:
            return self.certificate.bounds(values)
        if self.is_refined:
            # Ritz values lie below, and of a valid kernel's trace only so much is left for each.
            off = self.rounded
            high = values + off + (self.rest + float(off.sum()))
            if self.ceiling is not None:
                high = np.minimum(high, np.maximum(self.ceiling, values + off))
        else:  # the rounding of K's entries moves eigenvalues too, and no residual shows it
            off = self.residuals * values[0] + self.cut
            high = values + off
        return np.stack([np.maximum(values - off, 0.0), high], axis=1)

    @property
    def scores(self) -> Array:  # (n, k)
        """Scores of the training rows of an exact fit: what the projection gives for them."""
        scores = self.pairs.products / np.sqrt(self.pairs.values)
        # Weighted pairs are those of √w K̃ √w: their vectors carry a √w.
        return scores if self.roots is None else scores / self.roots[:, None]

    @property
    def residuals(self) -> Array:
        """‖HKHu - λu‖/λ₁ of each pair as it is handed out, with what rounding may add.

        Of an approximation or a stream, those of its small problem: `bounds` speak of K there.
        """
        return self.pairs.residuals

    @property
    def explained(self) -> Array:
        """Share of the true total variance of each component; NaN where an indefinite kernel leaves no total.

        Of an approximation by landmarks at least so much; of random features and of a stream about so much.
        """
        return self.eigenvalues / (self.total if self.total > 0.0 else np.nan)

    @property
    def orthogonality(self) -> float:
        """The largest absolute entry of UᵀU - I."""
        u = self.pairs.vectors
        return float(np.max(np.abs(u.T @ u - np.eye(u.shape[1])), initial=0.0))

    @property
    def is_indefinite(self) -> bool:
        """Whether a clearly negative eigenvalue was seen."""
        if self.low_end is None:
            return False
        return self.low_end.lowest < -max(10.0 * self.cut, 1e-10 * self.pairs.values[0])

    @property
    def is_flat(self) -> bool:
        """Whether all eigenvalues are alike."""
        return self.rank_bound > 1 and self.eigenvalues[0] * self.rank_bound <= FLAT * self.total

    def warnings(self) -> list[MercerWarning]:
        """Warnings about this fit."""
        found: list[MercerWarning] = []
        if not self.pairs.status.ok:
            found.append(self._unconverged())
        if self.certificate is not None and self.certificate.falls_short:
            found.append(self._short_of_goal(self.certificate))
        if isinstance(self.asked, int) and len(self.pairs.values) < self.asked:
            found.append(self._rank())
        if self.low_end is not None and self.is_indefinite:
            found.append(self._indefinite(self.low_end))
        if self.is_flat:
            found.append(self._flat())
        return found

    def _unconverged(self) -> MercerWarning:
        worst = float(np.max(self.residuals))
        msg = Message(
            "The solver {how} The largest residual is {worst} of the largest eigenvalue (see {residuals_}).",
            how=self.pairs.status.value,
            worst=f"{worst:.1e}",
        )
        numbers = {"status": self.pairs.status.name, "largest_residual": worst}
        return errors.UnconvergedWarning(msg, numbers=numbers)

    def _short_of_goal(self, certificate: Certificate) -> MercerWarning:
        goal, rank = certificate.goal, self.projection.sections.width
        msg = (
            f"The approximation leaves out {self.trace_error:.2g} of the trace, but {goal:g} was asked for: "
            f"its rank stopped growing at {rank}. Raise `max_rank`, loosen `tol`, or use a wider kernel."
        )
        numbers = {"trace_left_out": self.trace_error, "goal": goal, "rank": rank}
        return errors.ApproximationWarning(msg, numbers=numbers)

    def _rank(self) -> MercerWarning:
        k = len(self.eigenvalues)
        msg = Message(
            "{asked} components were asked for, but only {k} {have} a variance above rounding: {k} {are} "
            "kept. Ask for {n_components:{k}}, give more rows, or use a kernel with more dimensions.",
            asked=self.asked,
            k=k,
            have="has" if k == 1 else "have",
            are="is" if k == 1 else "are",
        )
        numbers = {"asked": self.asked, "kept": k}
        return errors.RankWarning(msg, numbers=numbers, remedy=Remedy("n_components", k))

    def _indefinite(self, seen: NegativePart) -> MercerWarning:
        bound = "" if seen.complete else "at least "
        lowest, top, share = map(float, (seen.lowest, self.eigenvalues[0], seen.share(self.total)))
        msg = Message(
            f"The kernel is not positive semi-definite on these data: the smallest eigenvalue of the centred "
            f"matrix is {lowest:.3g} beside a largest of {top:.3g}, and {bound}{share:.1%} of the eigenvalue "
            "mass is negative. There is no feature space behind it, and variances mean little. "
            "{mercer.check_kernel} shows a witness; use a valid kernel or other parameters."
        )
        numbers = {
            "smallest_eigenvalue": lowest,
            "largest_eigenvalue": top,
            "negative_share": share,
        }
        return errors.IndefiniteKernelWarning(msg, numbers=numbers)

    def _flat(self) -> MercerWarning:
        remedy = (
            "The kernel matrix may be nearly the identity: try a wider kernel (a smaller gamma), or "
            "scale the columns."
        )
        if self.plan.route == "primal":
            remedy = "No direction stands out, and the order of the components is arbitrary."
        largest, average = float(self.eigenvalues[0]), float(self.total / self.rank_bound)
        msg = (
            f"All eigenvalues are alike: the largest is {largest:.3g}, the average {average:.3g}. Their "
            f"order by variance is meaningless here. {remedy}"
        )
        numbers = {"largest_eigenvalue": largest, "average": average}
        return errors.FlatSpectrumWarning(msg, numbers=numbers)

    def __str__(self) -> str:
        k, share = len(self.eigenvalues), float(self.explained.sum())
        least, what = "", "true trace"
        if self.certificate is not None and self.trace_error != 0.0:
            below = self.certificate.kind == "below"
            least, what = ("at least ", "trace at most") if below else ("about ", "trace about")
        verb = "keeps" if k == 1 else "keep"
        kept = "an undefined share" if np.isnan(share) else f"{least}{share:.2%}"
        valid = "positive semi-definite by construction"
        if self.low_end is not None:
            part = "" if self.low_end.complete else " (of a part of the spectrum)"
            valid = f"smallest eigenvalue seen {self.low_end.lowest:.2g}{part}"
        size = len(self.pairs.vectors)
        work = (
            f"a {size} x {size} problem"
            if self.is_low_rank
            else many(self.pairs.n_products, "block product")
        )
        lines = [
            f"variance    {many(k, 'component')} {verb} {kept} of it ({what} {self.total:.4g})",
            self._error_line(),
            *self._bounds_line(),
            f"scores      orthogonal to {self.orthogonality:.1e}",
            f"valid       {valid}",
            f"work        {work}; {brief(self.projection)}",
            f"plan        {self.plan}",
        ]
        return "\n".join(lines)

    def _error_line(self) -> str:
        if self.certificate is not None:
            return f"left out    {self.certificate}"
        status = self.pairs.status
        ended = "converged" if status is Status.CONVERGED else status.value
        seen = "" if self.pairs.unseen is None else f" (rounding seen on {SPOT_ROWS} rows)"
        worst = float(np.max(self.residuals))
        if worst > WORTH_A_WORD and self.pairs.rounding is not None:
            # The part of the residuals that no iteration would take away.
            rounding = float(np.max(self.pairs.rounding)) / largest_size(self.eigenvalues)
            seen += ", mostly rounding" if rounding > 0.5 * worst else ""
        return f"residuals   ‖K̃u - λu‖/λ₁ at most {worst:.1e}{seen}; {ended}"

    def _bounds_line(self) -> list[str]:
        if not self.is_refined:
            return []
        below, above = np.max(np.abs(self.bounds - self.eigenvalues[:, None]), axis=0)
        where = f"at most {above:.3g} above the one found, and at most {below:.2g} below"
        return [f"bounds      each true eigenvalue lies {where}"]

    def __repr__(self) -> str:
        k, share = len(self.eigenvalues), float(self.explained.sum())
        kept = f"variance kept {'undefined' if np.isnan(share) else f'{share:.2%}'}"
        error = f"residual {np.max(self.residuals):.1e}"
        if self.certificate is not None and self.certificate.kind == "estimate":
            error = f"error about {self.certificate.left_out:.1e}"
        elif self.is_low_rank:
            error = f"left out {self.trace_error:.1e} of the trace"
        return f"Fit(k={k}, {kept}, {error}, {self.plan.route} route)"


def keep(pairs: EigenPairs, asked: Any, *, total: float, cut: float) -> EigenPairs:
    """The pairs above rounding that were asked for."""
    count = int(np.sum(pairs.values > cut))
    if isinstance(asked, int):
        count = min(count, asked)
    elif isinstance(asked, float):
        count = min(count, first_reaching(pairs.values, asked * total))
    return pairs.first(count)


def first_reaching(values: Array, goal: float) -> int:
    """The smallest k whose values sum to the goal, or all of them."""
    # A share of 1.0 must be reachable in rounded arithmetic.
    reached = np.cumsum(values) >= goal * (1.0 - 1e-12)
    return int(np.argmax(reached)) + 1 if np.any(reached) else len(values)
