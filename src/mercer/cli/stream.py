"""Rows of a file through a model and out again, chunk by chunk: memory does not grow with the file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from mercer._core.errors import many
from mercer._core.memory import parse_bytes
from mercer.cli.data import match_table
from mercer.cli.output import check_output, told_file
from mercer.cli.progress import counted
from mercer.io.write import open_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mercer._core.types import Array
    from mercer.cli.data import Opened
    from mercer.cli.frame import Talk
    from mercer.data.table import Reading
    from mercer.io.preparation import Preparation

CHUNK_BYTES = 64 * 2**20  # numbers of a chunk, in and out; more would not be faster
SHARE = 16  # of the memory that is allowed: a chunk is copied a few times on its way


rows_out = click.option(
    "--output",
    "-o",
    metavar="FILE",
    help="Where to write: .csv, .tsv, .npy, .npz, .parquet or .arrow; CSV on stdout otherwise.",
)


@dataclass(frozen=True)
class Route:
    """From where to where."""

    data: str
    output: str  # - is stdout
    reading: Reading
    memory: str

    @classmethod
    def of(
        cls,
        talk: Talk,
        opened: Opened,
        *,
        data: str,
        output: str | None,
        reading: Reading,
        memory: str,
    ) -> Route:
        """Checked before a row is read."""
        where = output or "-"
        if where == "-" and talk.as_json:
            msg = "--json came, but stdout takes the rows already. Name a file for them with -o."
            raise click.UsageError(msg)
        if where != "-":
            check_output(where, [data, str(opened.path)])
        return cls(data, where, reading, memory)


def send(
    talk: Talk,
    opened: Opened,
    route: Route,
    names: Callable[[Preparation], Sequence[str]],
    through: Callable[[Preparation, Array], Array],
) -> dict[str, Any]:
    """Write ``through(preparation, rows)`` of every chunk of prepared rows; ids and labels come along."""
    table, preparation = match_table(talk, route.data, route.reading, opened)
    written = list(names(preparation))
    width = 8 * (len(table.columns) + len(preparation.features) + len(written))
    height = max(1, min(CHUNK_BYTES, parse_bytes(route.memory) // SHARE) // width)
    replaced = route.output != "-" and Path(route.output).exists()
    n = 0
    with (
        talk.timed("rows"),
        open_writer(
            route.output,
            written,
            id_name=table.id_name,
            label_name=table.label_name,
            dtype=getattr(opened.model, "_dtype", np.dtype(np.float64)),
        ) as writer,
        counted(talk, "rows", table.n_rows) as advance,
    ):
        for chunk in table.chunks(height):
            writer.write(through(preparation, preparation(chunk)), chunk.ids, chunk.labels)
            n += len(chunk)
            advance(len(chunk))
    for note in (*table.fresh_notes(), *writer.notes):
        talk.note(note)
    talk.say(f"{table.source}: {many(n, 'row')}, {many(len(written), 'column')} written")
    result: dict[str, Any] = {"n": n, "columns": written, "id": table.id_name}
    result |= {"label": table.label_name, "output": None}
    if route.output != "-":
        path = Path(route.output)
        talk.say(told_file(path, replaced=replaced))
        result["output"] = {"path": str(path), "bytes": path.stat().st_size}
    return result
