"""What a live monitor writes: lines of a table, one JSON line for an event, metrics for Prometheus."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import HTTPServer
from pathlib import Path
from typing import Any

from mercer._core.atomic import replacing
from mercer._core.wording import Message
from mercer.app.live_unit import Row, Unit
from mercer.app.monitor import DELIMITERS, SHADOW_COLUMNS, cell, lines_of, no_formula
from mercer.app.outcome import plain
from mercer.monitoring.alarms import in_words
from mercer.monitoring.events import Event
from mercer.monitoring.limits import Limits
from mercer.monitoring.sensors import in_words as marks_in_words

COLUMNS = ("T2", "T2_limit", "Q", "Q_limit", "index", "index_limit", "alarm", "judged", "top")


@dataclass(eq=False)
class Appended:
    """A file that grows: after its first `begin` bytes, beyond which it is cut off before it goes on."""

    path: str | None
    begin: int
    _file: Any = field(default=None, init=False)

    @contextmanager
    def open(self) -> Iterator[None]:
        if self.path is None:
            yield
            return
        with Path(self.path).open("ab") as self._file:
            self._file.truncate(self.begin)
            self._file.seek(0, os.SEEK_END)
            yield

    def put(self, text: str) -> None:
        if self._file is not None:
            self._file.write(text.encode())

    def length(self) -> int | None:
        """Bytes in the file, once they are on the disk."""
        if self._file is None:
            return None
        self._file.flush()
        os.fsync(self._file.fileno())
        return int(self._file.tell())


@dataclass(eq=False, kw_only=True)
class RowSink(Appended):
    """The table, a line for each row: in a file, or handed over at once."""

    emit: Callable[[str], None] | None
    named: str  # what the column of names is called
    labelled: str  # and that of labels
    limits: Limits
    has_head: bool  # whether the line of names is there
    several: bool  # units
    marks: bool
    shadow: bool
    _lines: list[list[Any]] = field(default_factory=list, init=False)

    def write(self, unit: str, judged: Row) -> None:
        """The line of a row, which waits for `flush`."""
        verdict, bad, label, shade = judged
        if not self.has_head:
            self._lines.append(self._head(label))
            self.has_head = True
        limits = self.limits
        numbers = (verdict.t2, limits.t2, verdict.q, limits.q, verdict.index, verdict.limit)
        cells = (
            *numbers,
            bool(verdict.alarm),
            bool(verdict.judged),
            no_formula(in_words(verdict.top)),
        )
        row: list[Any] = [unit] if self.several else []
        row += [verdict.time, *map(cell, cells)]
        if label is not None:
            row.append(label)
        if self.marks:
            number = "" if verdict.event is None else verdict.event
            marks = marks_in_words(verdict.marks)
            row += [verdict.state, number, no_formula("; ".join(filter(None, (marks, bad))))]
        if shade is not None:
            row += map(cell, (shade.index, bool(shade.alarm)))
        self._lines.append(row)

    def _head(self, label: str | None) -> list[str]:
        head = ["unit"] if self.several else []
        head += [self.named, *COLUMNS]
        head += [] if label is None else [self.labelled]
        head += ["state", "event", "marks"] if self.marks else []
        return [*head, *(SHADOW_COLUMNS if self.shadow else [])]

    def flush(self) -> None:
        delimiter = DELIMITERS.get(Path(self.path or "").suffix.lower(), ",")
        text, self._lines = lines_of(self._lines, delimiter), []
        self.put(text)
        if self.emit is not None:
            self.emit(text)


class EventLog(Appended):
    """One JSON line when an event is raised, and one when it is over."""

    def write(self, unit: str, event: Event, status: str) -> None:
        self.put(json.dumps(plain({"unit": unit, "status": status, **event.to_dict()})) + "\n")


# ── metrics ─────────────────────────────────────────────────────────────────
HELP = {
    "rows": "Rows that have arrived.",
    "alarms": "Rows above the limit of the index.",
    "unjudged": "Rows that lack a reading, or rows before them for a detector that looks back.",
    "events": "Events that were raised.",
    "late": "Rows older than the newest one.",
    "repeated": "Rows with the time of the newest one.",
    "clock put back": "Rows after which time goes on from a clock that was put back.",
    "no time": "Rows whose time can't be read.",
    "gaps": "Rows after a gap, for a detector that looks back.",
    "missing": "Readings that are missing.",
    "frozen": "Readings of sensors that stand still.",
    "range": "Readings far out of the range of the training rows.",
}

SHADOW_HELP = {
    "both": "Rows that are alarms of both detectors.",
    "only_old": "Rows that are alarms of the detector that counts alone.",
    "only_new": "Rows that are alarms of the detector in the shadow alone.",
    "events_only_old": "Events of the detector that counts alone.",
    "events_only_new": "Events of the detector in the shadow alone.",
}


def metrics_text(units: dict[str, Unit]) -> str:
    """Counters and gauges of each unit, in the text format of Prometheus."""
    lines = []
    for name, words in HELP.items():
        counts = {unit: own.stream.counts[name] for unit, own in units.items()}
        lines += _metric(f"{name.replace(' ', '_')}_total", words, "counter", counts)
    lasts = {unit: int(own.stream.current is not None) for unit, own in units.items()}
    lines += _metric("event_lasts", "Whether an event lasts.", "gauge", lasts)
    drifts = {unit: own.stream.drift() for unit, own in units.items()}
    levels = {unit: repr(drift.level) for unit, drift in drifts.items()}
    lines += _metric("drift_level", "Mean index in units of that at the fit.", "gauge", levels)
    words = "Whether rows drift slowly, so that the detector wants mercer retrain."
    drifted = {unit: int(drift.drifted) for unit, drift in drifts.items()}
    lines += _metric("drifted", words, "gauge", drifted)
    shades = {unit: own.shade.agreement.report() for unit, own in units.items() if own.shade}
    for name, words in SHADOW_HELP.items() if shades else ():
        found = {unit: getattr(shade, name) for unit, shade in shades.items()}
        lines += _metric(f"shadow_{name}_total", words, "counter", found)
    return "\n".join(lines) + "\n"


def _metric(name: str, words: str, kind: str, values: dict[str, Any]) -> list[str]:
    head = [f"# HELP mercer_{name} {words}", f"# TYPE mercer_{name} {kind}"]
    return [*head, *(f"mercer_{name}{_labels(unit)} {value}" for unit, value in values.items())]


def _labels(unit: str) -> str:
    quoted = unit.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{unit="{quoted}"}}'


class Metrics:
    """A file for the node exporter of Prometheus, or a port of this machine that answers with the text."""

    def __init__(self, where: str | None) -> None:
        where = where or ""
        self._port = int(where[1:]) if where.startswith(":") else None
        self._path = Path(where) if where and self._port is None else None
        self._text = b""

    @contextmanager
    def open(self, units: dict[str, Unit]) -> Iterator[None]:
        """While rows arrive; what is known before the first is there at once."""
        self.write(units)
        if self._port is None:
            yield
            return
        server = self._server(self._port)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()

    def write(self, units: dict[str, Unit]) -> None:
        if self._path is None and self._port is None:
            return
        self._text = metrics_text(units).encode()
        if self._path is not None:
            with replacing(self._path) as file:
                file.write(self._text)

    def _server(self, port: int) -> HTTPServer:
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        metrics = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.end_headers()
                self.wfile.write(metrics._text)

            def log_message(self, *args: Any) -> None:
                """A scrape every few seconds is no news."""

        try:
            return ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            msg = f"Metrics can't be served on port {port}: {why}. Name another port, or a file."
            raise OSError(Message(msg)) from error
