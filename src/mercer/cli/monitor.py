"""`mercer monitor`: rows of a process judged by a detector, and exit code 4 on an alarm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mercer.app.files import check_output
from mercer.app.monitor import MonitorRequest, Seen, over_time, table_text
from mercer.app.shadow import shadow_lines
from mercer.cli.ending import ALARM, OK, refuse
from mercer.cli.live import METRICS, RULE, SHELVE, is_live, live, name_by_time
from mercer.cli.options import FORMATS, option
from mercer.cli.plot_file import PicturePath, new_figure, save, verbatim
from mercer.cli.verb import Call, verb

EXAMPLE = """\
mercer demo --process normal.csv faulty.csv
mercer fit normal.csv --id time --model detector -o detector.mercer
mercer monitor detector.mercer faulty.csv -o alarms.csv --chart chart.png  # exit code 4
mercer monitor detector.mercer faulty.csv --state state.json --events events.jsonl  # exit code 4
mercer retrain detector.mercer normal.csv -o newer.mercer
mercer monitor detector.mercer faulty.csv --shadow newer.mercer  # exit code 4"""


@verb("reading", "memory", example=EXAMPLE)
@click.argument("detector", type=click.Path())
@click.argument("data", type=click.Path(allow_dash=True), nargs=-1, required=True)
@option("--time", "Column that says when each row was taken; --id otherwise.", metavar="COLUMN")
@option("-o --output", "CSV or TSV file for the table; stdout otherwise.", metavar="FILE")
@option("--chart", "Draw T² and Q over time: a .png, .svg or .pdf file.", PicturePath())
@option(
    "--top",
    "Variables to name for an alarm; 0 names none, and is quicker.",
    click.IntRange(0),
    default=3,
)
@option("--follow", "Wait for rows that are written later; files may be replaced.", bool)
@option("--state", "Go on from this file, and keep it up to date.", metavar="FILE")
@option("--events", "File for a JSON line when an event is raised, or over.", metavar="FILE")
@option(
    "--metrics",
    "Metrics for Prometheus: a file, or a port of this machine.",
    METRICS,
    metavar="FILE|:PORT",
)
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
    metavar="[VARIABLE=]ROWS",
)
@option(
    "--shadow",
    "Judge the rows by this detector too, and compare. It decides nothing.",
    metavar="DETECTOR",
)
@option("--shadow-events", "File for a JSON line for each event of --shadow.", metavar="FILE")
@option(
    "--precision",
    "Unit of times in InfluxDB line protocol; guessed.",
    ["ns", "us", "ms", "s"],
)
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
    asked = call.request(MonitorRequest, model=detector, data=data[0], output=table)
    found = call.run(asked).value
    if table is None and not call.as_json:  # the document has it otherwise
        for piece in table_text(found.seen, ","):
            click.echo(piece, nl=False)
    if chart is not None:
        draw_charts(call, found.seen, figure)
        save(figure, chart)
        call.say(f"wrote {chart}")
    for line in summary(found.seen, found.detector):
        call.say(line)
    if "shadow" in found.facts:
        for line in shadow_lines(found.facts["shadow"]):
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
