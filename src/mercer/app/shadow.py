"""Rows of a file judged by two detectors: the one that counts, and one in its shadow."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mercer._core.types import Array, Flags
from mercer.app.outcome import Run, refuse
from mercer.app.rows import Opened, open_model, read_sheet
from mercer.monitoring.shadow import Agreement, ShadowReport
from mercer.preprocessing.align import Sheet

BLOCK = 4096  # rows at a time


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
    found = open_model(path)
    require_detector(found)
    return found


def require_detector(found: Opened) -> None:
    """Raise when the model judges no rows."""
    if not found.is_detector:
        refuse(
            "{path} must hold a detector; it holds a {holds}. Fit one to rows in normal operation: mercer "
            "fit DATA --model detector -o detector.mercer",
            path=repr(str(found.path)),
            holds=type(found.model).__name__,
        )


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
    told = asdict(report) | {"agreement": report.agreement, "summary": report.in_words(*names)}
    return {"detectors": {"counts": old, "shadow": new}, **told}


def shadow_lines(facts: dict[str, Any]) -> list[str]:
    """The comparison in lines: the summary, and the latest events of one detector alone."""
    lines = [facts["summary"]]
    for side, role in (("old", "counts"), ("new", "shadow")):
        name = Path(facts["detectors"][role]).name
        lines += [f"  {name} alone: {told}" for told in facts[f"latest_only_{side}"]]
    return lines
