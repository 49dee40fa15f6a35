"""What a detector sees in many rows: all are judged, and as many alarms explained as a page shows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mercer._core.table import Table
from mercer._core.types import Array, Indices, Rows
from mercer.data.rows import take_rows
from mercer.monitoring.alarms import FIRST_ALARMS, Gaps
from mercer.monitoring.report import Monitoring
from mercer.views.base import spaced
from mercer.views.fitted import Fitted, unnamed
from mercer.views.leaders import told_spans
from mercer.views.process import MOST_LISTED

MOST_EXPLAINED = 300  # alarms whose contributions are computed for a picture


def watched(
    fitted: Fitted, rows: Rows, *, names: Any, gaps: Gaps, time: Any
) -> tuple[Monitoring, tuple[str, ...]]:
    """What a detector sees in many rows, and what it warned of: some alarms explained, and onsets.

    `rows` are those without a missing cell, of which `gaps` says where they lie among all; for a detector
    that looks back, all of them.
    """
    detector = fitted.judge
    if fitted.looks_back:  # rows are judged by those before them, missing ones included
        every = np.asarray(rows[:])
        seen = replace(fitted.monitor(every, time=time, names=names), missing=gaps.missing)
        with unnamed():
            past, judged = detector._with_past(detector._read(every, gaps=True), time)
        place = np.cumsum(judged) - 1
        return _begun(fitted, seen, lambda at: detector._judge.scaled(past[place[at]])), ()
    blocks = [fitted.monitor(block, names=names, top=0) for _, block in fitted.blocks(rows)]
    seen = Monitoring.joined(blocks)
    alarms = np.flatnonzero(seen.table["alarm"])
    if len(alarms) == 0:
        return seen.among(gaps, time), ()
    begun = [alarms[alarms >= first][:FIRST_ALARMS] for first, _ in told_spans(seen)]
    # The first ones are in a table, those at equal distances in a picture; events have the others.
    spread = alarms[spaced(len(alarms), MOST_EXPLAINED)]
    some: Any = np.unique(np.concatenate([alarms[:MOST_LISTED], spread, *begun]))

    def take(at: Indices) -> Any:
        return np.asarray(take_rows(rows, at))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told = fitted.monitor(take(some), names=names, explain="all")
    top = seen.table["top"].copy()
    top[some] = told.table["top"]
    columns = {name: seen.table[name] for name in seen.table.columns} | {"top": top}
    seen = replace(seen, table=Table(columns), contributions=told.contributions, explained=some)
    with unnamed():
        seen = detector._with_onsets(seen, lambda at: detector._rows(take(at)))
        seen = _begun(fitted, seen, lambda at: detector._rows(take(at)))
    remarks = tuple(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    return seen.among(gaps, time), remarks


def _begun(fitted: Fitted, seen: Monitoring, take: Callable[[Indices], Array]) -> Monitoring:
    """The report with what the first run and each event that is told of began with, however short."""
    alarm, columns = seen.table["alarm"], {name: seen.table[name] for name in seen.table.columns}
    first = [(run.first, run.last) for run in seen.runs[:1]]
    onsets = dict(seen.onsets)
    for begin, end in (*first, *told_spans(seen)):
        if begin not in onsets:
            own = np.zeros_like(alarm)  # as if there were no other: an event is one run
            own[begin : end + 1] = alarm[begin : end + 1]
            alone = replace(seen, table=Table(columns | {"alarm": own}))
            onsets |= fitted.judge._with_onsets(alone, take).onsets
    return replace(seen, onsets=onsets)
