"""`mercer retrain`: a detector taught by later rows."""

from __future__ import annotations

import click

from mercer.app.shadow import RetrainRequest
from mercer.cli.options import option
from mercer.cli.verb import Call, verb

EXAMPLE = """\
mercer demo --process normal.csv faulty.csv
mercer fit normal.csv --id time --model detector -o detector.mercer
mercer retrain detector.mercer normal.csv -o newer.mercer --why "a week later"
mercer retrain detector.mercer faulty.csv --event "flow sensor" -o knows.mercer"""


@verb("reading", "memory", example=EXAMPLE)
@click.argument("model", metavar="DETECTOR")
@click.argument("data")
@option("-o --output", "File of the new detector.", "FILE", required=True)
@option("--event", "The rows are a fault, which will be known by this name.", "NAME")
@option("--recent", "Rows that count; older ones are forgotten.", click.IntRange(2), default=2000)
@option(
    "--guard",
    "Times the limit beyond which a row is a fault, and not learned.",
    click.FloatRange(1, min_open=True),
    metavar="NUMBER",
    default=3.0,
)
@option(
    "--keep-faults",
    "Learn rows in events of the old detector too; they are left out otherwise.",
    bool,
)
@option("--why", "A remark for the lineage of the model.", "TEXT", default="")
def retrain(call: Call, **_options: object) -> None:
    """Teach a detector later rows, or a fault by its name.

    The rows are those of normal operation, unless --event names a fault. The new detector follows a drift:
    rows are judged, learned if they are no fault, and older ones forgotten.
    What changes on these rows is said. The old detector stays as it is, to run beside the new one and to go
    back to.
    """
    call.tell(call.run(call.request(RetrainRequest)).value.facts)
