"""`mercer transform`: the scores of the rows of a file, with their ids and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mercer.cli.data import open_model, reading_options
from mercer.cli.frame import verb
from mercer.cli.stream import Route, rows_out, send

if TYPE_CHECKING:
    from mercer.cli.frame import Talk
    from mercer.data.table import Reading

EXAMPLE = """
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label -o model.mercer
mercer transform model.mercer circles.csv -o scores.csv
"""


@verb(example=EXAMPLE, memory=True)
@click.argument("model")
@click.argument("data")
@rows_out
@reading_options
def transform(
    talk: Talk, *, model: str, data: str, output: str | None, reading: Reading, memory: str
) -> None:
    """Write the scores of the rows of a file.

    Columns are found by the names that MODEL was fitted with; ids and labels of DATA come along.
    """
    opened = open_model(model)
    if opened.is_detector:
        msg = (
            f"{model} is a detector, which judges rows and gives no scores. Use mercer monitor {model} "
            f"{data}."
        )
        raise click.UsageError(msg)
    route = Route.of(talk, opened, data=data, output=output, reading=reading, memory=memory)
    names = [str(name) for name in opened.model.get_feature_names_out()]
    results = send(
        talk, opened, route, lambda _: names, lambda _, rows: opened.model.transform(rows)
    )
    talk.tell(results)
