"""`mercer reconstruct`: rows through the components and back, in the units of the file."""

from __future__ import annotations

import click

from mercer.app.reconstruct import ReconstructRequest
from mercer.cli.transform import file_or_stdout, rows_out
from mercer.cli.verb import Call, verb

EXAMPLE = """
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label -k 10 --preimage ridge -o model.mercer
mercer reconstruct model.mercer circles.csv -o back.csv
"""


@verb("reading", "memory", example=EXAMPLE)
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
