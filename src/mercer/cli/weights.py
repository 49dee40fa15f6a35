"""How often each row counts: a column of the file that is no feature."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click
import numpy as np

from mercer._core.errors import DataError, nearest
from mercer.data.formats import open_table
from mercer.estimators.input import check_weights

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.data.table import Reading

HEIGHT = 2**16  # rows at a time


def weight_column(path: str, reading: Reading, column: str) -> tuple[Reading, Array | None]:
    """How to read the features without that column, and its numbers; None where all are 1."""
    if path == "-":
        msg = (
            "--weights reads the file twice, and a pipe can be read once. Write the data to a file."
        )
        raise click.UsageError(msg)
    table = open_table(path, reading)
    if column not in table.names:
        msg = f"{table.source} has no column {column!r} of weights. {nearest(column, table.names)}"
        raise DataError(msg)
    features = tuple(c.name for c in table.columns if c.name != column)
    alone = open_table(path, replace(reading, columns=(column,), id=None, label=None))
    if alone.columns[0].kind != "number":
        msg = f"{table.source}: column {column!r} holds words, and weights are numbers."
        raise DataError(msg)
    weights = np.concatenate([chunk.numbers[:, 0] for chunk in alone.chunks(HEIGHT)])
    return replace(reading, columns=features), check_weights(weights, len(weights))
