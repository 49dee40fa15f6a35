"""`mercer transform` and `mercer reconstruct`: scores of the rows of a file, and rows of their scores."""

from __future__ import annotations

import click

from mercer.app.transform import ReconstructRequest, TransformRequest
from mercer.cli.ending import refuse
from mercer.cli.options import option
from mercer.cli.verb import Call, verb

EXAMPLE = """
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label -o model.mercer
mercer transform model.mercer circles.csv -o scores.csv
"""

rows_out = option(
    "--output -o",
    "Where to write: .csv, .tsv, .npy, .npz, .parquet or .arrow; CSV on stdout otherwise.",
    "FILE",
)


@verb("reading", "memory", example=EXAMPLE)
@click.argument("model")
@click.argument("data")
@rows_out
def transform(call: Call, *, output: str | None, **_paths: str) -> None:
    """Write the scores of the rows of a file.

    Columns are found by the names that MODEL was fitted with; ids and labels of DATA come along.
    """
    request = call.request(TransformRequest, output=file_or_stdout(call, output))
    call.tell(call.run(request).value.facts)


def file_or_stdout(call: Call, output: str | None) -> str:
    """The file, or - for stdout, unless --json fills that already."""
    if output in (None, "-") and call.as_json:
        refuse("--json and the rows both write to stdout. Name a file for the rows with -o.")
    return "-" if output is None else output


# ── and back ────────────────────────────────────────────────────────────────
EXAMPLE_BACK = """
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label -k 10 --preimage ridge -o model.mercer
mercer reconstruct model.mercer circles.csv -o back.csv
"""


@verb("reading", "memory", example=EXAMPLE_BACK)
@click.argument("model")
@click.argument("data")
@rows_out
def reconstruct(call: Call, *, output: str | None, **_paths: str) -> None:
    """Take rows through the components and back: what is left out is gone.

    What comes out has the columns and units of the training file. The pre-images are those that MODEL was
    fitted with (--preimage); a model without them learns them here, from the points that it rests on.
    """
    request = call.request(ReconstructRequest, output=file_or_stdout(call, output))
    call.tell(call.run(request).value.facts)
