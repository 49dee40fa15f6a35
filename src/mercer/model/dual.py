"""The dual side: eigenvectors of the centred kernel matrix, stored or never formed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from mercer._core.errors import KernelError, MemoryBudgetError, refuse
from mercer._core.observer import Stage
from mercer._core.quick import changed
from mercer._core.types import Array, Rows
from mercer._core.wording import Message
from mercer.engine.base import Engine
from mercer.kernels.base import Kernel
from mercer.model.linear import score_signs
from mercer.model.projection import Projection, projection_dtype
from mercer.model.result import Fit, Task, first_reaching, keep
from mercer.model.rounding import MatrixRounding, handed_out, require_range, require_variance
from mercer.model.space import FeatureMean
from mercer.operators import Centred
from mercer.operators.centred import require_finite
from mercer.operators.sections import GivenSections, KernelSections, Sections
from mercer.planning.problem import PROBE_ROWS, lapack_share, spread_over
from mercer.planning.recipe import Plan
from mercer.solvers import EigenPairs, Lapack
from mercer.solvers.base import Status
from mercer.solvers.refine import NegativePart, negative_part


def fit_dual(task: Task) -> Fit:
    """One product K̃U proves the pairs and, with Kw/Σw riding along, gives offset and trace."""
    asked, plan, weights = task.asked, task.plan, task.weights
    unit = 1.0
    if weights is not None:
        # A power of two near the mean weight, where that is far from one: products keep their digits.
        mean = float(weights.mean())
        unit = 1.0 if 1e-6 < mean < 1e6 else float(2.0 ** np.rint(np.log2(mean)))
        weights = weights / unit
    operator = gram_operator(task.kernel, task.x, plan, weights, engine=task.engine)
    diagonal = operator.gram.diag()
    require_finite(diagonal)
    single = operator.eps > np.finfo(np.float64).eps  # of few rows in float32 K is made in float64
    require_range(task.kernel, task.x, task.x.dtype if single else np.float64, diagonal)
    if isinstance(asked, float) and isinstance(plan.solver, Lapack):
        pairs = plan.solver.reaching(operator, asked, observer=task.observer)
    elif isinstance(asked, float):
        pairs = _grow(operator, asked, task)
    else:
        k = asked if isinstance(asked, int) else operator.n
        pairs = plan.solver(operator, k, rng=task.rng, observer=task.observer)
    fit = dual_fit(task, operator, pairs)
    return fit if unit == 1.0 else in_unit(fit, unit)


def dual_fit(task: Task, operator: Centred, pairs: EigenPairs) -> Fit:
    """The fitted value of eigenpairs of the centred kernel matrix: A = S U Λ^(-1/2), Z = X."""
    kernel, x, asked, engine = task.kernel, task.x, task.asked, task.engine
    exact = operator.exact
    if exact is not None and len(exact.memory()):  # it had to prove them, and has better means
        operator = exact
    total = operator.trace()
    # Where rows have shown what is missing in the products, entries are as good as those of rows.
    rounding = MatrixRounding.of(exact or operator, kernel, x)
    seen = None
    if not kernel.why_valid():
        if pairs.spectrum is None:
            seen = negative_part(operator, rng=task.rng)
        else:
            seen = NegativePart.of_spectrum(pairs.spectrum)
    lowest = 0.0 if seen is None else seen.lowest
    top = float(pairs.values.max(initial=0.0))
    # The solver rounds relative to the largest of all eigenvalues, of either sign.
    cut = rounding.cut(max(top, -lowest), (exact or operator).eps)
    spectrum = pairs.values if pairs.spectrum is None else pairs.spectrum
    least = max(cut, rounding.nothing)
    if not np.any(spectrum > least) and lowest < -10.0 * least:
        raise KernelError(_all_negative(operator, kernel, float(spectrum.max()), lowest))
    require_variance(spectrum, cut, nothing=rounding.nothing, largest=rounding.largest)
    pairs = keep(pairs, asked, total=total, cut=cut)
    if operator.roots is not None:  # otherwise they are turned already
        pairs = pairs.turned(score_signs(pairs.vectors, operator.roots))
    coef = operator.scaled(operator.project(pairs.vectors / np.sqrt(pairs.values)))  # (n, k)
    offset = operator.row_means @ coef  # (k,)
    if kernel.is_precomputed:
        sections: Sections = GivenSections(operator.n, engine=engine)
    else:
        sections = KernelSections(kernel, x, engine=engine)
    if x.dtype != np.float64:
        spread = np.sqrt(pairs.values / operator.weight)  # of the scores
        terms = rounding.largest * np.linalg.norm(coef, axis=0) + np.abs(offset)
        sizes = rounding.largest, float(np.abs(coef).max()), float(spread.max())
        dtype = projection_dtype(x.dtype, terms, spread, sizes)
        coef, offset = coef.astype(dtype), offset.astype(dtype)
    projection = Projection(sections, coef, offset)
    shares = operator.shares
    return Fit(
        projection,
        handed_out(pairs, x.dtype, moved=rounding.moved(top), lowest=lowest),
        total,
        operator.n - 1,
        task.plan,
        cut,
        seen,
        asked,
        operator.weight,
        FeatureMean(shares, float(shares @ operator.row_means)),
        operator.roots,
    )


def gram_operator(
    kernel: Kernel, x: Rows, plan: Plan, weights: Array | None = None, *, engine: Engine[Any]
) -> Centred:
    """HKH by the plan's recipe, with a rough copy where it has one."""
    assert plan.recipe is not None  # of a dual problem
    gram = plan.recipe.gram(engine, kernel, x, plan.n_threads)
    return Centred(gram, weights, positive=kernel.why_valid() is not None)


def _grow(operator: Centred, share: float, task: Task) -> EigenPairs:
    """Let k grow until the share of the variance is reached; go to LAPACK when it nears n."""
    n, spent, plan, rng = operator.n, 0, task.plan, task.rng
    most = max(1, min(n // lapack_share(n), plan.most_components))
    k, twice_before = min(16, most), 1
    while True:  # each time anew: vectors to start from would make blocks as wide as they are many
        stage = Stage(task.observer, spent)
        pairs = plan.solver(operator, k, rng=rng, observer=stage)
        spent += pairs.n_products
        total = operator.trace()
        if pairs.values.sum() >= share * total:
            count = first_reaching(pairs.values, share * total)
            return replace(pairs.first(count), n_products=spent)
        if stage.stop:
            return replace(pairs, n_products=spent, status=Status.STOPPED)
        expected = _expected(pairs.values, share * total, n)
        if k == most or (plan.lapack_fits and expected is not None and expected > most):
            break
        wanted = 2 * k if expected is None else int(1.1 * expected) + 4
        # Forecasts may fail by little each time: at least twice what was too few two stages ago.
        k, twice_before = min(max(wanted, twice_before), most), 2 * k
    if not plan.lapack_fits:
        msg = Message(
            f"{share:.1%} of the variance takes more than {k} components, and {{memory}} does not "
            f"hold the {n} x {n} problem of finding all. Ask for a smaller share or a number of "
            "components, raise {memory}, or use a wider kernel."
        )
        raise MemoryBudgetError(msg)
    pairs = Lapack().reaching(operator, share)
    return replace(pairs, n_products=spent + pairs.n_products)


def _expected(values: Array, goal: float, n: int) -> int | None:
    """Components whose eigenvalues sum to the goal if they go on falling as they did, as j to the -p."""
    # p is the least of those of the last half, quarter and eighth of them: there may be a cliff among them,
    # and to expect too few costs less than to give up. None where no number would do: this is a cliff.
    k, last = len(values), float(values[-1])
    if last <= 0.0:
        return None
    before = [k - k // part for part in (2, 4, 8) if k >= part]
    p = min((np.log(values[j - 1] / last) / np.log(k / j) for j in before), default=0.0)
    later = last * (np.arange(k + 1, n + 1) / k) ** -p
    reached = int(np.searchsorted(np.cumsum(later), goal - float(values.sum())))
    return None if reached == len(later) else k + 1 + reached


def _all_negative(operator: Centred, kernel: Kernel, largest: float, lowest: float) -> Message:
    """Why a matrix such as that of distances has no positive eigenvalue."""
    gram, what = operator.gram, "K" if kernel.is_precomputed else "the function"
    # Centring may have taken a constant off the entries, but not off the diagonal.
    few = gram.block(spread_over(operator.n, PROBE_ROWS))
    if not np.any(gram.diag()) and np.all(few + gram.minus >= 0.0):
        name = "D" if kernel.is_precomputed else "distance"
        why = f"{what} has a zero diagonal and looks like distances: use exp(-gamma * {name}**2)."
    else:
        why = f"{what} is not a kernel, and on these data it is nearly the negative of one."
    return Message(
        f"No eigenvalue is positive beyond rounding: the largest is {largest:.3g} and the smallest "
        f"{lowest:.3g}; {why} {{mercer.check_kernel}} shows a witness."
    )


# ── the unit of weights ─────────────────────────────────────────────────────
# Eigenvalues are proportional to it, and nothing else of a fit depends on it. Weighted squares are summed in
# the precision of the rows, which has room for weights near one. Others are divided by a power of four, whose
# root is exact: not a digit of what follows changes.

# Weights are left as they are where the largest is at most this, and at least one part in as many.
ORDINARY = 2.0**30


def unit_of(weights: Array) -> float:
    """A power of four near the largest weight; 1 where that is of ordinary size."""
    largest = float(weights.max())
    if 1.0 / ORDINARY <= largest <= ORDINARY:
        return 1.0
    unit = math.ldexp(1.0, 2 * ((math.frexp(largest)[1] - 1) // 2))
    # Beside weights as far apart as numbers can be, the smallest would vanish.
    least = float(weights.min(initial=largest, where=weights > 0.0))
    return unit if least / unit >= np.finfo(np.float64).tiny else 1.0


def in_unit(fit: Fit, unit: float) -> Fit:
    """The fit to weights that are `unit` times as large."""
    by, pairs, low, known = np.float64(unit), fit.pairs, fit.low_end, fit.certificate
    names = ("values", "products", "spectrum", "unseen", "rounding")
    own = {name: value * by for name in names if (value := getattr(pairs, name)) is not None}
    if low is not None:
        low = replace(low, lowest=low.lowest * unit, negative=low.negative * unit)
    if known is not None:
        sums = {name: getattr(known, name) * unit for name in ("trace", "left_out", "rounding")}
        known = replace(known, **sums)
    return changed(
        fit,
        pairs=changed(pairs, **own),
        total=fit.total * unit,
        cut=fit.cut * unit,
        weight=fit.weight * unit,
        roots=None if fit.roots is None else fit.roots * math.sqrt(unit),
        low_end=low,
        certificate=known,
        ceiling=None if fit.ceiling is None else fit.ceiling * by,
    )


def require_room(fit: Fit, unit: float) -> None:
    """Raise where weighted sums, and what evidence multiplies them by, would be no numbers."""
    trace = fit.total if fit.certificate is None else max(fit.total, fit.certificate.trace)
    with np.errstate(over="ignore"):
        most = np.float64(unit) * max(fit.weight, trace) * 2.0 * max(fit.rank_bound, 1)
    if not np.isfinite(most):
        wanted = "small enough for weighted sums of squares to be finite"
        remedy = "Divide them by the largest."
        refuse("sample_weight", unit, wanted, f"weights of about {unit:.1g}", remedy)
