"""`mercer monitor` of rows as they arrive: its options, and how it ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from mercer._core.errors import MercerError, many
from mercer.app.live import LiveRequest, Watched
from mercer.app.monitor import named_by_time
from mercer.app.shadow import shadow_lines
from mercer.cli.ending import ALARM, OK, refuse
from mercer.cli.options import Read, flagged
from mercer.cli.verb import Call
from mercer.data.formats import SUFFIXES
from mercer.monitoring.alarm_rule import AlarmRule
from mercer.monitoring.drift import REMEDY, DriftReport

LIVE = ("follow", "state", "events", "metrics", "marks", "shelve", "shadow_events", "precision")
TEXTS = (None, "csv", "tsv", "influx")  # formats that are lines
INFLUX = (".lp", ".influx", ".line")  # endings of files of line protocol


def _rule(value: Any) -> AlarmRule | None:
    """`3/5,delay=2,deadband=0.1` as a rule."""
    if isinstance(value, AlarmRule):
        return value
    first, *others = str(value).split(",")
    n, _, m = first.partition("/")
    try:
        settings: dict[str, Any] = {"n": int(n), "m": int(m or n)}
        for other in others:
            name, _, number = other.strip().partition("=")
            settings[name] = float(number) if name == "deadband" else int(number)
        return AlarmRule(**settings)
    except (ValueError, TypeError, MercerError):
        return None


def _metrics(value: Any) -> str | None:
    """A file, or a port after a colon."""
    text = str(value)
    if text.startswith(":"):
        return text if text[1:].isdecimal() and int(text[1:]) < 2**16 else None
    # 9108 is a port without its colon, hardly a file.
    return None if text.isdecimal() else text or None


RULE = Read(
    "rule",
    "n/m with n at most m, then delay=, clear=, deadband= or shelve=, such as 3/5,clear=10",
    _rule,
)


def _shelved(value: Any) -> tuple[str, int] | None:
    """`flow=600` or `600` as a variable, "" for all, and rows."""
    if isinstance(value, tuple):
        return value
    variable, _, rows = str(value).rpartition("=")
    return (variable, int(rows)) if rows.isdecimal() and int(rows) > 0 else None


SHELVE = Read("shelve", "a variable and rows, such as flow=600, or rows alone, for all", _shelved)
METRICS = Read("where", "a file, or a port such as :9108", _metrics)


def is_live(call: Call, data: tuple[str, ...], chart: Path | None, options: dict[str, Any]) -> bool:
    """Whether rows are judged as they arrive. A document and a chart need all of them."""
    whole = chart is not None or call.as_json
    if call.reading.format is None and all(path.endswith(INFLUX) for path in data):
        call.reading = replace(call.reading, format="influx")
    asked = [f"--{name.replace('_', '-')}" for name in LIVE if options.get(name)]
    asked += ["InfluxDB line protocol"] if call.reading.format == "influx" else []
    asked += ["--rule"] if flagged("rule") else []
    if whole and (asked or len(data) > 1):
        why = "--chart" if chart is not None else "--json"
        what = asked[0] if asked else "several files"
        refuse(
            f"{why} needs all rows at once, and {what} judges them as they arrive: leave one out."
        )
    form = call.reading.format
    others = [p for p in data if (form or SUFFIXES.get(Path(p).suffix.lower())) not in TEXTS]
    if (asked or len(data) > 1) and others:
        what = repr(others[0]) if form is None else f"--format {form}"
        refuse(f"Rows that arrive are lines of text: {what} can't be followed.")
    if "-" in data and len(data) > 1:
        refuse("- is one stream: name files, or give - alone.")
    return not whole and not others and (bool(asked) or len(data) > 1 or data == ("-",))


def live(
    call: Call, detector: str, data: tuple[str, ...], time: str | None, output: str | None
) -> int:
    """Judge rows until they end, or a signal asks for an end."""
    name_by_time(call, time)
    if call.reading.format == "tsv" and call.reading.delimiter is None:
        call.reading = replace(call.reading, delimiter="\t")
    table = None if output == "-" else output

    def emit(text: str) -> None:
        click.echo(text, nl=False)

    given = {"model": detector, "data": data[0], "more": data[1:], "output": table}
    asked = call.request(LiveRequest, **given, emit=emit if table is None else None)
    found = call.run(asked).value
    for line in summary(found):
        call.say(line)
    return ALARM if (found.alarms or found.lasts) and not found.stopped else OK


def name_by_time(call: Call, time: str | None) -> None:
    """The rows are named by their times; ids that mercer.toml or the environment name give way to them."""
    if time is not None and not flagged("id"):
        call.reading = replace(call.reading, id=None)
    named_by_time(call, time)


def summary(found: Watched) -> list[str]:
    """What was seen of each unit, in a line."""
    lines = []
    for unit, seen in found.facts["units"].items():
        where = f"{unit}: " if len(found.facts["units"]) > 1 else ""
        seen_in_all = ", ".join(many(seen[f"{noun}s"], noun) for noun in ("row", "alarm", "event"))
        parts = [seen_in_all]
        if seen["new_rows"] < seen["rows"]:  # a state was there before
            new = f"{many(seen['new_rows'], 'new row')}, {many(seen['new_alarms'], 'alarm')}"
            parts = [new, f"since the state began {seen_in_all}"]
        counts = seen | {"lacking": seen["unjudged"] - seen["short"]}
        for name, (noun, one, more) in WORDS.items():
            if (n := counts[name]) > 0:
                parts.append(f"{many(n, noun)} {one if n == 1 else more}")
        lines.append(where + "; ".join(parts) + ".")
        if "shadow" in seen:
            lines += [f"{where}{line}" for line in shadow_lines(seen["shadow"])]
        drift = DriftReport(**seen["drift"])
        if drift.drifted:
            lines.append(f"{where}{drift} {drift.remedy}")
        elif seen["drift_events"]:
            moved = ", ".join(f"{name} by {shift:+.1f} spreads" for name, shift in drift.shifts)
            told = f"{seen['drift_events']} of the events began as a drift, not as a fault"
            lines.append(f"{where}{told}. Moved most: {moved}. {REMEDY}")
    return lines


# What is counted, of one and of several.
WORDS = {
    "shelved_events": ("event", "was shelved", "were shelved"),
    "lacking": ("row", "lacks readings", "lack readings"),
    "short": (
        "row",
        "has too few rows directly before it",
        "have too few rows directly before them",
    ),
    "gaps": ("row", "followed a gap", "followed a gap"),
    "late": ("row", "was late", "were late"),
    "repeated": ("row", "repeated a time", "repeated a time"),
    "clock put back": ("row", "followed a clock put back", "followed a clock put back"),
    "no time": ("row", "has no time that can be read", "have no time that can be read"),
    "missing": ("reading", "was missing", "were missing"),
    "frozen": ("reading", "was of a frozen sensor", "were of frozen sensors"),
    "range": ("reading", "was out of range", "were out of range"),
    "bad_lines": ("line", "was not a row", "were not rows"),
}
