"""A detector beside another one: taught by later rows, or in its shadow while both judge the same rows."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mercer._core.types import Array, Flags
from mercer.app.outcome import Request, Run, refuse
from mercer.app.rows import (
    OfModel,
    Opened,
    check_model_output,
    facts_of,
    keep_model,
    open_detector,
    read_sheet,
)
from mercer.monitoring.shadow import Agreement, ShadowReport, ShadowStream
from mercer.preprocessing.align import Sheet

BLOCK = 4096  # rows at a time


@dataclass(frozen=True)
class Retrained:
    """The new detector, and the facts for programs."""

    detector: Any
    facts: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RetrainRequest(OfModel, Request[Retrained]):
    """Teach the detector in a model file the rows of a file, and keep the new one.

    Parameters
    ----------
    output : str
        The file of the new detector; it may not be that of the old one, which stays to go back to.
    event : str, optional
        The rows are a fault of this name. Otherwise they are normal, and the detector follows them.
    recent : int
        Rows that count, or so.
    guard : float
        Times the limit beyond which a row is not learned.
    why : str
        A remark for the lineage.
    keep_faults : bool
        Whether rows in events of the old detector are learned too.
    """

    output: str
    event: str | None = None
    recent: int = 2000
    guard: float = 3.0
    why: str = ""
    keep_faults: bool = False
    # For the header of the model file: the command, as it was given.
    origin: dict[str, Any] = field(default_factory=dict)

    def fulfil(self, run: Run) -> Retrained:
        """Learn, say what changes on these rows, and write."""
        path = check_model_output(self.output, self.data)
        found = open_detector(self.model)
        assert path is not None  # a model is always kept
        if path.exists() and path.samefile(found.path):
            why = "is the model that is taught. Name another: the old one is there to go back to."
            refuse(f"{{output:{{path}}}} {why}", path=self.output)
        sheet = read_sheet(run, self.data, found, gaps=True)
        rows, old, time = np.asarray(sheet.rows), found.model, sheet.clock
        with run.timed("fit"):
            if self.event is not None:
                new = old.learn_event(self.event, rows, time)
                facts: dict[str, Any] = {"known_events": list(new.known_events_.names)}
                run.say(f"known events: {', '.join(new.known_events_.names)}", "event")
            else:
                new = old.updated(
                    rows,
                    time,
                    memory=self.recent,
                    guard=self.guard,
                    why=self.why,
                    keep_faults=self.keep_faults,
                )
                facts = {"lineage": [vars(step) for step in new.lineage_]}
                run.say(str(new.lineage_[-1]), "lineage")
                facts["change"] = _changes(run, old, new, rows, time)
        about, fitted = {"command": "", **found.about, "parent": str(found.path)}, None
        if command := self.origin.get("command"):
            earlier = about.get("retrained")
            about["retrained"] = [*(earlier if isinstance(earlier, list) else []), command]
        if self.event is not None:  # the fit stays what it was: its rows, and what was said of them
            events, fitted = about.get("events"), found.header["data"]
            events = events if isinstance(events, dict) else {}
            about["events"] = events | {self.event.strip(): facts_of(sheet)}
        facts["model"] = keep_model(run, path, new, sheet, about, fitted=fitted)
        facts["fingerprint"] = new.fingerprint_
        if self.event is None:
            run.say(
                "Let it judge later rows beside the old one before it counts: mercer monitor "
                f"{self.model} ROWS --shadow {self.output}",
                "next",
            )
        return Retrained(new, facts)


def _changes(run: Run, old: Any, new: Any, rows: Any, time: Any) -> dict[str, Any]:
    """What the new detector says of the rows that it was taught, beside the old one."""
    both = ShadowStream(old.stream(top=0), new.stream(top=0))
    for start in range(0, len(rows), BLOCK):
        part = slice(start, start + BLOCK)
        both.push_many(rows[part], None if time is None else list(time[part]))
    found = both.report()
    run.say(f"on these rows: {found}", "shadow")
    return vars(found)


# ── a detector in the shadow of the one that counts ─────────────────────────
@dataclass(frozen=True, eq=False)
class Compared:
    """What the detector in the shadow says of each row, and how the two agree."""

    index: Array  # (n,)
    alarm: Flags  # (n,)
    report: ShadowReport


def open_shadow(path: str, data: str) -> Opened:
    """The detector in the shadow, before any row is read."""
    if data == "-":
        refuse(
            "{shadow} reads the rows of a document or a chart twice, and a pipe can be read once. Write the "
            "rows to a file."
        )
    return open_detector(path)


def compared(run: Run, detector: Any, sheet: Sheet, data: str, found: Opened) -> Compared:
    """Judge the rows of a sheet by their detector, and those of its file by the one in the shadow."""
    aside = Run(reading=run.reading, memory=run.memory)
    again = read_sheet(aside, data, found, gaps=True)
    for note in aside.messages("note"):
        if note not in run.messages("note"):  # what was said of the rows already
            run.note(f"for the shadow, {note}", "shadow-data")
    streams = [
        one.stream(names=list(own.names), top=0)
        for one, own in ((detector, sheet), (found.model, again))
    ]
    agreement = Agreement(whole=True)
    index, alarm = np.empty(len(sheet)), np.empty(len(sheet), dtype=bool)
    for start in range(0, len(sheet), BLOCK):
        part = slice(start, start + BLOCK)
        times = None if sheet.ids is None else list(sheet.ids[part])
        clock = None if sheet.clock is None else list(sheet.clock[part])
        mine, theirs = (
            stream.push_many(np.asarray(own.rows[part]), times, clock=clock)
            for stream, own in zip(streams, (sheet, again), strict=True)
        )
        for pair in zip(mine, theirs, strict=True):
            agreement.add(*pair)
        agreement.settle(*streams)
        index[part], alarm[part] = [v.index for v in theirs], [v.alarm and v.judged for v in theirs]
    return Compared(index, alarm, agreement.report())


def require_another(model: str, shadow: str | None) -> None:
    """Raise where a detector is to be its own shadow."""
    if shadow is not None and os.path.realpath(shadow) == os.path.realpath(model):
        refuse("{shadow:{path}} is the detector that counts. Name another one.", path=shadow)


def shadow_facts(report: ShadowReport, old: str, new: str) -> dict[str, Any]:
    """The comparison for programs, and in words with the names of the files."""
    names = Path(old).name, Path(new).name
    names = names if names[0] != names[1] else (old, new)
    return {
        "detectors": {"counts": old, "shadow": new},
        **asdict(report),
        "agreement": report.agreement,
        "summary": report.in_words(*names),
    }


def shadow_lines(facts: dict[str, Any]) -> list[str]:
    """The comparison in lines: the summary, and the latest events of one detector alone."""
    lines = [facts["summary"]]
    for side, role in (("old", "counts"), ("new", "shadow")):
        name = Path(facts["detectors"][role]).name
        lines += [f"  {name} alone: {event}" for event in facts[f"latest_only_{side}"]]
    return lines
