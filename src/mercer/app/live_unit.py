"""One unit of a live monitor: its lines, the stream that judges their rows, and one in its shadow."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mercer._core.errors import InputError, MercerError
from mercer._core.wording import Message
from mercer.app.monitor import names_of_rows, rows_are_counted, unread_times
from mercer.app.outcome import Run, refuse
from mercer.app.rows import Opened
from mercer.app.shadow import shadow_facts
from mercer.data.csv.sniff import DELIMITERS
from mercer.data.lines import Lines
from mercer.monitoring.alarm_rule import AlarmRule
from mercer.monitoring.events import Event, Verdict
from mercer.monitoring.judge import LiveStream
from mercer.monitoring.library import KnownEvents
from mercer.monitoring.shadow import Agreement
from mercer.monitoring.tracker import Tracker
from mercer.preprocessing.influx import RowReader
from mercer.preprocessing.lines import Arrived, split
from mercer.preprocessing.preparation import Preparation

if TYPE_CHECKING:
    from mercer.app.live import LiveRequest

KEPT = ("drifts", "unannounced", "shelved")  # counts of a unit that its state has, perhaps
News = tuple[tuple[Event, str], ...]  # events, with what became of them


class Row(NamedTuple):
    """A row that was judged: by the stream that counts, and by its shadow where there is one."""

    verdict: Verdict
    bad: str  # what is wrong with its line
    label: str | None
    shade: Verdict | None

    @property
    def news(self) -> tuple[News, News]:
        """The events that were raised with the row, or are over with it: of the stream, and of its shadow."""
        own, shadow = (
            () if one is None else _news((one.began, "raised"), (one.ended, "ended"))
            for one in (self.verdict, self.shade)
        )
        return own, shadow


def _news(*found: tuple[Event | None, str]) -> News:
    return tuple((event, status) for event, status in found if event is not None)


@dataclass(eq=False)
class Shade:
    """The stream in the shadow: it judges the rows of the same lines, and is counted beside the other."""

    reader: RowReader
    stream: LiveStream
    agreement: Agreement = field(default_factory=Agreement)

    def read(self, unit: Unit, verdicts: list[Verdict], arrived: Arrived) -> list[Verdict]:
        """Its verdicts on the rows that the unit has just read."""
        rows = self.reader.beside(unit.reader).rows
        found = self.stream.push_many(rows, arrived.times, clock=arrived.clock)
        for one, other in zip(verdicts, found, strict=True):
            self.agreement.add(one, other)
        self.agreement.settle(unit.stream, self.stream)
        return found


@dataclass(eq=False)
class Unit:
    """A file or a pipe, and the streams that judge its rows."""

    name: str
    lines: Lines
    reader: RowReader
    stream: LiveStream
    bad_lines: int = 0
    drifts: int = 0  # events that a drift has led to
    unannounced: int = 0  # events that were shelved
    shade: Shade | None = None
    said: int = 0  # notes that were passed on
    known: tuple[int, int] = (0, 0)  # rows and alarms before this call
    shelved: list[list[Any]] = field(default_factory=list)  # variables and rows that were asked for
    # What a change of detectors ends and raises in the log of events, and in that of the shadow.
    changed: tuple[News, News] = ((), ())
    # The column that the lines may lack without a word of the reader, as `names_of_rows` has it.
    named: str | None = None
    time_name: str = "time"
    fresh: bool = True  # no row was read in this call

    @classmethod
    def of(
        cls,
        request: LiveRequest,
        run: Run,
        models: tuple[Opened, ...],
        path: str,
        *,
        name: str,
        before: dict[str, Any],
    ) -> Unit:
        """A unit that goes on where it was, if the state knows it. The second model is the shadow."""
        source = "the standard input" if path == "-" else f"file {path!r}"
        if request.follow and path != "-" and not Path(path).exists():
            run.note(f"there is no file {path!r} yet: it is waited for", "waiting", path=path)
        made = []
        for found in models:
            known = _preparation(found)
            reader = RowReader(known, run.reading, source, _wanted(models), request.precision)
            stream = found.model.stream(names=known.features, rule=request.rule, top=request.top)
            made.append((reader, stream))
        (reader, stream), shade = made[0], Shade(*made[1]) if len(made) > 1 else None
        named = None if run.reading.id is not None else names_of_rows(models[0])
        columns: dict[str, Any] = {"named": named, "time_name": run.reading.id or named or "time"}
        if unit_key(path) not in before.get("units", {}):
            lines = Lines(path, follow=request.follow)
            return cls(name, lines, reader, stream, shade=shade, **columns)
        with whole(request.state):
            own = before["units"][unit_key(path)]
            kept: dict[str, Any] = {
                "changed": _restore(stream, shade, own),
                "bad_lines": own["bad_lines"],
            }
            kept |= {name: own[name] for name in KEPT if name in own}
            # Of the stream that counts now: another may have done so before.
            kept["known"] = stream.rows, stream.counts["alarms"]
            for each, _ in made:
                each.go_on(own["head"])
            # Above the names nothing was read that counts: they are read again.
            at = None if own["head"] is None and path != "-" else own["place"]
            lines = Lines(path, follow=request.follow, at=at)
            return cls(name, lines, reader, stream, shade=shade, **columns, **kept)

    def shelve(self, rows: int, variable: str) -> None:
        """Shelve a variable, or all: once, also where the same command goes on from its state."""
        if [variable, rows] not in self.shelved:
            self.shelved.append([variable, rows])
            self.stream.shelve(rows, variable or None)

    def facts(self, models: Sequence[str]) -> dict[str, Any]:
        """What was seen, in numbers, and how the streams of these two models agree."""
        rows, alarms = self.known
        found = {
            **self.stream.counts,
            "new_rows": self.stream.rows - rows,
            "new_alarms": self.stream.counts["alarms"] - alarms,
            "bad_lines": self.bad_lines,
            "drift_events": self.drifts,
            "shelved_events": self.unannounced,
            "sensors": self.stream.sensor_counts(),
            "drift": vars(self.stream.drift()),
        }
        if self.shade is not None:
            found["shadow"] = shadow_facts(self.shade.agreement.report(), *models)
        return found

    def read(self) -> list[Row]:
        texts, fresh = self.lines.read()
        found: list[Row] = []
        for part in self.reader.parted(texts) if texts else ():
            found += self._judged(self.reader(part, fresh=fresh))
            fresh = False
        return found

    def rest(self) -> list[Row]:
        """The row that has waited for more lines, when there are none."""
        return self._judged(self.reader.rest())

    def close(self) -> tuple[News, News]:
        """End the events that last, since there are no more rows."""
        shadow = [] if self.shade is None else self.shade.stream.close()
        own = self.stream.close()
        return tuple((e, "ended") for e in own), tuple((e, "ended") for e in shadow)

    def _judged(self, arrived: Arrived) -> list[Row]:
        if not len(arrived.rows):
            return []
        if self.fresh:
            self.fresh = False  # once is enough
            self._say_times(arrived)
        verdicts = self.stream.push_many(arrived.rows, arrived.times, clock=arrived.clock)
        self.bad_lines += sum(map(bool, arrived.bad))
        begun = [v.began for v in verdicts if v.began is not None]
        self.drifts += sum(event.kind == "drift" for event in begun)
        self.unannounced += sum(event.shelved for event in begun)
        none: list[Any] = [None] * len(verdicts)
        shades = none if self.shade is None else self.shade.read(self, verdicts, arrived)
        return [*map(Row, verdicts, arrived.bad, arrived.labels or none, shades)]

    def _say_times(self, arrived: Arrived) -> None:
        """A word on rows that are counted, or whose times can't be read."""
        times = [time for time in arrived.times if time is not None]
        if not times:
            if self.named is not None and self._lacks(self.named):
                self.reader.notes.append(rows_are_counted(self.named))
        elif arrived.clock is None and (words := unread_times(self.time_name, times)):
            self.reader.notes.append(words)

    def _lacks(self, column: str) -> bool:
        """Whether the names of a CSV are without a column; points of line protocol have their own times."""
        head = self.reader.head
        if head is None or head.startswith('{"influx"'):
            return False
        return not any(column in map(str.strip, split(head, mark)) for mark in DELIMITERS)

    def state(self) -> dict[str, Any]:
        own = {"place": self.lines.place, "head": self.reader.head, "stream": self.stream.state()}
        own |= {name: getattr(self, name) for name in ("bad_lines", *KEPT)}
        if self.shade is not None:
            stream, agreement = self.shade.stream.state(), self.shade.agreement.state()
            own["shadow"] = {"stream": stream, "agreement": agreement}
        return own


def _restore(stream: LiveStream, shade: Shade | None, own: dict[str, Any]) -> tuple[News, News]:
    """Go on from a state, also with the models the other way round: the shadow then counts from here on.

    What lasts then ends in the log of the one and is raised in that of the other, by a new number.
    """
    known = own.get("shadow") or {}
    states = [own["stream"], *([known["stream"]] if known else [])]
    swapped = not stream.knows(states[0])
    if swapped:
        states.reverse()
    if not stream.knows(states[0]):
        msg = (
            "{state} must be a state of this detector; another one, or another version, wrote it. Name "
            "another state, or the detector that wrote it. To change detectors without a gap, run the old "
            "one with the new one as its {shadow}, then the new one with the old one as its {shadow}."
        )
        raise InputError(Message(msg))
    mine, theirs = (_lasting(stream.rule, state) for state in (states * 2)[:2])
    if swapped:
        _renumber(states)
    stream.restore(states[0])
    changed, of_shadow = _news((theirs, "ended"), (stream.current, "raised")), _news()
    if shade is not None and len(states) > 1 and shade.stream.knows(states[1]):
        shade.stream.restore(states[1])  # another one begins anew
        shade.agreement = Agreement.of(known["agreement"], swapped=swapped)
        of_shadow = _news((mine, "ended"), (shade.stream.current, "raised"))
    return (changed, of_shadow) if swapped else ((), ())


def _lasting(rule: AlarmRule, state: dict[str, Any]) -> Event | None:
    """The event that lasts in a state, as if it were over with its last alarm."""
    names, open_ = state["names"], state["tracker"]["open"]
    tracker = Tracker(rule, names, np.zeros_like, KnownEvents.none(len(names)))
    tracker.restore(state["tracker"])
    event = tracker.current
    return None if event is None else replace(event, end=open_["last"]["time"])


def _renumber(states: list[dict[str, Any]]) -> None:
    """Events go on by numbers that neither log has yet."""
    trackers = [state["tracker"] for state in states]
    most = max(tracker["count"] for tracker in trackers)
    for tracker in trackers:
        tracker["count"] = most + (tracker["open"] is not None)
        if tracker["open"] is not None:
            tracker["open"]["number"] = most + 1


def _preparation(found: Opened) -> Preparation:
    """What the model makes of a row; one that Python saved takes rows as they are."""
    if found.preparation is not None:
        return found.preparation
    d = int(found.model.n_features_in_)
    return Preparation(numbers=found.feature_names or tuple(f"x{j}" for j in range(d)))


def _wanted(models: tuple[Opened, ...]) -> tuple[str, ...]:
    """The columns that either model needs."""
    own = [_preparation(found) for found in models]
    names = [[*each.numbers, *(name for name, _ in each.categories)] for each in own]
    return tuple(dict.fromkeys(chain.from_iterable(names)))


def unit_key(path: str) -> str:
    """What a state calls a file, from whatever folder; a link may point to another file later."""
    return path if path == "-" else os.path.abspath(path)


def unit_names(paths: tuple[str, ...]) -> list[str]:
    """Files without their folders and endings; as they are given where two would be called the same."""
    short = ["stdin" if path == "-" else Path(path).stem for path in paths]
    if len(set(map(unit_key, paths))) < len(paths):
        refuse("{paths}: two of these are one file. Name each once.", paths=", ".join(paths))
    return short if len(set(short)) == len(short) else list(paths)


# ── states ──────────────────────────────────────────────────────────────────
@contextmanager
def whole(path: str | None) -> Iterator[None]:
    """What is missing in a state, or is of another kind, is said of its file."""
    try:
        yield
    except MercerError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise _no_state(path, "it is damaged") from error


def loaded(path: str | None) -> dict[str, Any]:
    """The state in a file; nothing where there is none yet."""
    if path is None or not Path(path).exists():
        return {}
    try:
        found = json.loads(Path(path).read_bytes())
    except ValueError as error:
        raise _no_state(path, "it is not JSON") from error
    parts = ("units", "outputs")
    if not isinstance(found, dict) or not all(isinstance(found.get(p), dict) for p in parts):
        raise _no_state(path, "it is other JSON")
    return found


def _no_state(path: str | None, why: str) -> InputError:
    return InputError(
        f"{path!r} must be a state that `mercer monitor` wrote; {why}. Name another file."
    )
