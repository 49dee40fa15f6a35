"""Is this row normal? T² and Q of a kernel PCA, with limits that hold on new rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from mercer._core.memory import Memory
from mercer._core.public import public
from mercer._core.types import Array, Indices
from mercer.engine.moments import Scale
from mercer.estimators.base import Saving
from mercer.estimators.detector_fit import (
    Normal,
    check_folds,
    chosen_model,
    found_limits,
    model_with_limits,
)
from mercer.estimators.detector_lags import Remembered, check_past, times_of
from mercer.estimators.detector_live import Watching
from mercer.estimators.detector_rows import learnt_rows
from mercer.estimators.form import DETECTOR, Form
from mercer.estimators.input import remember
from mercer.estimators.parameters import ApproximationLike, EngineLike, KernelLike, Seed
from mercer.kernels.names import is_positive_only
from mercer.monitoring.alarms import Gaps, with_onsets
from mercer.monitoring.clock import warn_backwards, warn_unread
from mercer.monitoring.contributions import Baselines, has_slopes, warn_incomplete
from mercer.monitoring.limits import Calibration, LimitsFrom, Rule, Wild, warn_blind
from mercer.monitoring.report import Monitoring, check_top, named_columns, report
from mercer.monitoring.rows import made, scale_of
from mercer.monitoring.sensors import Sensors
from mercer.monitoring.set_aside import listed, noted, warn_still, without_wild
from mercer.monitoring.slowness import with_confidence
from mercer.monitoring.statistics import Gauge, Statistic


@public
@dataclass(eq=False, repr=False)
class KernelPCADetector(Form, Saving, Watching, OutlierMixin, BaseEstimator):  # type: ignore[misc]
    """Finds rows that are unlike the training rows, and says which variables they differ in.

    T² = Σ_j s_j²/v_j is how far out a row lies along the kept components of a kernel PCA, whose scores have
    the variances v_j = λ_j/(n - 1); Q (or SPE) is its squared distance from them in feature space. The index
    is the larger of the two, each in units of its limit; a row whose index is above its limit is an outlier,
    or an alarm. Limits come from training rows, by default held out: in-sample, T² and Q are optimistic, and
    limits read off them make many false alarms.

    Parameters
    ----------
    n_components : int, float or None, default=0.99
        As in `KernelPCA`. Components left out are what Q is made of. A share of the variance is kept by no
        more components than limits can hold for, one for each three rows that are left when a fold is held
        out (five, for ``limits="approximate"``); a warning and ``limits_`` say so.
    kernel : str, Kernel or callable, default="auto"
        As in `KernelPCA`; ``"auto"`` is an `RBF` whose σ is sixteen times the median distance, which is
        nearly linear: safe, but blind to curves. ``"rbf"`` (one median distance) sees them, and takes the
        rows that it has seen for all there is of normal.
    approximation : str, Approximation or None, default=None
        As in `KernelPCA`.
    model : KernelPCA, PCA, IncrementalKernelPCA or None, default=None
        A model to clone and fit, in place of the parameters above, ``memory`` and ``engine``.
    scale : bool, default=True
        Whether columns are brought to mean 0 and standard deviation 1 of the training rows. Columns that
        never change are only centred, with a warning.
    statistic : "combined", "T2" or "Q", default="combined"
        What `predict`, `decision_function`, `score_samples` and alarms go by.
    limits : "cross-validation" or "approximate", default="cross-validation"
        From rows held out; or T² by the F and Q by Box's χ² distribution, for many Gaussian rows.
    false_alarm : float, optional
        Share of new normal rows that may be called outliers; 0.01, unless ``contamination`` sets the limits.
    contamination : float, optional
        In (0, 0.5): share of the *training* rows that are not normal, and that lie above the limits.
    confidence : float, optional
        In (0.5, 1): how sure the rate of false alarms is to hold. Limits are raised to where they would be in
        that share of bootstraps of held-out rows, in blocks that keep the spells of a slow process whole.
    folds : int or splitter, default=5
        For the limits. A number makes that many stretches of neighbouring rows, with gaps on either side as
        wide as their autocorrelation asks for. For rows in no order, a splitter: ``KFold(5, shuffle=True)``.
    wild : "aside" or "keep", default="aside"
        Whether training rows with a wild reading are set aside, with a warning that names row, column and
        reading. It is far beyond all others of its column, alone or in a stretch that no other column shows,
        and would set the scale and hide changes.
    lags : int or "auto", default=0
        Earlier rows to judge beside each row, for a process whose sensors depend on their past. ``"auto"``
        takes as many as still lower the error of predicting rows held out, which ``limits_`` says.
    differences : bool, default=False
        Whether the past is written as differences from row to row, each in its own spread.
    smoothing : float, optional
        In (0, 1): the weight of the newest row in an exponentially weighted mean that is judged in its place.
        Small changes that stay add up in it, and are seen a few rows later.
    memory, engine, random_state
        As in `KernelPCA`.

    Attributes
    ----------
    model_ : Projector
        The fitted model, of scaled rows.
    limits_ : Limits
        Limits of T², Q and the index. Print it.
    offset_ : float
        ``decision_function(X) == score_samples(X) - offset_``.
    center_, spread_ : ndarray of shape (d,)
        Mean and standard deviation of the training columns (with ``lags``, the d(l + 1) of lagged rows): 0
        for the spread of a column that never changes; 0 and 1 without ``scale``.
    set_aside_ : ndarray of shape (m, 3)
        Row, column and reading of each wild cell in the training rows that were set aside.
    baselines_ : ndarray of shape (m, d)
        Scaled rows that `contributions` start from: the training mean where it is normal, or else the nearest
        of up to 500 normal training rows.
    dynamics_ : Dynamics
        How rows are put beside those before them; its ``lagger()`` does it for rows that arrive.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    mercer.pyod.KernelPCADetector : The same with PyOD's conventions.
    mercer.plots.control_charts : T² and Q over time.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCADetector
    >>> rng = np.random.default_rng(0)
    >>> normal = rng.standard_normal((300, 2)) @ [[1.0, 0.9, 0.5], [0.0, 0.4, 1.0]]
    >>> normal += 0.1 * rng.standard_normal((300, 3))
    >>> detector = KernelPCADetector().fit(normal)
    >>> detector.predict([[0.0, 0.0, 0.0], [2.0, -2.0, 1.0]])
    array([ 1, -1])
    >>> detector.monitor([[0.0, 0.0, 0.0], [1.0, 3.0, 0.5]], names=["a", "b", "c"]).alarms["top"]
    array(['b 100 %'], dtype=object)
    """

    _advice = DETECTOR

    n_components: int | float | None = 0.99
    _: KW_ONLY
    kernel: KernelLike = "auto"
    approximation: ApproximationLike = None
    model: Any = None
    scale: bool = True
    statistic: Statistic = "combined"
    limits: LimitsFrom = "cross-validation"
    false_alarm: float | None = None
    contamination: float | None = None
    confidence: float | None = None
    folds: Any = 5
    wild: Wild = "aside"
    lags: int | Literal["auto"] = 0
    differences: bool = False
    smoothing: float | None = None
    memory: Memory = "auto"
    engine: EngineLike = "auto"
    random_state: Seed = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kernel = self.kernel if self.model is None else getattr(self.model, "kernel", None)
        tags.input_tags.positive_only = not self.scale and is_positive_only(kernel)
        return tags

    # ── fit ─────────────────────────────────────────────────────────────────
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, time: Any = None) -> Self:
        """Learn what is normal.

        Parameters
        ----------
        X : array-like of shape (n, d), or a source of rows, which is read into memory
            Rows of normal operation, in the order of time where they have one. Those of a dask array or
            data frame stay on their workers, of which ``engine`` has a client.
        y : ignored
        sample_weight : array-like of shape (n,), optional
            How often each row counts, in the scale, the model and the limits: 2 is a row that is there twice.
        time : array-like of shape (n,), optional
            When each row was taken, as numbers or dates; otherwise the DatetimeIndex of a data frame, or the
            ids of a table. With ``lags`` or ``smoothing``, a gap begins a new history.

        Returns
        -------
        self
        """
        del y
        rule = Rule.of(self)
        check_folds(self.folds)
        check_past(self)
        data, read, engine = learnt_rows(self, X, sample_weight)
        of = data.rows if hasattr(data.rows, "columns") else X  # a table, or a frame
        names = getattr(of, "columns", None)
        rows, weights, aside, stretched = without_wild(read, names, keep=self.wild == "keep")
        if self.lags or self.smoothing:  # else nothing needs times, for which a file is read again
            time = times_of(X, time)
        past = Remembered.of(self, read, rows, aside=aside, names=names, time=time)
        sensors = Sensors.of(engine, rows)
        rows, columns = past.rows, past.columns
        scale = scale_of(engine, rows, weights=weights) if self.scale else Scale.none(rows)
        scaled = made(rows, scale)
        model = chosen_model(self, scaled, weights, columns).fit(scaled, sample_weight=weights)
        normal = Normal(rows, weights, scale, self.scale, columns, scaled, engine, past.overlap)
        model, capped = model_with_limits(rule, model, normal, self.folds)
        limits, held = found_limits(rule, model, normal, self.folds)
        if held is not None:
            limits = with_confidence(limits, rule, held, self.confidence)
        limits = noted(limits, aside, read.n, capped, past.how.in_words())
        warn_still(past.sensors(scale.still), names)
        gauge, kernel = Gauge.of(model.fit_), getattr(model, "kernel_", None)
        far = gauge.nowhere(scaled) if kernel is not None and kernel.tree().vanishes else None
        warn_blind(rule, limits, far, listed(stretched, names))
        limits = rule.joint(limits)  # one limit for each statistic: where alarms begin
        baselines = Baselines.of(gauge, rule, limits, scaled, weights)
        # Only now, with everything done, does the estimator change.
        remember(self, X, data.rows)
        self.dynamics_ = past.how
        self.model_, self.limits_, self._scale, self._rule = model, limits, scale, rule
        self._baselines, self.baselines_ = baselines, baselines.rows
        self._gauge, self._dtype = gauge, np.dtype(rows.dtype)
        self.center_, self.spread_ = scale.mean, scale.spread
        self.set_aside_, self.offset_ = aside, -rule.limit(limits)
        self._sensors, self._known, self._lineage = sensors, None, ()
        self._calibration = None if held is None else Calibration.of(rule, limits, held)
        return self

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, time: Any = None
    ) -> Array:
        """`fit`, and `predict` of the same rows.

        Parameters
        ----------
        X, y, sample_weight, time
            As in `fit`.

        Returns
        -------
        labels : ndarray of shape (n,), of 1 and -1
            As from `predict`.
        """
        return self.fit(X, y, sample_weight, time).predict(X, time)

    # ── an engineer's questions ─────────────────────────────────────────────
    def monitor(
        self,
        X: Any,
        time: Any = None,
        names: Any = None,
        top: int = 3,
        explain: Literal["alarms", "all"] = "alarms",
    ) -> Monitoring:
        """A report on rows of a process: statistics, limits, alarms and the variables behind them.

        A row with a missing cell (NaN) is marked and not judged. An infinite reading counts as the largest
        number there is. `predict` and the other answers refuse both, as scikit-learn does.

        Parameters
        ----------
        X : array-like of shape (b, d), or a source of rows
            In the order of time. A source that is not an array in memory must not lack a cell.
        time : array-like of shape (b,), optional
            As in `fit`; where there are no times, rows are counted from 0.
        names : sequence of d strings, optional
            Names of the variables; those of the data frame that `fit` saw, or ``x0``, ``x1``, … otherwise.
        top : int, default=3
            How many variables to name for a row, those with the largest contributions.
        explain : "alarms" or "all", default="alarms"
            Which rows to name them for.

        Returns
        -------
        monitoring : Monitoring
            Print it, or draw it with ``.plot()``.
        """
        check_is_fitted(self)
        named = named_columns(names, getattr(self, "feature_names_in_", None), self.n_features_in_)
        every = self._read(X, gaps=True)  # (b, d)
        if np.isinf(every).any():  # the largest number there is
            every = np.nan_to_num(every, nan=np.nan)
        time = times_of(X, time, gaps=True)
        if self._past.static:
            warn_backwards(time, len(every))
            warn_unread(time, len(every))
        rows, judged = self._with_past(every, time)
        gaps = Gaps.of(every)
        gaps = replace(gaps, judged=judged, short=int(gaps.judged.sum() - judged.sum()))
        gaps.require_some(named)
        rows = self._judge.scaled(rows)  # those that can be judged, (m, D)
        found = self._gauge.steady(rows)  # to the bit as `stream` judges them
        wanted = check_top(top, explain, len(named))
        alarm = ~(self._judge.index(found) <= -self.offset_)  # NaN is not normal
        asked = np.flatnonzero(alarm) if explain == "alarms" else np.arange(len(alarm))
        shares = None
        if wanted and has_slopes(self._kernel):
            shares, gap = self._baselines.explain_within_reach(
                self._gauge, self.limits_, rows[asked], self._rule.statistic
            )
            warn_incomplete(gap)
            shares = self._past.folded(shares).sum(axis=1)
        seen = report(
            found,
            self._rule,
            self._rule.joint(self.limits_),
            alarm=alarm,
            gaps=gaps,
            time=time,
            names=named,
            explained=asked,
            contributions=shares,
            top=wanted,
        )
        place = np.cumsum(gaps.judged) - 1  # among the rows that were judged
        return self._with_onsets(seen, lambda at: rows[place[at]]) if wanted else seen

    def _with_onsets(self, seen: Monitoring, take: Callable[[Indices], Array]) -> Monitoring:
        index, base = self._judge.index, self._baselines
        measure = base.measure(lambda x: index(self._gauge(x)))
        return with_onsets(seen, base, measure, take, self._past.ways(self._scale.unit))
