"""What a fit to the rows of a file would do and cost. Fits nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from sklearn.base import clone

from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer._core.errors import InputError, MemoryBudgetError, Remedy
from mercer._core.memory import format_bytes
from mercer.app.estimator import Asked
from mercer.app.fit import ModelOptions, rows_for
from mercer.app.outcome import Request, Run
from mercer.app.rows import open_data, require_two_rows
from mercer.approximations import RPCholesky
from mercer.estimators.detector_fit import chosen_model
from mercer.kernels import as_kernel
from mercer.model import Plan
from mercer.stream.dictionary import stream_bytes

# Of the approximation that is offered where an exact fit does not fit in memory, the best first.
RANKS = (1000, 500, 200, 100, 50)


@dataclass(frozen=True)
class Planned:
    """The plan; or why there is none, and the plan of an approximation that fits in memory."""

    model: Any
    shape: tuple[int, int]
    dtype: str
    budget: int
    plan: Plan | None
    refusal: str | None = None
    alternative: Plan | None = None
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the memory holds the fit."""
        return self.refusal is None

    @property
    def remedy(self) -> Remedy | None:
        """The approximation that the memory holds."""
        if self.alternative is None:
            return None
        rank = getattr(self.alternative.approximation, "rank", None)
        return Remedy("approximation", f"rpcholesky(rank={rank})")

    @property
    def facts(self) -> dict[str, Any]:
        """For programs; a kernel that a detector chooses at the fit is "auto"."""
        kernel = self.model.get_params(deep=False).get("kernel", "linear")
        return {
            "n": self.shape[0],
            "d": self.shape[1],
            "dtype": self.dtype,
            "estimator": repr(self.model),
            "kernel": kernel if kernel == "auto" else repr(as_kernel(kernel)),
            "components": self.model.n_components,
            "memory_bytes": self.budget,
            "fits": self.fits,
            "plan": None if self.plan is None else plan_facts(self.plan),
            "refusal": self.refusal,
            "alternative": None if self.alternative is None else plan_facts(self.alternative),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, kw_only=True)
class PlanRequest(ModelOptions, Request[Planned]):
    """What a fit of these options would do: route, bytes, products and seconds."""

    def fulfil(self, run: Run) -> Planned:
        """Rows of an NPY file stay where they are; others are read and prepared as a fit would."""
        asked = self.asked
        rows, weights, names = self._rows(run, asked)
        n, d = map(int, rows.shape)
        require_two_rows(self.data, n)
        model = asked.of(names).estimator(n, scale=self.standardises)
        with run.timed("plan"):
            found = _asked(model, rows, weights)
        planned = Planned(model, (n, d), str(rows.dtype), run.budget, **found)
        if planned.refusal is not None:
            run.warn(planned.refusal, "memory", remedy=planned.remedy, memory_bytes=run.budget)
        return planned

    def _rows(self, run: Run, asked: Asked) -> tuple[Any, Any, Sequence[str]]:
        table = open_data(run, self.data) if self.weights is None else None
        # What other models do to their rows first takes all of them.
        in_place = table.in_place() if table is not None and self.kind == "kpca" else None
        if table is None or in_place is None:
            sheet, weights = self.prepared(run, asked, table)
            return rows_for(asked, sheet), weights, sheet.names
        n, d = in_place.shape
        run.say(f"{table.source}: {n} rows, {d} features, which stay there", "read", n=n, d=d)
        if self.preparing_for(asked)["scale"] != "none":
            run.note(
                "the rows are taken as they are in the file: scaling changes neither bytes nor seconds",
                "unscaled",
            )
        return in_place, None, [column.name for column in table.columns]


def _asked(model: Any, rows: Any, weights: Any) -> dict[str, Any]:
    """The plan of a model, or why there is none, and what fits in memory instead."""
    notes: tuple[str, ...] = ()
    if isinstance(model, IncrementalKernelPCA):
        n_bytes = stream_bytes(model.max_landmarks, model.batch_size, rows.shape[1])
        note = f"one pass, at most {model.max_landmarks} rows kept, {format_bytes(n_bytes)}"
        return {"plan": None, "notes": (note,)}
    if isinstance(model, KernelPCADetector) and model.limits == "cross-validation":
        notes = (f"and once more for each of {model.folds} stretches of rows held out",)
    planner = _planner(model, rows)
    try:
        return {"plan": planner.plan(rows, sample_weight=weights), "notes": notes}
    except MemoryBudgetError as error:
        refused: dict[str, Any] = {"plan": None, "refusal": error.args[0], "notes": notes}
    if planner.approximation is not None or as_kernel(planner.kernel).is_precomputed:
        return refused
    return {**refused, "alternative": _alternative(planner, rows)}


def _planner(model: Any, rows: Any) -> KernelPCA:
    """The kernel PCA that is planned as this model is: linear PCA is that of the linear kernel."""
    if isinstance(model, KernelPCADetector):
        model = chosen_model(model, rows)
    if isinstance(model, PCA):
        shared = {name: getattr(model, name) for name in ("solver", "memory", "engine")}
        return KernelPCA(model.n_components, kernel="linear", **shared)
    assert isinstance(model, KernelPCA)  # `ESTIMATORS` has no other
    return model


def _alternative(model: KernelPCA, rows: Any) -> Plan | None:
    for rank in RANKS:
        other = clone(model).set_params(approximation=RPCholesky(rank=rank), solver="auto")
        try:
            return other.plan(rows)
        except (InputError, MemoryBudgetError):  # a rank that rows, components or memory forbid
            continue
    return None


def plan_facts(found: Plan) -> dict[str, Any]:
    """Every field of a plan; solver and approximation as one would write them."""
    plain = {each.name: getattr(found, each.name) for each in fields(found)}
    plain["solver"] = repr(found.solver)
    if found.recipe is not None:
        plain["recipe"] = {"kind": type(found.recipe).__name__.lower(), **asdict(found.recipe)}
    plain["approximation"] = None if found.approximation is None else repr(found.approximation)
    return plain
