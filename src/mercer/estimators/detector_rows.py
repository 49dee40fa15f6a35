"""Rows of a detector: those it learns from, in memory or on workers, and those it judges where they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from mercer._core.errors import InputError
from mercer.data.dask import DaskRows
from mercer.engine.resolve import resolve_engine
from mercer.estimators.detector_fit import require_room
from mercer.estimators.input import cast, check_kernel_rows, loaded, training_rows
from mercer.estimators.lazy import lazy_answers

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.data.training import TrainingData
    from mercer.engine.base import Engine
    from mercer.engine.moments import Scale
    from mercer.estimators.base import Projector
    from mercer.kernels import Kernel
    from mercer.model.projection import Projection
    from mercer.monitoring.contributions import Baselines
    from mercer.monitoring.limits import Limits, Rule
    from mercer.monitoring.statistics import Gauge, Statistics


class Fitted:
    """What a detector has after its fit: the schema of the model file is read off these lines."""

    model_: Projector
    limits_: Limits
    offset_: float
    center_: Annotated[Array, "d"]
    spread_: Annotated[Array, "d"]
    baselines_: Annotated[Array, "m d"]
    set_aside_: Annotated[Array, "c 3"]
    n_features_in_: int
    _scale: Scale
    _rule: Rule
    _gauge: Gauge
    _baselines: Baselines
    _dtype: np.dtype[Any]


def learnt_rows(
    detector: Any, X: Any, sample_weight: Any
) -> tuple[TrainingData, TrainingData, Engine[Any]]:
    """Training rows as they were given, those that count, where they are read from, and by what engine.

    Files are read into memory. Rows of a dask collection stay where they are.
    """
    given = detector.model
    name = detector.engine if given is None else getattr(given, "engine", detector.engine)
    engine = resolve_engine(name)
    data = training_rows(detector, X, sample_weight, copy=False)
    if isinstance(data.rows, DaskRows):
        engine.settle(data.rows)  # a model may have an engine of its own
        require_room(data.n)
    read = data if data.in_memory else loaded(data)
    refuse_sparse(read.rows)
    return data, read, engine


def refuse_sparse(rows: Rows) -> None:
    """Centring would fill a sparse matrix."""
    if hasattr(rows, "indptr"):
        msg = "Sparse rows came, but a detector scales its columns. Use X.toarray()."
        raise InputError(msg)


# ── rows to judge ───────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Judge:
    """T², Q and the index of rows, and what a detector says of them."""

    gauge: Gauge
    scale: Scale
    rule: Rule
    limits: Limits
    kernel: Kernel | None
    offset: float  # of scores: lower ones are those of outliers
    dtype: np.dtype[Any]  # of the training rows

    def scaled(self, rows: Array) -> Array:  # (b, d) -> (b, d)
        """As the model takes them."""
        with np.errstate(over="ignore"):  # infinitely far out: an alarm
            scaled = self.scale(rows)
        if self.kernel is not None:
            check_kernel_rows(self.kernel, scaled)
        return scaled

    def index(self, found: Statistics) -> Array:  # (b,)
        """What the detector goes by, in units of the limits."""
        return self.rule.index(self.limits, found)

    def own(self, values: Array) -> Array:
        """In the precision of the training rows; what is too large for it is infinite."""
        with np.errstate(over="ignore"):
            return values.astype(self.dtype, copy=False)

    # ── answers ─────────────────────────────────────────────────────────────
    def predict(self, found: Statistics) -> Array:
        """1 or -1."""
        return np.where(self.index(found) <= -self.offset, 1, -1)

    def score_samples(self, found: Statistics) -> Array:
        """Minus the index."""
        return self.own(-self.index(found))

    def decision_function(self, found: Statistics) -> Array:
        """Below zero for outliers."""
        return self.own(-self.index(found) - self.offset)

    def statistics(self, found: Statistics) -> Array:  # (b, 3)
        """T², Q and the index."""
        return self.own(np.stack([found.t2, found.q, self.index(found)], axis=1))


@dataclass(frozen=True)
class Verdict:
    """One answer of a judge to the rows of a chunk."""

    judge: Judge
    name: str

    def __call__(self, projection: Projection, rows: Rows, first: int) -> Array:
        judge, gauge = self.judge, self.judge.gauge
        gauge = replace(gauge, space=replace(gauge.space, projection=projection))
        scaled = judge.scaled(cast(rows, judge.dtype, clip=True, first=first))
        found: Array = getattr(judge, self.name)(gauge(scaled))
        return found


def lazy_verdicts(detector: Any, X: Any, judge: Judge, name: str) -> Any:
    """What the detector says of a dask collection, as a dask array."""
    gauge, projection = judge.gauge, judge.gauge.space.projection
    space: Any = replace(gauge.space, projection=None)  # type: ignore[arg-type]  # travels by itself
    bare = replace(gauge, space=space)
    verdict = Verdict(replace(judge, gauge=bare), name)
    width, dtype = 3 if name == "statistics" else None, judge.dtype
    dtype = np.dtype(int) if name == "predict" else dtype
    return lazy_answers(detector, X, projection, verdict, width=width, dtype=dtype, what=name)
