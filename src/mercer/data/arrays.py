"""Tables that are one array: its rows, and what may stand beside them as other arrays of the file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from mercer._core.errors import DataError, quoted, refuse_data
from mercer._core.types import Array
from mercer.data.rows import float_dtype, require_rows
from mercer.data.table import Beside, Chunk, Reading, Table


class ArrayTable(Table):
    """Rows of one array. What names and labels them may be a column of it, or an array beside it."""

    random_access = True

    def __init__(
        self,
        source: str,
        shape: Sequence[int],
        stored: Any,  # dtype
        reading: Reading,
        *,
        names: Sequence[str] | None = None,
        ids: Beside = (None, None),
        labels: Beside = (None, None),
        notes: Iterable[str] = (),
    ) -> None:
        n, d = require_rows(shape, what=source)
        self.dtype = float_dtype(stored, what=source)
        self.n_rows, self.named = n, names is not None
        self._beside = ids, labels
        roles = replace(
            reading,
            id=reading.id if ids[0] is None else None,
            label=reading.label if labels[0] is None else None,
        )
        names = names or [f"x{j}" for j in range(d)]
        super().__init__(source, names, reading, roles=roles, notes=notes)

    @abstractmethod
    def _blocks(self, height: int, start: int) -> Iterator[Array]:
        """Consecutive slices of the array from `start` on, of at most `height` rows, as they are stored."""

    def _chunks(self, height: int, start: int) -> Iterator[Chunk]:
        layout, columns = self._layout, self.columns
        features = list(layout.features)
        words = [c.name for c in columns if c.kind == "category"]
        if words:
            msg = f"{self.source} has numbers, but the column {quoted(words[0])} of the model has words."
            refuse_data(msg, "Give a file that has them as words, such as CSV.")
        names = [c.name for c in columns]
        for block in self._blocks(height, start):
            rows = slice(start, start + len(block))
            every = features == list(range(block.shape[1]))
            chosen = block if every else block[:, features]
            self._warn_rounded(chosen, names, range(start, rows.stop))
            numbers = self._cast(chosen, names, start)
            ids, labels = (
                block[:, j] if j is not None else None if beside is None else beside[rows]
                for j, (beside, _) in zip((layout.id, layout.label), self._beside, strict=True)
            )
            yield Chunk(start, numbers, {}, ids, labels)
            start = rows.stop


def only_table(shapes: dict[str, tuple[int, ...]], noun: str, *, source: str) -> str:
    """The name of the only one of several arrays that has rows and columns."""
    tables = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(tables) == 1:
        return tables[0]
    if len(shapes) == 1 and (alone := next(iter(shapes.items()))) and len(alone[1]) == 1:
        msg = f"{source}: its only {noun[:-1]} {quoted(alone[0])} is 1-D {alone[1]}."
        raise DataError.saying(
            msg, "Use reshape(-1, 1) to store it as one column.", parameter="array"
        )
    there = ", ".join(f"{quoted(name)} {shape}" for name, shape in list(shapes.items())[:20])
    msg = f"{source} has {len(tables) or 'no'} {noun} of rows and columns."
    remedy = f"Name one with `array`; it has {there or 'nothing'}."
    raise DataError.saying(msg, remedy, parameter="array")


def require_entries(shape: Sequence[int], n: int, *, what: str) -> None:
    """Raise unless there is one entry for each row."""
    if tuple(shape) != (n,):
        refuse_data(f"{what} must have one entry for each of the {n} rows; got the shape {shape}.")
