"""A model of the rows of a file, kept in a file, with the evidence that it is right."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

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
    take_weights,
)
from mercer.data.table import Table
from mercer.estimators.anatomy import Anatomy
from mercer.kernels import Kernel
from mercer.preprocessing.align import Sheet
from mercer.preprocessing.readings import ReadingsTable

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
        preparing = self.preparing_for(asked)
        weights = take_weights(run, self.data, self.weights, ", in scaling and filling too")
        # The limits of a detector come from rows that were held out of the scaling too.
        later = self.kind == "detector"
        if later and not asked.is_precomputed:
            opened = open_data(run, self.data) if table is None else table
            table = ReadingsTable(opened, whole=self.impute is None and weights is None)
        sheet = read_training(
            run, self.data, preparing, table=table, scaled_later=later, weights=weights
        )
        looks_back = self.lags or self.differences or self.smoothing
        if looks_back and sheet.ids is None and table is not None and "left out" in table.told:
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
        Whether kernel, components, lags, smoothing and statistic of a detector are chosen, as by
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
                f"{{choose}} tries kernels, components, lags, smoothing and statistics on scaled rows, and "
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
        own = {"T2": limits.t2, "Q": limits.q, "index": limits.index}
        found["limits"] = {**own, "summary": str(limits)}
    return found
