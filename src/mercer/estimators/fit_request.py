"""What a fit is to do, decided before anything large is allocated, and what follows it."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer._core.errors import CheckpointWarning, LongFitWarning, Remedy, refuse
from mercer._core.findings import silenced, warn
from mercer._core.memory import format_seconds
from mercer._core.observer import Observer
from mercer._core.params import is_whole
from mercer._core.quick import changed
from mercer._core.wording import Message
from mercer.approximations import APPROXIMATIONS, Approximation
from mercer.data.rows import take_rows
from mercer.data.training import TrainingData
from mercer.engine.base import Engine, Facts
from mercer.engine.resolve import device_there, facts_for, is_auto, resolve_engine
from mercer.estimators.input import (
    as_generator,
    check_kernel_rows,
    check_n_components,
    is_whitened,
    refuse_lopsided,
    training_rows,
)
from mercer.estimators.preimages import (
    named_approximation,
    named_preimage,
    planned_preimage,
    preimage_seconds,
)
from mercer.estimators.progress import observing
from mercer.kernels import Kernel, as_kernel
from mercer.kernels.algebra import placed
from mercer.kernels.rows import as_given, column_names
from mercer.model import Fit, Plan, Problem, Task, plan_approximation, plan_linear
from mercer.model.checkpoint import digest, fingerprint
from mercer.planning.forecast import PAYING_SHARE, forecast, may_pay
from mercer.planning.krylov import SHARE_COMPONENTS
from mercer.planning.plan import plan
from mercer.planning.problem import Budget, Ownership
from mercer.planning.recipe import Halved, Tiles
from mercer.preimage import Preimage
from mercer.solvers import BlockKrylov, Lapack

# A fit of fewer rows is over in seconds; of more, its time is worth a second's forecast.
LONG_ROWS = 30_000
LONG_SECONDS = 60.0
# And for one call of LAPACK, which nothing interrupts: of fewer rows it takes some seconds.
LAPACK_ROWS, LAPACK_SECONDS = 4000, 10.0


@dataclass(frozen=True)
class Asked:
    """What is to be fitted, and to what."""

    model: Any
    kernel: Kernel  # resolved
    data: TrainingData
    ownership: Ownership
    n_components: int | float | None
    approximation: Approximation | None
    preimage: Preimage | None
    rng: np.random.Generator
    # As it was before anything was drawn, where there is a pre-image: weighted rows draw other numbers.
    start: np.random.Generator

    def on(self, engine: Any, facts: Facts, room: Budget | None = None) -> FitRequest:
        """The request with the plan for an engine of these facts."""
        kernel, data, full = self.kernel, self.data, self.approximation is None
        # Rows that are read into memory, and the blocks of a pass over a file, are arrays.
        loads, streams = self.ownership is Ownership.LOADED, self.ownership is Ownership.STREAMED
        seen = None if loads or (streams and not full) else data.rows
        found, stands_in = facts_for(engine, facts, kernel, seen)
        # Free memory is looked at once; where NumPy stands in for a device, that of another place.
        if room is None or (found is not facts and (found.elsewhere or facts.elsewhere)):
            room = Budget.of(self.model.memory, found)
        k, own = self.n_components, self.ownership
        problem = Problem.of(data, kernel, k, facts=found, budget=room, ownership=own, forms_k=full)
        if self.approximation is not None:
            chosen = plan_approximation(problem, self.approximation)
        elif kernel.is_linear:
            # The rows themselves are centred and multiplied, on the cheaper side.
            chosen = plan_linear(problem, self.model.solver)
        else:
            chosen = plan(problem, self.model.solver)
        if self.preimage is not None:
            chosen = planned_preimage(self.preimage, chosen, problem, data, kernel)
        # Kernel values that are centred were rounded before; rows and explicit maps are not such.
        if data.weights is not None and chosen.route != "primal" and not kernel.is_linear:
            refuse_lopsided(data.weights, data.kept)
        computes = kernel.parallel and not kernel.is_precomputed and not kernel.is_linear
        if stands_in is not None and computes and chosen.route != "primal":
            chosen = chosen.because(f"tiles are NumPy's: {stands_in}")
        decided = {"engine": resolve_engine(engine), "plan": chosen, "expected": None}
        return FitRequest(**{**vars(self), **decided})


@dataclass(frozen=True)
class FitRequest(Asked):
    """What is to be fitted, to what, and how."""

    engine: Engine[Any]
    plan: Plan
    expected: tuple[int, float] | None = None  # products and seconds, where they were asked for

    @property
    def most_components(self) -> int:
        """The number of components; to reckon with, where a share of the variance leaves it open."""
        most = SHARE_COMPONENTS if isinstance(self.n_components, float) else self.data.n
        return self.n_components if isinstance(self.n_components, int) else min(most, self.data.n)

    def task(self, data: TrainingData, observer: Observer) -> Task:
        """The fit of these data, which may have been read into memory meanwhile."""
        k, weights = self.n_components, data.weights
        return Task(self.kernel, data.rows, k, self.plan, self.rng, weights, observer, self.engine)

    def because(self, reason: str) -> FitRequest:
        return replace(self, plan=self.plan.because(reason))

    def timed(self) -> FitRequest:
        """The request with what is to be expected of the fit itself: a few tiles are made and timed."""
        if self.expected is not None:
            return self
        k, rows = self.most_components, self.data.rows
        found = forecast(self.plan, self.kernel, rows, k, self.engine)
        assert found.n_products is not None
        assert found.seconds is not None
        return replace(self, expected=(found.n_products, found.seconds))

    def forecast(self) -> Plan:
        """The plan, with the products and seconds to expect."""
        expected = self.timed().expected
        assert expected is not None
        n_products, seconds = expected
        found = replace(self.plan, n_products=n_products, seconds=seconds)
        if self.preimage is None:
            return found
        later = preimage_seconds(self.preimage, self.kernel, self.data, self.most_components)
        return replace(found, seconds=seconds + later, preimage_seconds=later)


def fit_request(model: Any, X: Any, sample_weight: Any, facts: Facts) -> FitRequest:
    """Check the input, resolve the kernel, and plan for an engine of these facts."""
    is_whitened(model.whiten)
    kernel, method = as_kernel(model.kernel), named_preimage(model.preimage)
    approximation, rng = named_approximation(model.approximation), as_generator(model.random_state)
    start = rng if method is None else deepcopy(rng)
    exact = approximation is None or approximation.refine > 0
    # A function of the user's own might write into the rows that a model keeps.
    copy = exact and not kernel.is_precomputed and not kernel.parallel
    data = training_rows(model, X, sample_weight, copy=copy, pairwise=kernel.is_precomputed)
    if kernel.shape().names_columns:
        kernel = placed(kernel, column_names(X, data.rows))
    asked = as_many_as_there_are(model.n_components, data.n)
    if approximation is not None:
        approximation = _suited(approximation, model.approximation, kernel, data, asked)
    check_kernel_rows(kernel, data.rows)
    # A function of the user's own is handed rows of the kind that it was given.
    seen = data.rows if kernel.parallel else as_given(X, data.rows)
    kernel = kernel.resolve(seen, rng=rng, weights=data.weights)
    room, remote = Budget.of(model.memory, facts), facts.workers is not None
    budget = room.there if remote else room.of_rows
    owner = Ownership.of(data, kernel, exact=exact, budget=budget, remote=remote)
    what = Asked(model, kernel, data, owner, asked, approximation, method, rng, start)
    request = what.on(model.engine, facts, room)
    if is_whole(model.n_components) and model.n_components > data.n:
        why = f"{data.n} rows have fewer components: all of them are looked for"
        request = request.because(why)
    if is_auto(model.engine) and may_pay(request.plan, data.n, data.d, request.most_components):
        return _where_it_pays(request)
    return request


def as_many_as_there_are(n_components: Any, n: int, of: str = "n_samples") -> int | float | None:
    """The components to look for: no more than there can be, of which the fit warns (`asked_for`).

    A search over `n_components` fits to folds, where a number that is right for all rows must not fail. And n
    rows have fewer than n components: asking for n ends with fewer and a `RankWarning`, n + 1 likewise.
    """
    more = is_whole(n_components) and n_components > n
    return n if more else check_n_components(n_components, n, of)


def asked_for(fit: Fit, n_components: Any) -> Fit:
    """The fit with the number of components that was asked for, which its warning states."""
    return changed(fit, asked=int(n_components)) if is_whole(n_components) else fit


def _where_it_pays(request: FitRequest) -> FitRequest:
    """The request on a GPU, if there is one and both forecasts say that it pays; the plan says why."""
    engine = device_there()
    if engine is None:
        return request
    name = engine.place.name
    try:
        with silenced(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a trial; the fit gives its own
            there = request.on(engine, engine.facts())
            if there.plan.engine != name:
                why = there.plan.reasons[-1]
            else:
                there, request = there.timed(), request.timed()
                pays, why = _compared(request, there)
                if pays:
                    return there.because(why)
    except Exception as error:  # a device that was not asked for must not end the fit
        from mercer.engine.torch.place import reason_of

        why = reason_of(error)
    engine.let_go()
    return request.because(f"not on {name}: {why}")


def _compared(here: FitRequest, there: FitRequest) -> tuple[bool, str]:
    """Whether a device takes so much less time that it pays, and the words for it."""
    assert here.expected is not None
    assert there.expected is not None
    (_, ours), (_, theirs), name = here.expected, there.expected, there.plan.engine
    times = f"about {format_seconds(theirs)} there, {format_seconds(ours)} on the processor"
    if theirs <= PAYING_SHARE * ours:
        return True, f"{name} pays: {times}"
    return False, f"it would have to be twice as fast ({times})"


def _suited(
    approximation: Approximation,
    given: Any,
    kernel: Kernel,
    data: TrainingData,
    asked: int | float | None,
) -> Approximation:
    """The approximation, if it suits kernel, rows and components; the rank of a bare name is ours."""
    if isinstance(given, str) and given in APPROXIMATIONS:
        approximation = approximation.at_most(data.n)
    approximation.check(kernel, (data.n, data.d))
    width = approximation.width(data.n)
    if isinstance(asked, int) and asked > width:
        remedy = Message("Raise its rank, ask for fewer components, or use {approximation:None}.")
        wanted = f"at most {width}, all that {approximation!r} has"
        refuse("n_components", asked, wanted, remedy=remedy)
    return approximation


def warn_if_long(request: FitRequest) -> None:
    """Warn of a long exact fit: an approximation is never chosen unasked, but may be worth knowing of."""
    is_lapack = isinstance(request.plan.solver, Lapack)
    rows, most = (LAPACK_ROWS, LAPACK_SECONDS) if is_lapack else (LONG_ROWS, LONG_SECONDS)
    if request.plan.route != "dual" or request.plan.approximation or request.data.n < rows:
        return
    seconds = replace(request, preimage=None).forecast().seconds
    if seconds is not None and seconds > most:
        during = "verbose=1 shows progress"
        if is_lapack:
            during = "Ctrl-C takes effect only when LAPACK has ended, unless fewer components are asked for"
        msg = Message(
            f"This exact fit of n={request.data.n} rows is expected to take {format_seconds(seconds)}. "
            "{approximation:'rpcholesky'} takes a small part of that and states its error; "
            + during
            + "."
        )
        numbers = {"n": request.data.n, "seconds": seconds}
        warn(LongFitWarning(msg, numbers=numbers, remedy=Remedy("approximation", "rpcholesky")))


def watching_request(request: FitRequest) -> AbstractContextManager[Observer]:
    """The observers of a fit: the terminal, scikit-learn's callbacks, a checkpoint."""
    model, chosen = request.model, request.plan
    checkpoint = model.checkpoint
    iterates = isinstance(chosen.solver, BlockKrylov) and chosen.route == "dual"
    resumes = iterates and chosen.approximation is None and isinstance(request.n_components, int)
    if checkpoint is not None and not resumes:
        msg = (
            f"checkpoint={str(checkpoint)!r} is not used: only a Krylov iteration for a number of "
            f"components can be resumed, and this fit takes the {chosen.route} route with "
            f"{type(chosen.approximation or chosen.solver).__name__}."
        )
        warn(msg, CheckpointWarning)
        checkpoint = None

    def ingredients() -> dict[str, Any]:
        few = take_rows(request.data.rows, np.arange(min(8, request.data.n)))
        return fingerprint(
            request.data.rows,
            request.data.weights,
            kernel=request.kernel,
            n_components=request.n_components,
            # As it was asked for: what the planner adds depends on the memory that is free.
            solver=model.solver,
            tiles=_tiles_text(request.plan),
            rng=request.rng,
            # A function is known by its values: its name stays when its text changes.
            values=None if request.kernel.is_precomputed else digest(request.kernel.tile(few, few)),
        )

    return observing(model, verbose=model.verbose, checkpoint=checkpoint, fingerprint=ingredients)


def _tiles_text(chosen: Plan) -> str:
    """How tiles are cut and rounded, on which sums depend; not how many of them are kept."""
    recipe = chosen.recipe
    assert recipe is not None  # a Krylov iteration has an operator
    kind = {Tiles: "tiles", Halved: f"{recipe.dtype} products"}.get(type(recipe), "full")
    return f"{kind}, {recipe.width} wide, sketch {recipe.proof is not None}"
