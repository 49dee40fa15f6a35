"""A detector that watches: streams of rows, events, and the faults that it knows by name."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._core.errors import InputError, ParameterError, refuse
from mercer._core.params import Number, Whole, require
from mercer._core.public import Public
from mercer.estimators.detector_lags import times_of
from mercer.monitoring.alarm_rule import AlarmRule
from mercer.monitoring.clock import require_pace, require_turns
from mercer.monitoring.judge import LiveStream
from mercer.monitoring.lags import STATIC, of_rows
from mercer.monitoring.library import Course, KnownEvents
from mercer.monitoring.report import named_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer.monitoring.contributions import Baselines
    from mercer.monitoring.events import Event
    from mercer.monitoring.lineage import Generation

BLOCK = 4096  # rows at a time


class Watching(Public):
    """What a fitted detector does with rows that arrive."""

    n_features_in_: int
    _baselines: Baselines
    _known: KnownEvents | None

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
        if rule is not None and not isinstance(rule, AlarmRule):
            must_be = "an AlarmRule, such as AlarmRule(3, 5) for 3 of 5 rows"
            raise ParameterError.about(parameter="rule", value=rule, must_be=must_be)
        own: Any = self
        named = named_columns(names, getattr(self, "feature_names_in_", None), self._sensors_count)
        found = LiveStream(
            own._judge,
            self._baselines,
            names=named,
            rule=AlarmRule() if rule is None else rule,
            top=int(require("top", top, Whole(0))),
            sensors=vars(self).get("_sensors"),
            known=self.known_events_,
            lagger=None if own._past.static else own._past.lagger(),
            ways=own._past.ways(own._scale.unit),
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
            Rows that are older than the one before, or of the same time, stay outside of events; where they
            are more than half of all, that is an error. What is neither number nor date says nothing.
        names : sequence of d strings, optional
        rule : AlarmRule, optional
            What makes an event of alarms; 3 of 5 rows by default.

        Returns
        -------
        events : list of Event
            One that lasts to the last row ends there.
        """
        stream, found = self.stream(names, rule=rule), []
        rows, own = np.asarray(X), vars(self).get("dynamics_", STATIC)
        if time is not None:
            of_rows(time, len(rows))
        if not own.static:
            require_pace(time, len(rows), own)
        for start in range(0, len(rows), BLOCK):
            part = slice(start, start + BLOCK)
            times = None if time is None else list(np.asarray(time)[part])
            for verdict in stream.push_many(rows[part], times):
                found += [] if verdict.ended is None else [verdict.ended]
        require_turns(stream.counts, len(rows))
        return [*found, *stream.close()]

    def learn_event(self, name: str, X: Any, time: Any = None) -> Any:
        """Remember what a fault looks like, so that another like it is named.

        `save` keeps it in the model file. An event of the same name is learned anew.

        Parameters
        ----------
        name : str
            Such as "cooling water".
        X : array-like of shape (b, d)
            Rows of the fault, in the order of time; those before its first alarm don't matter.
        time : array-like of shape (b,), optional
            As in `fit`: with ``lags`` or ``smoothing``, a gap begins a new history.

        Returns
        -------
        self
        """
        if not isinstance(name, str) or not name.strip():
            refuse("name", name, "a name of the event, such as 'cooling water'")
        time = times_of(X, time, gaps=True)
        found = self.events(X, time) or self.events(X, time, rule=AlarmRule(1, 1))
        course = reduce(
            Course.joined, (event.course for event in found), Course.empty(self._sensors_count)
        )
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
        X : array-like of shape (b, d)
            The latest rows, in the order of time. Those that lack a cell are left out.
        time : array-like of shape (b,), optional
            As in `fit`: with ``lags`` or ``smoothing``, a gap begins a new history.
        memory : int, default=2000
            Rows that count, or so: the weight of a row falls by 1/memory with each that follows.
        guard : float, default=3.0
            Times the limit beyond which a row is taken for a fault, and not learned.
        why : str, default=""
            A remark for ``lineage_``.
        keep_faults : bool, default=False
            Whether to learn rows in events of this detector whose kind is "fault" too. Otherwise they are
            left out, from the first alarm of each to the last, with a warning that counts them, and refused
            where they are more than half of all: a fault is not to become normal. A drift is learned.

        Returns
        -------
        detector : KernelPCADetector
            With a model that is an `IncrementalKernelPCA`, limits from rows that were judged before they
            were learned, ranges of its sensors that have followed them, and one more entry in ``lineage_``.
        """
        from mercer.estimators.detector_update import in_faults, report_left_out, updated

        require("memory", memory, Whole(2))
        require("guard", guard, Number(1))
        own: Any = self
        read = own._read(X, gaps=True)
        time = times_of(X, time, gaps=True)
        lagged, whole = own._with_past(read, time)
        given = int(whole.sum())
        events = self.events(read, time, rule=AlarmRule())  # which looks at the times too
        if not keep_faults:
            faulty = in_faults(events, len(read))
            report_left_out(int(np.sum(faulty & whole)), given)
            lagged, whole = lagged[~faulty[whole]], whole & ~faulty
        how: dict[str, Any] = {
            "given": given,
            "memory": int(memory),
            "guard": float(guard),
            "why": str(why),
        }
        return updated(self, own._judge.scaled(lagged), read[whole], **how)

    @property
    def lineage_(self) -> tuple[Generation, ...]:
        """Its updates, the first one first; nothing for one that was fitted and never updated."""
        found: tuple[Generation, ...] | None = vars(self).get("_lineage")
        return () if found is None else found

    @property
    def fingerprint_(self) -> str:
        """Twelve digits that tell it from other detectors: the ``parent`` of those that are made from it."""
        from mercer.monitoring.lineage import fingerprint

        own: Any = self
        return fingerprint(own._gauge, own.limits_)

    @property
    def known_events_(self) -> KnownEvents:
        """The faults that it knows by name."""
        found: KnownEvents | None = vars(self).get("_known")
        return KnownEvents.none(self._sensors_count) if found is None else found

    @property
    def _sensors_count(self) -> int:
        return int(self.n_features_in_)
