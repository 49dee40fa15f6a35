"""`mercer monitor`: rows of a process judged by a detector, and exit code 4 on an alarm."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from mercer._core.errors import MercerError, many
from mercer.app.live import LiveRequest, Watched
from mercer.app.monitor import MonitorRequest, Seen, named_by_time, over_time, table_text
from mercer.app.rows import check_output
from mercer.app.shadow import shadow_lines
from mercer.cli.ending import ALARM, OK, refuse
from mercer.cli.options import FORMATS, Read, flagged, option
from mercer.cli.plot_file import PicturePath, new_figure, save, verbatim
from mercer.cli.verb import Call, verb
from mercer.data.formats import SUFFIXES
from mercer.monitoring.alarm_rule import AlarmRule
from mercer.monitoring.drift import REMEDY, DriftReport

EXAMPLE = """\
mercer demo --process normal.csv faulty.csv
mercer fit normal.csv --id time --model detector -o detector.mercer
mercer monitor detector.mercer faulty.csv -o alarms.csv --chart chart.png  # exit code 4
mercer monitor detector.mercer faulty.csv --state state.json --events events.jsonl  # exit code 4
mercer retrain detector.mercer normal.csv -o newer.mercer
mercer monitor detector.mercer faulty.csv --shadow newer.mercer  # exit code 4"""


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


SHELVE = Read(
    "[VARIABLE=]ROWS", "a variable and rows, such as flow=600, or rows alone, for all", _shelved
)
METRICS = Read("FILE|:PORT", "a file, or a port such as :9108", _metrics)


@verb("reading", "memory", example=EXAMPLE)
@click.argument("detector", type=click.Path())
@click.argument("data", type=click.Path(allow_dash=True), nargs=-1, required=True)
@option("--time", "Column that says when each row was taken; --id otherwise.", "COLUMN")
@option("-o --output", "CSV or TSV file for the table; stdout otherwise.", "FILE")
@option("--chart", "Draw T² and Q over time: a .png, .svg or .pdf file.", PicturePath())
@option(
    "--top",
    "Variables to name for an alarm; 0 names none, and is quicker.",
    click.IntRange(0),
    default=3,
)
@option("--follow", "Wait for rows that are written later; files may be replaced.", bool)
@option("--state", "Go on from this file, and keep it up to date.", "FILE")
@option("--events", "File for a JSON line when an event is raised, or over.", "FILE")
@option("--metrics", "Metrics for Prometheus: a file, or a port of this machine.", METRICS)
@option("--marks", "Columns for the event of a row, and what is wrong with it.", bool)
@option(
    "--rule",
    "When alarms are an event: n/m rows, then delay=, clear=, deadband=, shelve=, with commas.",
    RULE,
    default="3/5",
)
@option(
    "--shelve",
    "Record events that begin with this variable, and don't announce them, for so many rows.",
    SHELVE,
    multiple=True,
)
@option(
    "--shadow", "Judge the rows by this detector too, and compare. It decides nothing.", "DETECTOR"
)
@option("--shadow-events", "File for a JSON line for each event of --shadow.", "FILE")
@option("--precision", "Unit of times in InfluxDB line protocol; guessed.", ["ns", "us", "ms", "s"])
def monitor(
    call: Call,
    *,
    detector: str,
    data: tuple[str, ...],
    time: str | None,
    output: str | None,
    chart: Path | None,
    **options: Any,
) -> int:
    """Judge rows by a detector: statistics, limits, alarms and the variables behind them.

    Rows of the standard input (-), of several files, and with --follow or --state are judged one by one as
    they arrive: a line out for a line in, whatever it holds. All others are judged as a whole.

    Rows with empty cells are not judged, unless the model was fitted with --impute: they are marked in the
    table (judged is 0), and counted. The exit code is 4 when there is an alarm, 0 when there is none among
    the rows that could be judged, and 3 when none could be. With --shadow it is that of DETECTOR alone.
    """
    if is_live(call, data, chart, options):
        return live(call, detector, data, time, output)
    if chart is not None:
        check_output(str(chart), (detector, *data), option="chart")
    if output == "-" and call.as_json:
        refuse("-o - and --json both fill stdout: leave one of them out, or name a file.")
    name_by_time(call, time)
    figure = None if chart is None else new_figure((8.0, 5.2))
    table = None if output == "-" else output
    found = call.run(call.request(MonitorRequest, model=detector, data=data[0], output=table)).value
    if table is None and not call.as_json:  # the document has it otherwise
        for piece in table_text(found.seen, ","):
            click.echo(piece, nl=False)
    if chart is not None:
        draw_charts(call, found.seen, figure)
        save(figure, chart)
        call.say(f"wrote {chart}")
    shadow = shadow_lines(found.facts["shadow"]) if "shadow" in found.facts else []
    for line in (*summary(found.seen, found.detector), *shadow):
        call.say(line)
    call.tell(found.facts)
    return ALARM if found.seen.count else OK


# Line protocol is a stream of points and not a table: the other verbs don't read it.
next(p for p in monitor.params if p.name == "format").type = click.Choice([*FORMATS, "influx"])


def summary(seen: Seen, detector: Any) -> list[str]:
    """The alarms in words, and how many a process in order would give too."""
    n, rate = seen.judged, detector.limits_.rate
    lines = [seen.report.summary()]
    if seen.count:
        whose = "rows like the training rows" if rate < 1 else "all rows"
        about = f"{rate * n:.0f}" if rate * n >= 1 else f"{rate * n:.1g}"
        lines.append(f"Of {n} {whose} about {about} would be alarms by chance ({100 * rate:g} %).")
    known = detector.known_events_.names
    if seen.count and known:
        lines.append(f"To compare events with the known ones ({', '.join(known)}), add --rule 3/5.")
    if seen.drift is not None and seen.drift.drifted:
        lines.append(f"{seen.drift} {seen.drift.remedy}")
    return lines


def draw_charts(call: Call, seen: Seen, figure: Any) -> None:
    """Control charts over time, or over row numbers where the names of the rows are not times."""
    report, axis = over_time(seen, call.reading.time_format)
    if axis is None and seen.named is not None:
        call.say(f"{seen.named!r} holds neither numbers nor dates: the chart counts the rows")
    report.plot(fig=figure, axis=verbatim(axis or "row"))


# ── rows as they arrive ─────────────────────────────────────────────────────
def is_live(call: Call, data: tuple[str, ...], chart: Path | None, options: dict[str, Any]) -> bool:
    """Whether rows are judged as they arrive. A document and a chart need all of them."""
    whole = chart is not None or call.as_json
    if call.reading.format is None and all(path.endswith(INFLUX) for path in data):
        call.reading = replace(call.reading, format="influx")
    asked = [f"--{name.replace('_', '-')}" for name in LIVE if options.get(name)]
    asked += ["InfluxDB line protocol"] if call.reading.format == "influx" else []
    asked += ["--rule"] if flagged("rule") else []
    if whole and (asked or len(data) > 1):
        why = "--json" if chart is None else "--chart"
        what = asked[0] if asked else "several files"
        refuse(
            f"{why} needs all rows at once, but with {what} each is judged on arrival: leave one out."
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
    emit = partial(click.echo, nl=False) if table is None else None
    request = call.request(
        LiveRequest, model=detector, data=data[0], more=data[1:], output=table, emit=emit
    )
    found = call.run(request).value
    for line in live_summary(found):
        call.say(line)
    return ALARM if (found.alarms or found.lasts) and not found.stopped else OK


def name_by_time(call: Call, time: str | None) -> None:
    """The rows are named by their times; ids that mercer.toml or the environment name give way to them."""
    if time is not None and not flagged("id"):
        call.reading = replace(call.reading, id=None)
    named_by_time(call, time)


def live_summary(found: Watched) -> list[str]:
    """What was seen of each unit, in a line."""
    lines = []
    for unit, seen in found.facts["units"].items():
        where = f"{unit}: " if len(found.facts["units"]) > 1 else ""
        parts = [", ".join(many(seen[f"{noun}s"], noun) for noun in ("row", "alarm", "event"))]
        if seen["new_rows"] < seen["rows"]:  # a state was there before
            new = f"{many(seen['new_rows'], 'new row')}, {many(seen['new_alarms'], 'alarm')}"
            parts = [new, f"since the state began {parts[0]}"]
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
            began = f"{seen['drift_events']} of the events began as a drift, not as a fault"
            lines.append(f"{where}{began}. Moved most: {moved}. {REMEDY}")
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
