"""A detector that watches: streams of rows, events, faults that have a name, and drifts.

Rows of a drift are taken in blocks. Each block is judged by the model of the rows before it, and then
learned: so every statistic is that of a row held out, and limits come from them as those of a fit do, with
older rows counting less. Rows far beyond the limit are not learned, or a fault would become normal.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mercer._core.errors import DetectorWarning, InputError, ParameterError, refuse
from mercer._core.findings import warn
from mercer._core.params import Number, Whole, require
from mercer._core.types import Array, Flags
from mercer._core.wording import Message
from mercer.estimators.detector_lags import times_of
from mercer.estimators.detector_rows import Answers
from mercer.estimators.incremental import IncrementalKernelPCA
from mercer.monitoring.alarm_rule import AlarmRule
from mercer.monitoring.clock import require_pace, require_turns
from mercer.monitoring.contributions import Baselines
from mercer.monitoring.events import Event
from mercer.monitoring.judge import LiveStream
from mercer.monitoring.lags import of_rows
from mercer.monitoring.library import Course, KnownEvents
from mercer.monitoring.limits import FEW_ABOVE, Calibration, held_out_limits
from mercer.monitoring.lineage import Generation, fingerprint
from mercer.monitoring.report import named_columns
from mercer.monitoring.statistics import Gauge, Statistics
from mercer.operators.sections import KernelSections

PUSHED = 4096  # rows that a stream is handed at a time
BLOCK = 100  # rows that are judged by one model, before they are learned
LANDMARKS = 500
MOST_FAULTY = 0.5  # share of the rows in events beyond which nothing is learned
TOL = 1e-8  # what Q is made of has to be in the dictionary too


class Watching(Answers):
    """What a fitted detector does with rows that arrive."""

    def stream(
        self,
        names: Sequence[str] | None = None,
        *,
        rule: AlarmRule | None = None,
        top: int = 3,
        state: dict[str, Any] | None = None,
    ) -> LiveStream:
        """Judge rows when they arrive, one by one or in blocks, to the bit as `monitor` does.

        Parameters
        ----------
        names : sequence of d strings, optional
            Names of the variables, as in `monitor`.
        rule : AlarmRule, optional
            What makes an event of alarms; 3 of 5 rows by default.
        top : int, default=3
            How many variables to name for an alarm; 0 names none, and is quicker.
        state : dict, optional
            What `LiveStream.state` gave, to go on from there.

        Returns
        -------
        stream : LiveStream

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelPCADetector
        >>> detector = KernelPCADetector().fit(np.random.default_rng(0).standard_normal((300, 4)))
        >>> stream = detector.stream(names=["flow", "heat", "level", "power"])
        >>> stream.push([0.1, -0.2, 0.0, 0.3], time="10:00").alarm
        False
        >>> verdict = stream.push([7.0, None, 0.2, 0.1], time="10:01")
        >>> verdict.judged, verdict.alarm, verdict.marks
        (False, True, (('missing', 'heat'),))
        """
        check_is_fitted(self)
        rule = AlarmRule() if rule is None else rule
        if not isinstance(rule, AlarmRule):
            must_be = "an AlarmRule, such as AlarmRule(3, 5) for 3 of 5 rows"
            raise ParameterError.about(parameter="rule", value=rule, must_be=must_be)
        fitted_names = getattr(self, "feature_names_in_", None)
        found = LiveStream(
            self._judge,  # type: ignore[arg-type]  # frozen, which a protocol's attributes are not
            self._baselines,
            names=named_columns(names, fitted_names, self.n_features_in_),
            rule=rule,
            top=int(require("top", top, Whole(0))),
            sensors=vars(self).get("_sensors"),
            known=self.known_events_,
            lagger=None if self._past.static else self._past.lagger(),
            ways=self._past.ways(self._scale.unit),
        )
        if state is not None:
            found.restore(state)
        return found

    def events(
        self,
        X: Any,
        time: Any = None,
        names: Sequence[str] | None = None,
        rule: AlarmRule | None = None,
    ) -> list[Event]:
        """The events in rows of a process: alarms that belong together, and what led them.

        Parameters
        ----------
        X : array-like of shape (b, d)
            In the order of time. Cells may be missing.
        time : array-like of shape (b,), optional
            As in `monitor`. Rows that are older than the one before, or of the same time, stay outside of
            events, and are refused where they are more than half of all. What is neither number nor date
            says nothing.
        names, rule
            As in `stream`.

        Returns
        -------
        events : list of Event
            One that lasts to the last row ends there.
        """
        stream, found, rows = self.stream(names, rule=rule), [], np.asarray(X)
        time = times_of(X, time, gaps=True)
        if time is not None:
            of_rows(time, len(rows))
            time = np.asarray(time)
        if not self._past.static:
            require_pace(time, len(rows), self._past)
        for start in range(0, len(rows), PUSHED):
            part = slice(start, start + PUSHED)
            verdicts = stream.push_many(rows[part], None if time is None else list(time[part]))
            found += [verdict.ended for verdict in verdicts if verdict.ended is not None]
        require_turns(stream.counts, len(rows))
        return [*found, *stream.close()]

    def learn_event(self, name: str, X: Any, time: Any = None) -> Any:
        """Remember what a fault looks like, so that another like it is named.

        `save` keeps it in the model file. An event of the same name is learned anew.

        Parameters
        ----------
        name : str
            Such as "cooling water".
        X, time
            As in `fit`: rows of the fault; those before its first alarm don't matter.

        Returns
        -------
        self
        """
        if not isinstance(name, str) or not name.strip():
            refuse("name", name, "a name of the event, such as 'cooling water'")
        found = self.events(X, time) or self.events(X, time, rule=AlarmRule(1, 1))
        courses = (event.course for event in found)
        course = reduce(Course.joined, courses, Course.empty(self.n_features_in_))
        if not np.any(course.parts):
            msg = (
                f"Nothing can be learned of {name!r}: none of its rows is an alarm that can be explained. "
                "Give rows in which the fault shows, to a detector whose kernel has a derivative."
            )
            raise InputError(msg)
        self._known = self.known_events_.learned(name.strip(), course)
        return self

    def updated(
        self,
        X: Any,
        time: Any = None,
        *,
        memory: int = 2000,
        guard: float = 3.0,
        why: str = "",
        keep_faults: bool = False,
    ) -> Any:
        """A new detector that has followed a drift through these rows; this one stays as it is.

        Parameters
        ----------
        X, time
            As in `fit`: the latest rows. Those that lack a cell are left out.
        memory : int, default=2000
            Rows that count, or so: the weight of a row falls by 1/memory with each that follows.
        guard : float, default=3.0
            Times the limit beyond which a row is taken for a fault, and not learned.
        why : str, default=""
            A remark for ``lineage_``.
        keep_faults : bool, default=False
            Whether to learn rows in events whose kind is "fault" too. Otherwise they are left out, from the
            first alarm of each to the last, with a warning that counts them, and refused where they are more
            than half of all: a fault is not to become normal.

        Returns
        -------
        detector : KernelPCADetector
            With an `IncrementalKernelPCA`, limits from rows that were judged before they were learned, ranges
            of sensors that have followed them, and one more entry in ``lineage_``.
        """
        require("memory", memory, Whole(2))
        require("guard", guard, Number(1))
        read = self._read(X, gaps=True)
        time = times_of(X, time, gaps=True)
        lagged, whole = self._with_past(read, time)
        given = int(whole.sum())
        events = self.events(read, time)  # which looks at the times too
        if not keep_faults:
            faulty = _in_faults(events, len(read))
            _report_left_out(int(np.sum(faulty & whole)), given)
            lagged, whole = lagged[~faulty[whole]], whole & ~faulty
        drift = _Drift(self, int(memory), float(guard))
        seen = drift.take(self._judge.scaled(lagged))
        new: Any = copy(self)
        rule, limits = self._rule, drift.limits
        new.model, new.model_ = clone(drift.model), drift.model
        new._gauge = Gauge.of(drift.model.fit_)
        new.limits_, new.offset_ = limits, -rule.limit(limits)
        learned = np.concatenate(drift.normal)
        new._baselines = Baselines.of(new._gauge, rule, limits, learned[-drift.memory :])
        new.baselines_ = new._baselines.rows
        if limits is not self.limits_:
            new._calibration = Calibration.of(rule, limits, seen)
        if (sensors := vars(self).get("_sensors")) is not None:  # None in older versions
            new._sensors = sensors.followed(read[whole][np.concatenate(drift.kept)], drift.memory)
        made = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        step = Generation(made, self.fingerprint_, given, len(learned), drift.memory, str(why))
        new._lineage = (*self.lineage_, step)
        return new

    @property
    def lineage_(self) -> tuple[Generation, ...]:
        """Its updates, the first one first; nothing for one that was fitted and never updated."""
        return vars(self).get("_lineage") or ()

    @property
    def fingerprint_(self) -> str:
        """Twelve digits that identify it: the ``parent`` of detectors that are made from it."""
        return fingerprint(self._gauge, self.limits_)

    @property
    def known_events_(self) -> KnownEvents:
        """The faults that have a name, from `learn_event`."""
        return vars(self).get("_known") or KnownEvents.none(self.n_features_in_)


# ── drifts ──────────────────────────────────────────────────────────────────
class _Drift:
    """The model of a detector, and its limits, while rows go by."""

    def __init__(self, detector: Watching, memory: int, guard: float) -> None:
        self.model, self.rule = _recursive(detector, memory), detector._rule
        self.limits, self.memory = detector.limits_, memory
        self.guard = guard  # a drift takes a process a little over its limit, a fault far beyond
        self.seen: Statistics | None = None
        self.normal: list[Array] = []  # blocks of rows that were learned
        self.kept: list[Flags] = []  # which rows of each block were

    def take(self, rows: Array) -> Statistics:  # (n, D), scaled
        """Judge and learn rows, block by block: what was seen, with the weight of each by now."""
        for start in range(0, len(rows), BLOCK):
            self._take(rows[start : start + BLOCK])
        if len(rows) == 0:
            msg = "Nothing was learned: every row lacks a reading. Give rows that are complete."
            raise InputError(msg)
        if self.seen is None:
            msg = (
                f"Nothing was learned: all of {len(rows)} rows are more than {self.guard:g} times the limit "
                "out. If they are normal, fit a new detector to them."
            )
            raise InputError(msg)
        return self.seen

    def _take(self, rows: Array) -> None:  # (b, D)
        """Judge a block, learn what is normal enough, and set the limits anew."""
        gauge = Gauge.of(self.model.fit_)
        found = gauge(rows)
        index = self.rule.index(self.limits, found) / self.rule.limit(self.limits)
        kept = np.asarray(index <= self.guard)
        self.kept.append(kept)
        if not kept.any():
            return
        count = int(kept.sum())
        self.model.partial_fit(rows[kept])
        self.normal.append(rows[kept])
        fresh = Statistics(found.t2[kept], found.q[kept], np.ones(count))
        self.seen = (
            fresh if self.seen is None else Statistics.joined([self._aged(self.seen, count), fresh])
        )
        if self.seen.count * self.rule.rate >= FEW_ABOVE:
            limits = held_out_limits(self.seen, self.rule.rate, rounding=gauge.rounding)
            self.limits = self.rule.joint(limits)

    def _aged(self, seen: Statistics, rows: int) -> Statistics:
        """What was seen, with the weights that are left; what hardly counts any more is let go."""
        assert seen.weights is not None
        weights = seen.weights * (1.0 - 1.0 / self.memory) ** rows
        still = weights > 1e-3
        return Statistics(seen.t2[still], seen.q[still], weights[still])


def _in_faults(events: list[Event], n: int) -> Flags:  # (n,)
    """Which of n rows lie in a fault, from its first alarm to its last; a drift is what is to be learned."""
    faulty = np.zeros(n, dtype=bool)
    for event in events:
        if event.kind == "fault":
            faulty[event.first : event.last + 1] = True
    return faulty


def _report_left_out(left: int, of: int) -> None:
    """Warn of rows that are not learned, or refuse where they are most."""
    share = f"{left} of {of} rows are in events of the detector"
    if left > MOST_FAULTY * of:
        msg = Message(
            f"Nothing was learned: {share}, too many to take the others for normal. Give rows of normal "
            "operation; if these are, set {keep_faults}."
        )
        raise InputError(msg)
    if left:
        msg = Message(f"{share} and were not learned. If they are normal, set {{keep_faults}}.")
        warn(msg, DetectorWarning, "faults", {"left_out": left, "of": of})


def _recursive(detector: Any, memory: int) -> IncrementalKernelPCA:
    """The model of a detector as one that goes on, with rows that are forgotten."""
    fitted, forgetting = detector.model_, 1.0 - 1.0 / memory
    if isinstance(fitted, IncrementalKernelPCA):
        return deepcopy(fitted).set_params(forgetting=forgetting)
    sections = detector._gauge.space.projection.sections
    rough = getattr(fitted, "approximation", None) is not None
    if rough or not isinstance(sections, KernelSections):
        msg = (
            "An update needs a model that keeps its rows or their sums: an exact kernel PCA, which is the "
            f"default, or `model=IncrementalKernelPCA(...)`; got a {type(fitted).__name__}. Fit a new "
            "detector."
        )
        raise InputError(msg)
    k, kernel, seed = int(fitted.n_components_), fitted.kernel_, detector.random_state
    most = max(LANDMARKS, 2 * k)
    model = IncrementalKernelPCA(
        k, kernel=kernel, max_landmarks=most, tol=TOL, forgetting=forgetting, random_state=seed
    )
    return model.partial_fit(np.asarray(sections.points, dtype=np.float64))
