"""`mercer transform`: scores of the rows of a file, chunk by chunk: memory does not grow with the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import numpy as np

from mercer._core.errors import many
from mercer.cli.data import Opened, match_table, open_model
from mercer.cli.ending import refuse
from mercer.cli.output import check_output_or_stdout, told_file
from mercer.cli.progress import counted
from mercer.cli.verb import Call, verb
from mercer.data.write import open_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mercer._core.types import Array
    from mercer.preprocessing.preparation import Preparation

CHUNK_BYTES = 64 * 2**20  # numbers of a chunk, in and out; more would not be faster
SHARE = 16  # of the memory that is allowed: a chunk is copied a few times on its way
EXAMPLE = """
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label -o model.mercer
mercer transform model.mercer circles.csv -o scores.csv
"""

rows_out = click.option(
    "--output",
    "-o",
    metavar="FILE",
    help="Where to write: .csv, .tsv, .npy, .npz, .parquet or .arrow; CSV on stdout otherwise.",
)


@verb("reading", "memory", example=EXAMPLE)
@click.argument("model")
@click.argument("data")
@rows_out
def transform(call: Call, *, model: str, data: str, output: str | None) -> None:
    """Write the scores of the rows of a file.

    Columns are found by the names that MODEL was fitted with; ids and labels of DATA come along.
    """
    opened = open_model(model)
    if opened.is_detector:
        refuse(
            f"{model} is a detector, which judges rows and gives no scores. Use mercer monitor {model} "
            f"{data}."
        )
    names = [str(name) for name in opened.model.get_feature_names_out()]
    results = send(
        call,
        opened,
        data,
        output,
        names=lambda _: names,
        through=lambda _, rows: opened.model.transform(rows),
    )
    call.tell(results)


def send(
    call: Call,
    opened: Opened,
    data: str,
    output: str | None,
    *,
    names: Callable[[Preparation], Sequence[str]],
    through: Callable[[Preparation, Array], Array],
) -> dict[str, Any]:
    """Write ``through(preparation, rows)`` of every chunk of prepared rows; ids and labels come along."""
    clash = "--json came, but stdout takes the rows already. Name a file for them with -o."
    path = check_output_or_stdout(call, output or "-", [data, str(opened.path)], clash=clash)
    table, preparation = match_table(call, data, opened)
    written, n = list(names(preparation)), 0
    width = 8 * (len(table.columns) + len(preparation.features) + len(written))
    height = max(1, min(CHUNK_BYTES, call.budget // SHARE) // width)
    replaced = path is not None and path.exists()
    with (
        call.timed("rows"),
        open_writer(
            path or "-",
            written,
            id_name=table.id_name,
            label_name=table.label_name,
            dtype=getattr(opened.model, "_dtype", np.dtype(np.float64)),
        ) as writer,
        counted(call, "rows", table.n_rows) as advance,
    ):
        for chunk in table.chunks(height):
            writer.write(through(preparation, preparation(chunk)), chunk.ids, chunk.labels)
            n += len(chunk)
            advance(len(chunk))
    for note in (*table.fresh_notes(), *writer.notes):
        call.note(note)
    call.say(f"{table.source}: {many(n, 'row')}, {many(len(written), 'column')} written")
    beside: dict[str, Any] = {"id": table.id_name, "label": table.label_name, "output": None}
    if path is not None:
        call.say(told_file(path, replaced=replaced))
        beside["output"] = {"path": str(path), "bytes": path.stat().st_size}
    return {"n": n, "columns": written, **beside}
