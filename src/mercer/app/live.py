"""Rows of a process judged as they arrive: from lines to verdicts, events, metrics and a saved state."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer._core.errors import DataError, InputError, MercerError
from mercer.app.files import check_output, replacing
from mercer.app.live_output import EventLog, Metrics, RowSink
from mercer.app.monitor import named_by_time, require_detector
from mercer.app.outcome import Request, Run, refuse
from mercer.app.rows import OfModel, open_model
from mercer.data.lines import Lines
from mercer.monitoring.alarm_rule import AlarmRule
from mercer.preprocessing.lines import LineReader
from mercer.preprocessing.preparation import Preparation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mercer.app.rows import Opened
    from mercer.monitoring.events import Event
    from mercer.monitoring.judge import LiveStream
    from mercer.monitoring.verdict import Verdict

SAVE_SECONDS = 2.0  # between two writings of the state and the metrics


@dataclass(frozen=True, kw_only=True)
class LiveRequest(OfModel, Request["Watched"]):
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
    stop : threading.Event, optional
        Set it to end; SIGTERM and SIGINT do so too, in the main thread.
    """

    more: tuple[str, ...] = ()
    time: str | None = None
    top: int = 3
    follow: bool = False
    state: str | None = None
    events: str | None = None
    metrics: str | None = None
    output: str | None = None
    marks: bool = False
    rule: AlarmRule = field(default_factory=AlarmRule)
    emit: Callable[[str], None] | None = None
    stop: threading.Event | None = None

    def fulfil(self, run: Run) -> Watched:
        """Read, judge and write until the lines end, or a signal asks for an end."""
        named_by_time(run, self.time)
        found = open_model(self.model)
        require_detector(found)
        self._check_outputs()
        before = _loaded(self.state)
        paths = (self.data, *self.more)
        sinks = Sinks.of(self, found, before, several=len(paths) > 1)
        units = [
            Unit.of(self, run, found, path, name=name, before=before)
            for path, name in zip(paths, _unit_names(paths), strict=True)
        ]
        with run.timed("monitor"), _ending(self.stop) as stop, sinks.open():
            run.insist()  # from here on a signal sets `stop`; what was before must not be lost
            watch = _Watch(self, run, units, sinks, stop, before=before)
            try:
                watch.run()
            finally:
                for unit in units:
                    unit.lines.close()
        return Watched.of(units, found.model, stopped=stop.is_set())

    def _check_outputs(self) -> None:
        inputs = (self.model, self.data, *self.more)
        named = {"state": self.state, "events": self.events, "output": self.output}
        if self.metrics is not None and not self.metrics.startswith(":"):
            named["metrics"] = self.metrics
        given = {option: path for option, path in named.items() if path is not None}
        for option, path in given.items():
            check_output(path, inputs, option=option)
        if len({os.path.realpath(path) for path in given.values()}) < len(given):
            paths = ", ".join(given.values())
            refuse("{paths}: two of these are one file. Give each its own name.", paths=paths)


# ── one unit ────────────────────────────────────────────────────────────────
@dataclass(eq=False)
class Unit:
    """A file or a pipe, and the stream that judges its rows."""

    name: str
    lines: Lines
    reader: LineReader
    stream: LiveStream
    alarms: int = 0
    said: int = 0  # notes that were passed on
    bad_lines: int = 0

    @classmethod
    def of(
        cls,
        request: LiveRequest,
        run: Run,
        found: Opened,
        path: str,
        *,
        name: str,
        before: dict[str, Any],
    ) -> Unit:
        """A unit that goes on where it was, if the state knows it."""
        model, preparation = found.model, found.preparation
        if preparation is None:
            names = getattr(model, "feature_names_in_", None)
            d = int(model.n_features_in_)
            named = [f"x{j}" for j in range(d)] if names is None else map(str, names)
            preparation = Preparation(numbers=tuple(named))
        source = "the standard input" if path == "-" else f"CSV file {path!r}"
        reader = LineReader(preparation, run.reading, source)
        stream = model.stream(names=preparation.features, rule=request.rule, top=request.top)
        if path not in before.get("units", {}):
            return cls(name, Lines(path, follow=request.follow), reader, stream)
        with _whole(request.state):
            own = before["units"][path]
            stream.restore(own["stream"])
            reader.go_on(own["head"])
            lines = Lines(path, follow=request.follow, at=own["place"])
            return cls(name, lines, reader, stream, own["alarms"], 0, own["bad_lines"])

    def read(self) -> list[tuple[Verdict, str, str | None]]:
        """The verdicts on the rows that are there now, with what is wrong with their lines, and labels."""
        texts, fresh = self.lines.read()
        if not texts:
            return []
        arrived = self.reader(texts, fresh=fresh)
        if not len(arrived.rows):
            return []
        verdicts = self.stream.push_many(arrived.rows, arrived.times)
        self.alarms += sum(verdict.alarm for verdict in verdicts)
        self.bad_lines += sum(map(bool, arrived.bad))
        labels = arrived.labels or [None] * len(verdicts)  # type: ignore[list-item]
        return list(zip(verdicts, arrived.bad, labels, strict=True))

    def state(self) -> dict[str, Any]:
        """What JSON can hold of it."""
        own = {"place": self.lines.place, "head": self.reader.head, "stream": self.stream.state()}
        return own | {"alarms": self.alarms, "bad_lines": self.bad_lines}


def _unit_names(paths: tuple[str, ...]) -> list[str]:
    """Files without their folders and endings; as they are given where two would be called the same."""
    short = ["stdin" if path == "-" else Path(path).stem for path in paths]
    if len(set(paths)) < len(paths):
        refuse("{paths}: two of these are one file. Name each once.", paths=", ".join(paths))
    return short if len(set(short)) == len(short) else list(paths)


# ── outputs ─────────────────────────────────────────────────────────────────
@dataclass(eq=False)
class Sinks:
    """Everything that is written: rows, events, metrics."""

    rows: RowSink
    events: EventLog
    metrics: Metrics

    @classmethod
    def of(
        cls, request: LiveRequest, found: Opened, before: dict[str, Any], *, several: bool
    ) -> Sinks:
        """The sinks of a request, cut back to what a state knows of."""
        again = bool(before)
        named = request.time or request_id(request, found) or "time"
        rows = RowSink(request.output, request.emit, named, several=several, marks=request.marks)
        rows.limits = found.model._rule.joint(found.model.limits_)
        rows.known = again and request.output is None
        rows.resume(_known_length(request.output, "output", request.state, before))
        events = EventLog(request.events)
        events.resume(_known_length(request.events, "events", request.state, before))
        return cls(rows, events, Metrics(request.metrics))

    @contextmanager
    def open(self) -> Iterator[None]:
        """While rows arrive."""
        with self.metrics.open(), self.rows.open(), self.events.open():  # a port may be taken
            yield

    def lengths(self) -> dict[str, Any]:
        """Bytes that are in each file, once they are there."""
        found = {"output": self.rows.length(), "events": self.events.length()}
        return {option: length for option, length in found.items() if length is not None}


def _known_length(
    path: str | None, option: str, state: str | None, before: dict[str, Any]
) -> int | None:
    """Where an output goes on: what a state knows is kept, and all of a file that it knows nothing of."""
    if path is None or not before:
        return None
    with _whole(state):
        known = before["outputs"].get(option)
        if known is not None and known["path"] == os.path.realpath(path):
            return int(known["bytes"])
    return Path(path).stat().st_size if Path(path).exists() else None


def request_id(request: LiveRequest, found: Opened) -> str | None:
    """The column that names the rows."""
    trained = None if found.preparation is None else found.preparation.id
    return request.reading.id or trained


class _Watch:
    """The loop: read, judge, write, and keep the state."""

    def __init__(
        self,
        request: LiveRequest,
        run: Run,
        units: list[Unit],
        sinks: Sinks,
        stop: threading.Event,
        *,
        before: dict[str, Any],
    ) -> None:
        self._request, self._run, self._units, self._before = request, run, units, before
        self._sinks, self._stop, self._saved = sinks, stop, time.monotonic()

    def run(self) -> None:
        """Until all lines are read, or an end is asked for."""
        running = list(self._units)
        while running and not self._stop.is_set():
            for unit in running:
                self._take(unit)
            running = [unit for unit in running if not unit.lines.ended]
            if time.monotonic() - self._saved >= SAVE_SECONDS:
                self._keep()
        if self._request.state is None and not self._stop.is_set():  # no more rows will come
            for unit in self._units:
                for event in unit.stream.close():
                    self._tell(unit, event, "ended")
        self._keep()

    def _take(self, unit: Unit) -> None:
        found = unit.read()
        for note in unit.reader.notes[unit.said :]:
            self._run.note(note)
        unit.said = len(unit.reader.notes)
        for verdict, bad, label in found:
            self._sinks.rows.write(unit.name, verdict, bad, label)
            if verdict.began is not None:
                self._tell(unit, verdict.began, "raised")
            if verdict.ended is not None:
                self._tell(unit, verdict.ended, "ended")
        if found:
            self._sinks.rows.flush()

    def _tell(self, unit: Unit, event: Event, status: str) -> None:
        self._sinks.events.write(unit.name, event, status)
        if not event.shelved:
            where = f"{unit.name}: " if len(self._units) > 1 else ""
            self._run.say(f"{where}{event}", "event", **event.to_dict(), status=status)

    def _keep(self) -> None:
        """Outputs first, then the state that knows their lengths: a kill between the two loses nothing."""
        self._saved = time.monotonic()
        self._sinks.metrics.write({unit.name: unit.stream for unit in self._units})
        lengths = self._sinks.lengths()
        if self._request.state is None:
            return
        paths = (self._request.data, *self._request.more)
        files = {
            option: {"path": os.path.realpath(getattr(self._request, option)), "bytes": length}
            for option, length in lengths.items()
        }
        outputs = self._before.get("outputs", {}) | files
        own = {path: unit.state() for path, unit in zip(paths, self._units, strict=True)}
        units = self._before.get("units", {}) | own  # those of other calls go on too
        with replacing(Path(self._request.state)) as file:
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


@contextmanager
def _whole(path: str | None) -> Iterator[None]:
    """What is missing in a state, or is of another kind, is said of its file."""
    try:
        yield
    except MercerError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        msg = f"{path!r} must be a state that `mercer monitor` wrote; it is damaged. Name another file."
        raise InputError(msg) from error


def _loaded(path: str | None) -> dict[str, Any]:
    """The state in a file; nothing where there is none yet."""
    if path is None or not Path(path).exists():
        return {}
    try:
        found = json.loads(Path(path).read_bytes())
    except ValueError as error:
        msg = f"{path!r} must be a state that `mercer monitor` wrote; it is not JSON. Name another file."
        raise InputError(msg) from error
    parts = (
        [found.get(name) for name in ("units", "outputs")] if isinstance(found, dict) else [None]
    )
    if not all(isinstance(part, dict) for part in parts):
        msg = f"{path!r} must be a state that `mercer monitor` wrote; it is other JSON. Name another file."
        raise InputError(msg)
    return found


@dataclass(frozen=True)
class Watched:
    """What was seen, in numbers."""

    facts: dict[str, Any]
    detector: Any
    alarms: int
    stopped: bool

    @classmethod
    def of(cls, units: list[Unit], detector: Any, *, stopped: bool) -> Watched:
        """The counts of all units. Without a stop, rows have to be there, and one that can be judged."""
        facts = {
            unit.name: {
                **unit.stream.counts,
                "bad_lines": unit.bad_lines,
                "sensors": unit.stream.sensor_counts(),
                "drift": vars(unit.stream.drift()),
            }
            for unit in units
        }
        rows = sum(unit.stream.rows for unit in units)
        judged = rows - sum(unit.stream.counts["unjudged"] for unit in units)
        if rows and not judged and not stopped:
            msg = f"None of {rows} rows can be judged: each lacks a reading. Look at the lines."
            raise DataError(msg)
        if not rows and not stopped and not any(unit.lines.follow for unit in units):
            msg = (
                "There is no row to judge: the lines ended before the first. Give names, then rows."
            )
            raise DataError(msg)
        return cls({"units": facts}, detector, sum(unit.alarms for unit in units), stopped)
