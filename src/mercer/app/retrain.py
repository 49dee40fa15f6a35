"""A detector taught by later rows: a drift that it follows, or a fault that it will know by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.app.monitor import require_detector
from mercer.app.outcome import Request, Run, refuse
from mercer.app.rows import (
    OfModel,
    check_model_output,
    facts_of,
    keep_model,
    open_model,
    read_sheet,
)
from mercer.monitoring.shadow import ShadowStream

BLOCK = 4096


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
        found = open_model(self.model)
        require_detector(found)
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
                how = {"guard": self.guard, "why": self.why, "keep_faults": self.keep_faults}
                new = old.updated(rows, time, memory=self.recent, **how)
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
