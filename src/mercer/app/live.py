"""Rows of a process judged as they arrive: from lines to verdicts, events, metrics and a saved state."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from mercer._core.atomic import replacing
from mercer._core.errors import close_to, refuse_data
from mercer.app.live_output import EventLog, Metrics, RowSink
from mercer.app.live_unit import News, Row, Unit, loaded, unit_key, unit_names, whole
from mercer.app.monitor import OfProcess, named_by_time
from mercer.app.outcome import Request, Run, refuse
from mercer.app.rows import Opened, check_output, open_detector, require_different
from mercer.app.shadow import require_another
from mercer.monitoring.alarm_rule import AlarmRule
from mercer.monitoring.clock import require_turns, rows_before

LOGS = ("output", "events", "shadow_events")  # files that grow
SAVE_SECONDS = 2.0  # between two writings of the state and the metrics


@dataclass(frozen=True, kw_only=True)
class LiveRequest(OfProcess, Request["Watched"]):
    """Judge rows as they arrive, by the detector in a model file.

    Parameters
    ----------
    data : str
        A CSV file, or ``-``: the standard input.
    more : tuple of str
        Files of further units, each with alarms and events of its own.
    time, top : as in `MonitorRequest`
    follow : bool
        Whether to wait for rows that are written later, and for files that replace these.
    state : str, optional
        A file to go on from, and to keep up to date.
    events, metrics : str, optional
        A file for a JSON line each time an event is raised or over; a file for Prometheus, or ``:PORT``,
        which answers on this machine alone.
    output : str, optional
        A file for the table; ``emit`` gets its lines otherwise.
    emit : callable, optional
        Gets lines of the table.
    marks : bool
        Whether the table says what is wrong with rows, and which event they belong to.
    rule : AlarmRule
        What makes an event of alarms.
    shelve : tuple of (variable, rows)
        Events that begin with a variable, or any for "", are recorded and not announced for so many rows.
    shadow : str, optional
        A model file whose detector judges the rows too: it is compared, and decides nothing.
    shadow_events : str, optional
        A file for the events of that one.
    precision : {"ns", "us", "ms", "s"}, optional
        The unit of times in InfluxDB line protocol.
    stop : threading.Event, optional
        Set it to end; SIGTERM and SIGINT do so too, in the main thread.
    """

    more: tuple[str, ...] = ()
    follow: bool = False
    state: str | None = None
    events: str | None = None
    metrics: str | None = None
    marks: bool = False
    rule: AlarmRule = field(default_factory=AlarmRule)
    shelve: tuple[tuple[str, int], ...] = ()
    shadow_events: str | None = None
    precision: str | None = None
    emit: Callable[[str], None] | None = None
    stop: threading.Event | None = None

    def fulfil(self, run: Run) -> Watched:
        """Read, judge and write until the lines end, or a signal asks for an end."""
        named_by_time(run, self.time)
        named = [path for path in (self.model, self.shadow) if path is not None]
        models = tuple(map(open_detector, named))
        found = models[0]
        self._check_outputs()
        before = loaded(self.state)
        paths = (self.data, *self.more)
        sinks = Sinks.of(self, found, before)
        units = [
            Unit.of(self, run, models, path, name=name, before=before)
            for path, name in zip(paths, unit_names(paths), strict=True)
        ]
        for unit, (variable, rows) in product(units, self.shelve):
            if variable and variable not in (known := unit.stream.names):
                near, names = close_to(variable, known), ", ".join(known)
                must_be = f"one of {names}; got {variable!r}. {near or 'Name one of them.'}"
                refuse("The variable of {shelve} must be {must_be}", must_be=must_be)
            unit.shelve(rows, variable)
        with run.timed("monitor"), _ending(self.stop) as stop, sinks.open(units):
            run.insist()  # from here on a signal sets `stop`; what was before must not be lost
            try:
                _Watch(self, run, units, sinks, stop, before).go()
            finally:
                for unit in units:
                    unit.lines.close()
        return Watched.of(units, found.model, stopped=stop.is_set(), models=named)

    def _check_outputs(self) -> None:
        inputs = (self.model, *filter(None, [self.shadow]), self.data, *self.more)
        require_another(self.model, self.shadow)
        if self.shadow is None and self.shadow_events is not None:
            refuse("{shadow_events} needs {shadow}: name the detector whose events it is for.")
        named = {name: getattr(self, name) for name in ("state", *LOGS)}
        if self.metrics is not None and not self.metrics.startswith(":"):
            named["metrics"] = self.metrics
        given = {option: path for option, path in named.items() if path is not None}
        for option, path in given.items():
            check_output(path, inputs, option=option)
        require_different(given.values())


# ── outputs ─────────────────────────────────────────────────────────────────
@dataclass(eq=False)
class Sinks:
    """Everything that is written: rows, events, metrics."""

    rows: RowSink
    events: EventLog
    shadow_events: EventLog
    metrics: Metrics

    @classmethod
    def of(cls, request: LiveRequest, found: Opened, before: dict[str, Any]) -> Sinks:
        """The sinks of a request, cut back to what a state knows of."""
        begins = {option: _begin(request, option, before) for option in LOGS}
        learned = found.preparation
        trained, label = (None, None) if learned is None else (learned.id, learned.label)
        with whole(request.state):
            goes_on = any(own["stream"]["rows"] for own in before.get("units", {}).values())
        rows = RowSink(
            request.output,
            begins["output"],
            emit=request.emit,
            named=request.time or request.reading.id or trained or "time",
            labelled=request.reading.label or label or "label",
            limits=found.model._rule.joint(found.model.limits_),
            has_head=begins["output"] > 0 or (goes_on and request.output is None),
            several=bool(request.more),
            marks=request.marks,
            shadow=request.shadow is not None,
        )
        logs = {option: EventLog(getattr(request, option), begins[option]) for option in LOGS[1:]}
        return cls(rows, metrics=Metrics(request.metrics), **logs)

    @contextmanager
    def open(self, units: Sequence[Unit]) -> Iterator[None]:
        """While rows arrive; metrics first, for a port may be taken."""
        metrics = self.metrics.open({unit.name: unit for unit in units})
        with metrics, self.rows.open(), self.events.open(), self.shadow_events.open():
            yield

    def lengths(self) -> dict[str, Any]:
        """Bytes that are in each file, once they are there."""
        logs = (self.rows, self.events, self.shadow_events)
        found = {option: log.length() for option, log in zip(LOGS, logs, strict=True)}
        return {option: length for option, length in found.items() if length is not None}


def _begin(request: LiveRequest, option: str, before: dict[str, Any]) -> int:
    """Bytes after which an output goes on: those that a state knows, or all of a file that it does not."""
    path = getattr(request, option)
    if path is None or not before or not Path(path).exists():
        return 0
    length = Path(path).stat().st_size
    with whole(request.state):
        known = before["outputs"].get(option)
        if known is not None and known["path"] == os.path.realpath(path):
            return min(int(known["bytes"]), length)
    return length


@dataclass(eq=False)
class _Watch:
    """The loop: read, judge, write, and keep the state."""

    request: LiveRequest
    run: Run
    units: list[Unit]
    sinks: Sinks
    stop: threading.Event
    before: dict[str, Any]
    saved: float = field(default_factory=time.monotonic)

    def go(self) -> None:
        for unit in self.units:
            self._tell(unit, *unit.changed)
        running = list(self.units)
        while running and not self.stop.is_set():
            for unit in running:
                self._take(unit, unit.read())
            running = [unit for unit in running if not unit.lines.ended]
            if time.monotonic() - self.saved >= SAVE_SECONDS:
                self._keep()
        if self.request.state is None and not self.stop.is_set():  # no more rows will come
            for unit in self.units:
                self._take(unit, unit.rest())
                self._tell(unit, *unit.close())
        self._keep()

    def _take(self, unit: Unit, found: list[Row]) -> None:
        for note in unit.reader.notes[unit.said :]:
            self.run.note(note)
        unit.said = len(unit.reader.notes)
        for row in found:
            self.sinks.rows.write(unit.name, row)
            self._tell(unit, *row.news)
        if found:
            self.sinks.rows.flush()

    def _tell(self, unit: Unit, own: News, shadow: News) -> None:
        """Write events down, and say them; those of the shadow go to a file of their own."""
        where = f"{unit.name}: " if len(self.units) > 1 else ""
        for event, status in own:
            self.sinks.events.write(unit.name, event, status)
            if not event.shelved:
                self.run.say(f"{where}{event}", "event", **event.to_dict(), status=status)
        for event, status in shadow:
            self.sinks.shadow_events.write(unit.name, event, status)
            words = f"{where}in the shadow, {event}"
            self.run.say(words, "shadow_event", **event.to_dict(), status=status)

    def _keep(self) -> None:
        """Outputs first, then the state that knows their lengths: a kill between the two loses nothing."""
        self.saved = time.monotonic()
        self.sinks.metrics.write({unit.name: unit for unit in self.units})
        lengths = self.sinks.lengths()
        if self.request.state is None:
            return
        files = {
            option: {"path": os.path.realpath(getattr(self.request, option)), "bytes": length}
            for option, length in lengths.items()
        }
        outputs = self.before.get("outputs", {}) | files
        keys = map(unit_key, (self.request.data, *self.request.more))
        own = {key: unit.state() for key, unit in zip(keys, self.units, strict=True)}
        units = self.before.get("units", {}) | own  # those of other calls go on too
        with replacing(Path(self.request.state)) as file:
            file.write(json.dumps({"outputs": outputs, "units": units}).encode())


# ── ends ────────────────────────────────────────────────────────────────────
@contextmanager
def _ending(given: threading.Event | None) -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set: the row that is being judged is finished, and the state kept."""
    stop = threading.Event() if given is None else given
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    names = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(name, lambda *_: stop.set()) for name in names]
    try:
        yield stop
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)


def _require_judged(counts: list[dict[str, int]], rows: int, detector: Any) -> None:
    """Raise where no row can be judged, or a detector that looks back finds most out of their turn."""
    how = detector._past
    if not how.static:
        for each in counts:
            require_turns(each, each["rows"])
    if sum(each["unjudged"] for each in counts) < rows:
        return
    short = sum(each["short"] for each in counts)
    if not short or not how.lags:
        refuse_data(f"None of {rows} rows can be judged: each lacks a reading.", "See the lines.")
    gaps = sum(each["gaps"] for each in counts)
    why = [(gaps, "after a gap"), (rows - short, "without a reading")]
    found = "".join(f", {n} of them {what}" for n, what in why if n)
    refuse_data(
        f"None of {rows} rows can be judged: none has {rows_before(how.lags)} directly before it{found}.",
        "Give rows at the step of those of the fit, or fit a detector to rows like these.",
    )


@dataclass(frozen=True)
class Watched:
    """What was seen, in numbers: alarms of this call, and whether an event lasts that may be older."""

    facts: dict[str, Any]
    detector: Any
    alarms: int
    lasts: bool
    stopped: bool

    @classmethod
    def of(
        cls, units: list[Unit], detector: Any, *, stopped: bool, models: Sequence[str]
    ) -> Watched:
        """The counts of all units. Without a stop, rows have to be there, and one that can be judged."""
        facts = {unit.name: unit.facts(models) for unit in units}
        rows = sum(unit.stream.rows for unit in units)
        if rows and not stopped:
            _require_judged([unit.stream.counts for unit in units], rows, detector)
        if not rows and not stopped and not any(unit.lines.follow for unit in units):
            refuse_data(
                "There is no row to judge: the lines ended before the first.",
                "Give names, then rows.",
            )
        alarms = sum(own["new_alarms"] for own in facts.values())
        lasts = any(unit.stream.current is not None for unit in units)
        return cls({"units": facts}, detector, alarms, lasts, stopped)
