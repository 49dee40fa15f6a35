"""Scores of the rows of a file, chunk by chunk: memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mercer._core.errors import many
from mercer._core.types import Array
from mercer.app.outcome import Request, Run, refuse
from mercer.app.rows import (
    OfModel,
    Opened,
    check_output,
    component_names,
    match_table,
    open_model,
    told_file,
)
from mercer.data.writers import SUFFIXES, open_writer
from mercer.preprocessing.align import MatchedTable

CHUNK_BYTES = 64 * 2**20  # numbers of a chunk, in and out; more would not be faster
SHARE = 16  # of the memory that is allowed: a chunk is copied a few times on its way


@dataclass(frozen=True)
class Sent:
    """Rows that went through a model: in a file, or here, with what stands beside them."""

    facts: dict[str, Any]
    rows: Array | None = None  # (n, k)
    ids: Any = None  # (n,) or None
    labels: Any = None  # (n,) or None


@dataclass(frozen=True, kw_only=True)
class OfRowsOut(OfModel, Request[Sent]):
    """A request for rows that went through a model.

    Parameters
    ----------
    output : str, optional
        A .csv, .tsv, .npy, .npz, .parquet or .arrow file, or ``-`` for CSV on the standard output. Without
        one the outcome holds the rows.
    """

    output: str | None = None

    def opened(self) -> Opened:
        """The model, once it is certain that the rows can be written."""
        if self.output is not None and self.output != "-":
            path = check_output(self.output, [self.data, self.model])
            if (ending := path.suffix.lower()) not in SUFFIXES:
                refuse(
                    "{output:{path}} {has}. It must end in one of {endings}.",
                    path=self.output,
                    endings=", ".join(SUFFIXES),
                    has=f"ends in {ending!r}" if ending else "has no extension",
                )
        return open_model(self.model)


@dataclass(frozen=True, kw_only=True)
class TransformRequest(OfRowsOut):
    """The scores of the rows of a file."""

    def fulfil(self, run: Run) -> Sent:
        """Columns are found by the names that the model was fitted with; ids and labels come along."""
        opened = self.opened()
        if opened.is_detector:
            refuse(
                "{model} must hold a model that gives scores; {path} holds a detector, which judges rows. "
                "Use mercer monitor {path} {data}.",
                path=self.model,
                data=self.data,
            )
        names = component_names(len(opened.model.get_feature_names_out()))
        table = match_table(run, self.data, opened)
        return send(run, table, self.output, names, opened.model.transform, dtype=opened.dtype)


def send(
    run: Run,
    table: MatchedTable,
    output: str | None,
    names: Sequence[str],
    through: Callable[[Array], Array],
    *,
    dtype: Any,
) -> Sent:
    """Write ``through(rows)`` of every chunk of prepared rows; ids and labels come along."""
    path = None if output in (None, "-") else Path(output)
    prepare, written, n, held = table.preparation, list(names), 0, list[Any]()
    width = 8 * (len(table.columns) + len(prepare.features) + len(written))
    height = max(1, min(CHUNK_BYTES, run.budget // SHARE) // width)
    replaced = path is not None and path.exists()
    beside = {"id_name": table.id_name, "label_name": table.label_name}
    file: Any = nullcontext()
    if output is not None:
        file = open_writer(output, written, **beside, dtype=dtype)
    with run.timed("rows"), file as writer:
        for chunk in table.chunks(height):
            rows = (through(prepare(chunk)), chunk.ids, chunk.labels)
            if writer is None:
                held.append(rows)
            else:
                writer.write(*rows)
            n += len(chunk)
            run.advance(n, table.n_rows, "rows")
    for note in (*table.fresh_notes(), *(() if writer is None else writer.notes)):
        run.note(note)
    facts = {"n": n, "columns": written, "id": table.id_name, "label": table.label_name}
    facts["output"] = None
    if output is None:  # all rows, ids and labels: a file has at least one row
        columns = zip(*held, strict=True)
        return Sent(facts, *(None if c[0] is None else np.concatenate(c) for c in columns))
    run.say(
        f"{table.source}: {many(n, 'row')}, {many(len(written), 'column')} written", "sent", n=n
    )
    if path is not None:
        run.say(told_file(path, replaced=replaced), "wrote", path=str(path))
        facts["output"] = {"path": str(path), "bytes": path.stat().st_size}
    return Sent(facts)
