"""Rows of a detector: those it learns from, in memory or on workers, and those it judges where they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._core.errors import InputError
from mercer._core.params import OneOf, require
from mercer._core.public import Public
from mercer._core.table import Table
from mercer._core.types import Array, Flags, Rows
from mercer.data.dask import DaskRows, dask_kind, refuse_dask
from mercer.data.rows import RowSource
from mercer.data.sources import in_memory
from mercer.data.training import TrainingData
from mercer.engine.base import Engine
from mercer.engine.moments import Scale
from mercer.engine.resolve import resolve_engine
from mercer.estimators.base import Projector
from mercer.estimators.detector_fit import require_room
from mercer.estimators.detector_lags import Memory, times_of
from mercer.estimators.input import cast, check_kernel_rows, loaded, new_rows, training_rows
from mercer.estimators.scores import lazy_answers
from mercer.kernels import Kernel
from mercer.model.projection import Projection
from mercer.monitoring.contributions import Baselines, need_slopes, warn_incomplete
from mercer.monitoring.lags import Dynamics
from mercer.monitoring.library import KnownEvents
from mercer.monitoring.limits import Calibration, Limits, Rule
from mercer.monitoring.lineage import Generation
from mercer.monitoring.sensors import Sensors
from mercer.monitoring.statistics import STATISTICS, Gauge, Statistic, Statistics


def learnt_rows(
    detector: Any, X: Any, sample_weight: Any
) -> tuple[TrainingData, TrainingData, Engine[Any]]:
    """Training rows as they were given, those that count (of files, in memory), and the engine for them."""
    engine = resolve_engine(getattr(detector.model, "engine", detector.engine))
    data = training_rows(detector, X, sample_weight, copy=False)
    if isinstance(data.rows, DaskRows):
        engine.settle(data.rows)  # that of a model may be another
        require_room(data.n)
    read = data if data.in_memory else loaded(data)
    refuse_sparse(read.rows)
    return data, read, engine


def refuse_sparse(rows: Rows) -> None:
    """Centring would fill a sparse matrix."""
    if hasattr(rows, "indptr"):
        msg = "X must be dense, since a detector scales its columns; got a sparse matrix. Use X.toarray()."
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
    calibration: Calibration | None = None  # where limits come from rows held out

    def scaled(self, rows: Array) -> Array:  # (b, d) -> (b, d)
        """The rows as the model takes them."""
        with np.errstate(over="ignore"):  # infinitely far out: an alarm
            scaled = self.scale(rows)
        if self.kernel is not None:
            check_kernel_rows(self.kernel, scaled)
        return scaled

    def index(self, found: Statistics) -> Array:  # (b,)
        """What the detector goes by, in units of the limits."""
        return self.rule.index(self.limits, found)

    def own(self, values: Array) -> Array:
        """The values in the precision of the training rows; what is too large for it is infinite."""
        with np.errstate(over="ignore"):
            return values.astype(self.dtype, copy=False)

    # ── what a detector says, see `Answers` ─────────────────────────────────
    def predict(self, found: Statistics) -> Array:
        return np.where(self.index(found) <= -self.offset, 1, -1)

    def score_samples(self, found: Statistics) -> Array:
        return self.own(-self.index(found))

    def decision_function(self, found: Statistics) -> Array:
        return self.own(-self.index(found) - self.offset)

    def statistics(self, found: Statistics) -> Array:  # (b, 3)
        return self.own(np.stack([found.t2, found.q, self.index(found)], axis=1))

    def p_values(self, found: Statistics) -> Array:
        assert self.calibration is not None  # `Answers.p_values` has looked
        return self.own(self.calibration(self.index(found)))


def _verdict(judge: Judge, name: str, projection: Projection, rows: Rows, first: int) -> Array:
    """One answer of a judge to the rows of a chunk."""
    gauge = replace(judge.gauge, space=replace(judge.gauge.space, projection=projection))
    scaled = judge.scaled(cast(rows, judge.dtype, clip=True, first=first))
    return getattr(judge, name)(gauge(scaled))


def lazy_verdicts(detector: Any, X: Any, judge: Judge, name: str) -> Any:
    """What the detector says of a dask collection, as a dask array."""
    gauge, projection = judge.gauge, judge.gauge.space.projection
    space: Any = replace(gauge.space, projection=None)  # type: ignore[arg-type]  # travels by itself
    verdict = partial(_verdict, replace(judge, gauge=replace(gauge, space=space)), name)
    width, dtype = 3 if name == "statistics" else None, judge.dtype
    dtype = np.dtype(int) if name == "predict" else dtype
    return lazy_answers(detector, X, projection, verdict, width=width, dtype=dtype, what=name)


# ── what a detector is asked ────────────────────────────────────────────────
NOT_HELD_OUT = (
    "p-values are counted over rows that were held out, and this detector held out none: its limits come "
    "from `contamination` or limits='approximate', or an earlier version of mercer saved it. Fit it with "
    "limits='cross-validation' and without `contamination`."
)

LAGGED = "detector.predict(X.compute()): this detector looks back, and rows on workers have no past"
# Rows that are explained are read one by one, by a person.
LOOK = "detector.predict(X) to judge them where they are, and pass the rows to look into, X[...].compute()"


def spread_out(found: Array, whole: Flags, fill: float) -> Array:  # (m, …), (b,) -> (b, …)
    """What was found of rows with a whole history, in its place; nothing is known of the others."""
    if whole.all():
        return found
    out = np.full((len(whole), *found.shape[1:]), fill, dtype=found.dtype)
    out[whole] = found
    return out


class Answers(Memory, Public):
    """What a fitted detector is asked about rows: scikit-learn's questions, T², Q, p-values and blame."""

    # What it has after its fit: the schema of the model file is read off these lines.
    model_: Projector
    limits_: Limits
    offset_: float
    center_: Annotated[Array, "d"]
    spread_: Annotated[Array, "d"]
    baselines_: Annotated[Array, "m d"]
    set_aside_: Annotated[Array, "c 3"]
    dynamics_: Dynamics
    n_features_in_: int
    _scale: Scale
    _rule: Rule
    _gauge: Gauge
    _baselines: Baselines
    _calibration: Calibration | None
    _sensors: Sensors | None
    _known: KnownEvents | None
    _lineage: tuple[Generation, ...]
    _dtype: np.dtype[Any]

    def predict(self, X: Any, time: Any = None) -> Array:
        """1 for rows that look normal, -1 for those that don't.

        Parameters
        ----------
        X : array-like of shape (b, d), or a source of rows
        time : array-like of shape (b,), optional
            As in `fit`. With ``lags`` or ``smoothing``, rows that have too few others before them since the
            last gap are 1 here and NaN in the other answers.

        Returns
        -------
        labels : ndarray of shape (b,), of integers
            Of a dask array or data frame a dask array, as from the next two methods: it is computed, chunk by
            chunk and where the rows are, when it is asked for.
        """
        return self._asked("predict", X, time)

    def score_samples(self, X: Any, time: Any = None) -> Array:
        """How normal each row is: minus the index, so that more is more normal.

        Parameters
        ----------
        X, time
            As in `predict`.

        Returns
        -------
        scores : ndarray of shape (b,)
            At most 0; -∞ for a row so far out that its statistics can't be computed.
        """
        return self._asked("score_samples", X, time)

    def decision_function(self, X: Any, time: Any = None) -> Array:
        """Below zero for outliers.

        Parameters
        ----------
        X, time
            As in `predict`.

        Returns
        -------
        scores : ndarray of shape (b,)
            ``score_samples(X) - offset_``.
        """
        return self._asked("decision_function", X, time)

    def statistics(self, X: Any, time: Any = None) -> Table:
        """T², Q and the index of each row.

        Parameters
        ----------
        X, time
            As in `predict`.

        Returns
        -------
        table : Table
            Columns ``T2``, ``Q`` and ``index``; ``limits_`` has their limits. Of a dask array or data frame
            a dask array of shape (b, 3), its columns in this order.
        """
        found: Any = self._asked("statistics", X, time)
        if dask_kind(X) is not None:
            return found
        return Table(dict(zip(("T2", "Q", "index"), found.T, strict=True)))

    def p_values(self, X: Any, time: Any = None) -> Array:
        """How often a normal row lies at least as far out as each row, counted over rows held out.

        A conformal p-value (Vovk et al. 2005): (1 + rows held out with an index at least as large)/(1 + rows
        held out). Of new normal rows about a share α has a p-value of at most α; outliers of `predict` have
        at most ``limits_.rate``. Where that rate is too small for so few rows, the χ² distribution that sets
        the limit counts too. P-values of rows in time are each right, but not independent.

        Parameters
        ----------
        X, time
            As in `predict`.

        Returns
        -------
        p_values : ndarray of shape (b,)
            In (0, 1]; of a dask array or data frame a dask array.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelPCADetector
        >>> rows = np.random.default_rng(0).standard_normal((400, 3))
        >>> detector = KernelPCADetector(n_components=2, false_alarm=0.05).fit(rows)
        >>> (detector.p_values([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0]]) <= 0.05).tolist()
        [False, True]
        """
        check_is_fitted(self)
        if vars(self).get("_calibration") is None:
            raise InputError(NOT_HELD_OUT)
        return self._asked("p_values", X, time)

    # ── which variables a row differs in ────────────────────────────────────
    def contributions(self, X: Any, statistic: Statistic | None = None, time: Any = None) -> Array:
        """What each variable adds to a statistic: integrated gradients from a normal row to the row.

        That is the nearest of ``baselines_``. They sum to the statistic of the row less that of its baseline,
        and don't depend on the units of the variables; for linear PCA they are the complete decomposition
        x_d (Mx)_d. Some may be negative; those of a row with infinite statistics are NaN.

        Parameters
        ----------
        X : array-like of shape (b, d), or a source of rows
        statistic : "T2", "Q" or "combined", optional
            ``"combined"`` is the statistic that is the larger in units of its limit, row by row, in these
            units. By default the one that the detector goes by.
        time : array-like of shape (b,), optional
            As in `predict`.

        Returns
        -------
        contributions : ndarray of shape (b, d)
        """
        return self.lag_contributions(X, statistic, time).sum(axis=1)

    def lag_contributions(
        self, X: Any, statistic: Statistic | None = None, time: Any = None
    ) -> Array:
        """What each variable adds to a statistic now, and did a row before, and so on.

        Parameters
        ----------
        X, statistic, time
            As in `contributions`; rows in the order of time.

        Returns
        -------
        contributions : ndarray of shape (b, l + 1, d)
            By row, lag and variable; their sum over lags is `contributions`. Rows that have too few before
            them have NaN.
        """
        rows, whole = self._scaled(X, time)
        which = self._rule.statistic if statistic is None else statistic
        require("statistic", which, OneOf(STATISTICS))
        need_slopes(self._kernel)
        found, gap = self._baselines.explain(self._gauge, self.limits_, rows, which)
        warn_incomplete(gap)
        return spread_out(self._past.folded(self._judge.own(found)), whole, np.nan)

    # ── how ─────────────────────────────────────────────────────────────────
    def _asked(self, name: str, X: Any, time: Any) -> Array:
        """What the judge says of new rows: of a dask collection a dask array, which is lazy."""
        check_is_fitted(self)
        if dask_kind(X) is not None:
            if not self._past.static:
                refuse_dask(X, LAGGED)
            return lazy_verdicts(self, X, self._judge, name)
        rows, whole = self._scaled(X, time)
        found: Array = getattr(self._judge, name)(self._gauge(rows))
        return spread_out(found, whole, 1 if name == "predict" else np.nan)

    @property
    def _judge(self) -> Judge:
        return Judge(
            self._gauge,
            self._scale,
            self._rule,
            self.limits_,
            self._kernel,
            self.offset_,
            self._dtype,
            vars(self).get("_calibration"),
        )

    def _scaled(self, X: Any, time: Any) -> tuple[Array, Flags]:
        """New rows as the model takes them, with those before them, and which rows have these."""
        if not self._past.static:  # else nothing needs times, for which a file is read again
            time = times_of(X, time, gaps=True)
        rows, whole = self._with_past(self._read(X), time)
        return self._judge.scaled(rows), whole

    def _rows(self, X: Any) -> Array:
        return self._scaled(X, None)[0]

    def _read(self, X: Any, *, gaps: bool = False) -> Array:
        """New rows: checked, and in memory; with ``gaps``, missing cells may be among them."""
        check_is_fitted(self)
        refuse_dask(X, LOOK)
        if gaps and isinstance(X, np.memmap):
            X = np.asarray(X)  # a source would be read block by block, and refused at the first NaN
        # A reading that float32 can't hold is an alarm like others, and no reason to judge no row.
        rows: Rows = new_rows(self, X, self._dtype, clip=True, gaps=gaps)
        if isinstance(rows, RowSource):
            rows = in_memory(rows).astype(self._dtype, copy=False)
        refuse_sparse(rows)
        return rows

    @property
    def _kernel(self) -> Kernel | None:
        return getattr(self.model_, "kernel_", None)
