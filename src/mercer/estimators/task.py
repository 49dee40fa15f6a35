"""What a fit is to do, decided before anything large is allocated, and who looks on while it does."""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import CheckpointWarning, InputError, LongFitWarning
from mercer._core.memory import format_seconds, parse_bytes
from mercer.approximations import APPROXIMATIONS
from mercer.data.rows import take_rows
from mercer.engine.threads import n_blas_threads
from mercer.estimators.door import Training, check_kernel_rows, training_rows
from mercer.estimators.parts import (
    named_approximation,
    named_preimage,
    planned_preimage,
    preimage_seconds,
)
from mercer.estimators.progress import watching
from mercer.estimators.validation import (
    as_generator,
    check_n_components,
    check_square,
    refuse_lopsided,
    users_level,
)
from mercer.kernels import Linear, as_kernel
from mercer.kernels.rows import as_given
from mercer.model import Plan, Problem, fits_single, plan_approximation, plan_linear
from mercer.model.checkpoint import digest, fingerprint
from mercer.planning.forecast import forecast
from mercer.planning.krylov_memory import SHARE_COMPONENTS
from mercer.planning.plan import plan
from mercer.solvers import BlockKrylov

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from mercer._core.watch import Watch
    from mercer.approximations import Approximation
    from mercer.kernels import Kernel
    from mercer.preimage import Preimage

# A fit of fewer rows is over before anybody wonders; of more, its time is worth a second's forecast.
LONG_ROWS = 30_000
LONG_SECONDS = 60.0
# Rows of a source up to this share of the budget are read into memory by an exact fit.
OWN_SHARE = 0.25


@dataclass(frozen=True)
class Task:
    """What is to be fitted, to what, and how."""

    kernel: Kernel  # resolved
    came: Training
    asked: int | float | None
    plan: Plan
    rng: np.random.Generator
    start: np.random.Generator  # as it was before anything was drawn, where there is a pre-image
    loads: bool = False  # whether rows of a source are read into memory
    borrows: bool = (
        False  # whether rows are the caller's, and a model that keeps them needs its own
    )
    preimage: Preimage | None = None

    @property
    def components(self) -> int:
        """Components to reckon with, also when a share of the variance leaves their number open."""
        if isinstance(self.asked, int):
            return self.asked
        return self.came.n if self.asked is None else min(SHARE_COMPONENTS, self.came.n)

    @property
    def can_resume(self) -> bool:
        """Whether a state is offered to a checkpoint."""
        krylov = isinstance(self.plan.solver, BlockKrylov) and self.plan.route == "dual"
        return krylov and self.plan.approximation is None and isinstance(self.asked, int)

    def forecast(self) -> Plan:
        """The plan, with the products and seconds to expect."""
        found = forecast(self.plan, self.kernel, self.came.rows, self.components)
        if self.preimage is None or found.seconds is None:
            return found
        later = preimage_seconds(self.preimage, self.kernel, self.came, self.components)
        return replace(found, seconds=found.seconds + later, preimage_seconds=later)

    def preimage_rng(self) -> np.random.Generator:
        """Random numbers that do not depend on how many the fit has drawn: weighted rows draw other ones."""
        return deepcopy(self.start)


def _loads(kernel: Kernel, came: Training, budget: int) -> bool:
    """Whether an exact fit reads the rows of a source into memory.

    It does where they take a small part of the budget: the model then owns its rows, and does not care
    what becomes of the file. And it has to where slices can't be had in any order (batches), or where
    the rows themselves are the dual problem (a linear kernel with more columns than rows).
    """
    if came.in_memory:
        return False
    wide = isinstance(kernel, Linear) and came.d >= came.n
    small = came.n_bytes <= OWN_SHARE * budget
    streams = kernel.map_dimension(came.d) is not None and not wide
    return small or wide or not (came.rows.random_access or streams)


def make_task(model: Any, X: Any, sample_weight: Any) -> Task:
    """Check what came, resolve the kernel, and plan."""
    kernel, approximation = as_kernel(model.kernel), named_approximation(model.approximation)
    method, rng = named_preimage(model.preimage), as_generator(model.random_state)
    start = rng if method is None else deepcopy(rng)
    # An exact model keeps these rows, and the caller may change his: they are copied at the end of the fit,
    # when its tiles are gone; before it where a function of the user's own might write into them.
    exact = approximation is None or approximation.refine > 0
    keeps = exact and not kernel.is_precomputed
    copy = keeps and not kernel.parallel
    came = training_rows(model, X, sample_weight, copy=copy, pairwise=kernel.is_precomputed)
    given = came.rows
    if kernel.is_precomputed:
        came = replace(came, rows=check_square(given))
    copied = came.rows is not given  # a matrix that was symmetric within rounding only
    asked = check_n_components(model.n_components, came.n)
    if approximation is not None:
        named = isinstance(model.approximation, str) and model.approximation in APPROXIMATIONS
        if named:  # its rank is ours, not the caller's
            approximation = approximation.at_most(came.n)
        approximation.check(kernel, (came.n, came.d))
        _require_rank(approximation, asked, came.n)
    check_kernel_rows(kernel, came.rows)
    # A function of the user's own is handed rows of the kind that came.
    seen = came.rows if kernel.parallel else as_given(X, came.rows)
    kernel = kernel.resolve(seen, rng=rng, weights=came.weights)
    budget = parse_bytes(model.memory)
    loads = exact and _loads(kernel, came, budget)
    # Rows of batches that are not loaded are read once, for an explicit map: no entry of K is made.
    forms_k = approximation is None and (came.in_memory or loads or came.rows.random_access)
    problem = Problem(
        n=came.n,
        d=came.d,
        n_components=asked,
        itemsize=came.rows.dtype.itemsize,
        budget_bytes=budget,
        n_threads=n_blas_threads() if kernel.parallel else 1,
        rows_bytes=came.n_bytes if copied or loads or (keeps and came.in_memory) else 0,
        from_source=not came.in_memory and not loads,
        reading_bytes=came.reading_bytes,
        in_memory=came.in_memory or loads,
        numbers_a_row=None if kernel.tree().densifies else came.numbers_a_row,
        dense=not came.is_sparse,
        map_dimension=kernel.map_dimension(came.d),
        shift_invariant=kernel.shift_invariant and not came.is_sparse,
        precomputed=kernel.is_precomputed,
        costly=not kernel.parallel,
        fits_single=not forms_k or fits_single(kernel, came.rows),
    )
    if approximation is None:
        # The rows themselves are centred and multiplied there, on the cheaper side.
        choose = plan_linear if isinstance(kernel, Linear) else plan
        chosen = choose(problem, model.solver)
    else:
        chosen = plan_approximation(problem, approximation)
    if method is not None:
        chosen = planned_preimage(method, chosen, problem, came, kernel)
    if _forms_matrix(chosen, kernel):
        refuse_lopsided(came.weights, came.kept)
    borrows = keeps and came.in_memory and not copy
    return Task(kernel, came, asked, chosen, rng, start, loads, borrows, method)


def _forms_matrix(chosen: Plan, kernel: Kernel) -> bool:
    """Whether kernel values are centred that were rounded before; rows and explicit maps are not such."""
    return chosen.route != "primal" and not isinstance(kernel, Linear)


def _require_rank(approximation: Approximation, asked: int | float | None, n: int) -> None:
    if isinstance(asked, int) and asked > approximation.width(n):
        msg = (
            f"{asked} components were asked for, but {approximation!r} has at most "
            f"{approximation.width(n)}. Raise its rank, ask for fewer components, or use "
            "approximation=None."
        )
        raise InputError(msg)


def warn_if_long(task: Task) -> None:
    """Exact unless asked otherwise; but whoever waits for long should know of the other way."""
    if task.plan.route != "dual" or task.plan.approximation or task.came.n < LONG_ROWS:
        return
    seconds = replace(task, preimage=None).forecast().seconds
    if seconds is not None and seconds > LONG_SECONDS:
        msg = (
            f"This exact fit of n={task.came.n} rows is expected to take {format_seconds(seconds)}. "
            "approximation='rpcholesky' takes a small part of that and states its error; verbose=1 shows "
            "progress."
        )
        warnings.warn(msg, LongFitWarning, stacklevel=users_level())


def watching_task(model: Any, task: Task) -> AbstractContextManager[Watch]:
    """Whoever looks on: the terminal, scikit-learn's callbacks, a checkpoint."""
    checkpoint = model.checkpoint
    if checkpoint is not None and not task.can_resume:
        msg = (
            f"checkpoint={str(checkpoint)!r} is not used: only a Krylov iteration for a number of "
            f"components can be resumed, and this fit takes the {task.plan.route} route with "
            f"{type(task.plan.approximation or task.plan.solver).__name__}."
        )
        warnings.warn(msg, CheckpointWarning, stacklevel=users_level())
        checkpoint = None

    def ingredients() -> dict[str, Any]:
        few = take_rows(task.came.rows, np.arange(min(8, task.came.n)))
        return fingerprint(
            task.came.rows,
            task.came.weights,
            kernel=task.kernel,
            n_components=task.asked,
            # As it was asked for: what the planner adds depends on the memory that is free.
            solver=model.solver,
            tiles=f"{task.plan.storage}, {task.plan.width} wide, sketch {task.plan.sketch}",
            rng=task.rng,
            # A function is known by its values: its name stays when its text changes.
            values=None if task.kernel.is_precomputed else digest(task.kernel.tile(few, few)),
        )

    return watching(model, verbose=model.verbose, checkpoint=checkpoint, fingerprint=ingredients)
