"""A model of the rows of a file, with the evidence that it is right; and what it would cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer._core.errors import InputError, MemoryBudgetError, Remedy
from mercer._core.memory import format_bytes
from mercer._core.types import Array
from mercer.app.estimator import Asked, asked_for
from mercer.app.outcome import Request, Run, refuse
from mercer.app.rows import (
    OfTraining,
    check_model_output,
    check_output,
    keep_model,
    open_data,
    read_training,
    require_two_rows,
    take_weights,
)
from mercer.approximations import RPCholesky
from mercer.data.table import Table
from mercer.estimators.anatomy import Anatomy
from mercer.kernels import Kernel, as_kernel
from mercer.model import Plan
from mercer.preprocessing.align import ReadingsTable, Sheet
from mercer.stream.dictionary import stream_bytes

FOLLOWED = ("false_alarm", "confidence", "folds")  # options that a choice of a detector obeys


@dataclass(frozen=True)
class Fitted:
    """A fitted model, the rows it was fitted to, and the facts for programs."""

    model: Any
    sheet: Sheet
    facts: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ModelOptions(OfTraining):
    """What is to be fitted. Whatever is None has the default of the estimator.

    Parameters
    ----------
    kind : {"kpca", "pca", "detector", "incremental"}
        Kernel PCA, linear PCA, a detector, or kernel PCA in one pass.
    kernel : str or Kernel, optional
        Such as ``"rbf(gamma=0.5)"``; ``"precomputed"``: the file is the kernel matrix.
    components : int, float or "all", optional
        How many, or which share of the variance.
    approximation, solver, preimage : str or object, optional
        Such as ``"rpcholesky(rank=500)"``.
    weights : str, optional
        The column that says how often each row counts.
    """

    kind: str = "kpca"
    kernel: str | Kernel | None = None
    components: int | float | str | None = None
    approximation: Any = None
    refine: int | None = None
    solver: Any = None
    engine: str | None = None
    preimage: Any = None
    checkpoint: str | None = None
    landmarks: int | None = None
    false_alarm: float | None = None
    contamination: float | None = None
    statistic: str | None = None
    limits: str | None = None
    folds: int | None = None
    wild: str | None = None
    lags: int | str | None = None
    differences: bool | None = None
    smoothing: float | None = None
    confidence: float | None = None
    weights: str | None = None

    @property
    def asked(self) -> Asked:
        """The estimator to come; raises before a file is opened."""
        of_rows = {"kind", *(each.name for each in fields(OfTraining))}
        names = sorted(each.name for each in fields(ModelOptions) if each.name not in of_rows)
        options = {name: getattr(self, name) for name in names}
        return asked_for(self.kind, options, seed=self.seed, memory=self.memory)

    def prepared(
        self, run: Run, asked: Asked, table: Table | None = None
    ) -> tuple[Sheet, Array | None]:
        """The rows, and how often each counts."""
        how = self.preparing_for(asked)
        weights = take_weights(run, self.data, self.weights, ", in scaling and filling too")
        # The limits of a detector come from rows that were held out of the scaling too.
        later = self.kind == "detector"
        if later and not asked.is_precomputed:
            opened = open_data(run, self.data) if table is None else table
            table = ReadingsTable(opened, whole=self.impute is None and weights is None)
        sheet = read_training(run, self.data, how, table=table, scaled_later=later, weights=weights)
        looks_back = self.lags or self.differences or self.smoothing
        if looks_back and sheet.ids is None and table is not None and "left out" in table.noted:
            refuse(
                "{lags}, {differences} and {smoothing} need a column of times where rows lack readings: such "
                "rows are left out, and only times say that there is a gap. Name it with {id}, or fill the "
                "readings in with {impute:'median'}."
            )
        return sheet, weights

    def preparing_for(self, asked: Asked) -> dict[str, Any]:
        """What is done to the rows; a kernel matrix is never scaled."""
        if not asked.is_precomputed:
            return self.preparing
        if self.scale == "standard":
            refuse("{scale:'standard'} is for rows; {kernel:'precomputed'} has kernel values.")
        return {**self.preparing, "scale": "none"}

    @property
    def standardises(self) -> bool:
        """Whether columns are scaled, here or by the model itself."""
        return self.scale != "none"


@dataclass(frozen=True, kw_only=True)
class FitRequest(ModelOptions, Request[Fitted]):
    """Fit a model to the rows of a file, and keep it in a file.

    Parameters
    ----------
    output : str, optional
        The model file; none is written otherwise.
    choose : bool, optional
        Whether kernel, components, lags and smoothing of a detector are chosen, as by
        `mercer.select_detector`.
    """

    output: str | None = None
    choose: bool | None = None

    def fulfil(self, run: Run) -> Fitted:
        """Fit, and write. A fit that was stopped is not written."""
        asked = self.asked
        if self.choose:
            self._require_choice()
        self.preparing_for(asked)  # before a file is looked at
        beside = [self.output] if self.output else []
        if self.checkpoint is not None:
            check_output(self.checkpoint, [self.data, *beside], option="checkpoint")
        path = check_model_output(self.output, self.data)
        sheet, weights = self.prepared(run, asked)
        n, d = sheet.rows.shape
        model = asked.of(sheet.names).estimator(n, scale=self.standardises)
        rows = rows_for(asked, sheet)
        # Times say where a detector that looks back finds a gap.
        when = {} if sheet.ids is None or self.kind != "detector" else {"time": sheet.clock}
        if self.choose:
            model = self._chosen(run, rows, when).set_params(memory=asked.params["memory"])
        with run.timed("fit"):
            model.fit(rows, sample_weight=weights, **when)
        if asked.has_free_preimages:
            run.note("the exact pre-images of the linear kernel are kept with it", "preimage")
        facts = {"n": n, "d": d, "features": list(sheet.preparation.features), **evidence(model)}
        if path is not None and run.stopped:
            run.warn("A stop was asked for, and the model was not written.", "stopped")
        elif path is not None:
            facts["model"] = keep_model(run, path, model, sheet, self.about)
        return Fitted(model, sheet, facts)

    def _require_choice(self) -> None:
        """Raise where there is nothing to choose, or an option has chosen already."""
        if self.kind != "detector":
            refuse("{choose} is an option of {kind:detector}.")
        own = {*FOLLOWED, "kind", *(each.name for each in fields(OfTraining))}
        options = [each.name for each in fields(ModelOptions) if each.name not in own]
        given = [name for name in options if getattr(self, name) is not None]
        if not self.standardises:
            given.append("scale")
        if given:
            refuse(
                f"{{choose}} tries kernels, components, lags and smoothing on scaled rows by T² and Q, and "
                f"takes no {{{given[0]}}}. Leave one of the two out."
            )

    def _chosen(self, run: Run, rows: Any, when: dict[str, Any]) -> Any:
        """The detector that sees most of small deviations, with the reasons as notes."""
        from mercer.diagnostics.detection import select_detector

        given = {name: getattr(self, name) for name in FOLLOWED if getattr(self, name) is not None}
        with run.timed("choice"):
            found = select_detector(rows, **given, **when, refit=False, random_state=self.seed)
        for reason in found.reasons_:
            run.note(reason.rstrip("."), "choice")
        return found.best_


def rows_for(asked: Asked, sheet: Sheet) -> Any:
    """The rows as `fit` takes them: a kernel matrix in memory, those of a detector with names."""
    if asked.is_precomputed:
        return np.array(sheet.rows[:])
    if asked.kind != "detector":
        return sheet.rows
    rows = np.asarray(sheet.rows).view(NamedRows)
    rows.columns = sheet.names
    return rows


class NamedRows(np.ndarray):
    """Rows in memory that know the names of their columns, for warnings."""

    columns: tuple[str, ...]


# ── evidence ────────────────────────────────────────────────────────────────
def evidence(model: Any) -> dict[str, Any]:
    """The evidence of a fitted model as numbers."""
    body = Anatomy(model)
    inner, fit = body.projector, body.projector.fit_
    found: dict[str, Any] = {
        "kind": type(model).__name__,
        "kernel": "Linear()" if body.kernel is None else repr(body.kernel),
        "components": int(inner.n_components_),
        "eigenvalues": inner.eigenvalues_,
        "explained_variance_ratio": inner.explained_variance_ratio_,
        "variance_kept": float(np.sum(inner.explained_variance_ratio_)),
        "total": float(fit.total),
        "residuals": inner.residuals_,
        "largest_residual": float(np.max(inner.residuals_, initial=0.0)),
        "status": fit.pairs.status.name,
        "route": fit.plan.route,
        "solver": repr(fit.plan.approximation or fit.plan.solver),
        "trace_left_out": float(fit.trace_error),
        "bounds": fit.bounds,
        "evidence": str(fit).splitlines(),
    }
    if (back := body.preimage) is not None:
        found["preimage"] = repr(back.method)
        found["preimage_quality"] = None if back.quality is None else str(back.quality)
    if body.detector is not None:
        limits = body.detector.limits_
        found["limits"] = {
            "T2": limits.t2,
            "Q": limits.q,
            "index": limits.index,
            "summary": str(limits),
        }
    return found


# ── what a fit would do and cost ────────────────────────────────────────────
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
            "plan": plan_facts(self.plan),
            "refusal": self.refusal,
            "alternative": plan_facts(self.alternative),
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
        from mercer.estimators.detector_fit import chosen_model  # which a fit does not need

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


def plan_facts(found: Plan | None) -> dict[str, Any] | None:
    """Every field of a plan; solver and approximation as one would write them."""
    if found is None:
        return None
    plain = {each.name: getattr(found, each.name) for each in fields(found)}
    plain["solver"] = repr(found.solver)
    if found.recipe is not None:
        plain["recipe"] = {"kind": type(found.recipe).__name__.lower(), **asdict(found.recipe)}
    plain["approximation"] = None if found.approximation is None else repr(found.approximation)
    return plain
