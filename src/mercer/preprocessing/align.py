"""A file as a model takes it: matched to a preparation by the names of its columns, then all of its rows."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import DataError
from mercer._core.memory import format_bytes
from mercer.data.columns import hint, listed
from mercer.data.digest import Digest
from mercer.data.spool import no_room
from mercer.data.table import Column, TableFile
from mercer.preprocessing.learn import Missing, chunk_height

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercer._core.types import Array
    from mercer.data.table import Chunk
    from mercer.preprocessing.preparation import Preparation


# ── columns ─────────────────────────────────────────────────────────────────
class MatchedTable(TableFile):
    """A file with the columns that a preparation needs, in its order.

    Missing values are counted as rows go by. Where the preparation has nothing to put in their place, the
    pass ends in an error that says how many there are; otherwise a note says how many were filled. With
    `gaps` they stay, as NaN, for a caller that can do with incomplete rows.
    """

    def __init__(self, table: TableFile, preparation: Preparation, *, gaps: bool = False) -> None:
        self.__dict__.update(table.__dict__)  # its notes too, which stay one list
        self._table, self.preparation, self._gaps = table, preparation, gaps

    def in_place(self) -> Any:
        return self._table.in_place()

    def _chunks(self, height: int) -> Iterator[Chunk]:
        missing, names = Missing(), self.preparation.numbers
        for chunk in self._table._chunks(height):
            missing.add(chunk, names)
            if self._gaps or not missing.first or self.preparation.fills is not None:
                yield chunk
            # Otherwise on to the end, so that the error can say how many there are.
        if self.preparation.fills is None and not self._gaps:
            missing.refuse(self.source)
        elif self.preparation.fills is not None and missing.total and "imputed" not in self.told:
            self.told.add("imputed")
            noun = "value" if missing.total == 1 else "values"
            self.notes.append(f"{missing.total} missing {noun} imputed in {missing.where}")


def matched(table: TableFile, preparation: Preparation, *, gaps: bool = False) -> MatchedTable:
    """The file with the features of the preparation, in its order; its notes say what was left out.

    Columns are found by name; others are left out and said. Where the file or the model has no names,
    columns are taken by position, and there have to be as many. What named and labelled the rows of the
    training file does so here, if the file has it and nothing else was asked for.
    """
    if isinstance(table, MatchedTable) and table.preparation is preparation:
        return table
    _require_size(table, preparation)
    id_, label = _beside(table, preparation)
    features = [c for c in table.columns if c.name not in (id_, label)]
    table = table.select(features, id_name=id_, label_name=label)
    wanted = [Column(name) for name in preparation.numbers]
    wanted += [Column(name, "category") for name, _ in preparation.categories]
    names = [column.name for column in table.columns]
    there = set(names)  # of many columns, a list would be looked through as many times
    absent = [column.name for column in wanted if column.name not in there]
    numbered = all(re.fullmatch(r"x[0-9]+", name) for name in preparation.numbers)
    nameless = not table.named or numbered
    if not table.named or (absent and nameless):
        _require_width(table, preparation)
    if absent and (preparation.categories or not nameless):
        raise _absent(table, absent)
    if absent:
        wanted = [Column(name) for name in names]
        which = "model" if table.named else "file"
        table.notes.append(f"columns are matched by position: the {which} has no names")
    known = {column.name for column in wanted}
    if extra := [name for name in names if name not in known]:
        table.notes.append(f"columns that the model does not use, left out: {listed(extra)}")
    return MatchedTable(table.select(wanted), preparation, gaps=gaps)


def _require_size(table: TableFile, preparation: Preparation) -> None:
    theirs, ours = table.image_shape, preparation.image_shape
    if theirs is not None and ours is not None and theirs != ours:
        msg = (
            f"{table.source} has images of {theirs[0]}x{theirs[1]} pixels, but the model was fitted to "
            f"{ours[0]}x{ours[1]}. Say --image-size {ours[0]}x{ours[1]}."
        )
        raise DataError(msg)


def _beside(table: TableFile, preparation: Preparation) -> tuple[str | None, str | None]:
    """The columns that are ids and labels by the training file, where the file has them free."""
    features = {column.name for column in table.columns} - set(preparation.numbers)
    id_, label = preparation.id, preparation.label
    return (
        id_ if table.id_name is None and id_ in features else None,
        label if table.label_name is None and label in features else None,
    )


def _require_width(table: TableFile, preparation: Preparation) -> None:
    here, there = len(table.columns), len(preparation.numbers) + len(preparation.categories)
    if here != there:
        msg = (
            f"{table.source} has {here} columns of features, but the model was fitted to {there}. Without "
            "names they are matched by position: name the ones to use with --columns, or those to keep "
            "beside them with --id and --label."
        )
        raise DataError(msg)


def _absent(table: TableFile, absent: list[str]) -> DataError:
    if not table.named:
        msg = (
            f"{table.source} has no names, but the model needs columns of words, {listed(absent)}, which "
            "are found by name. Give the file a header."
        )
        return DataError(msg)
    noun = "column" if len(absent) == 1 else "columns"
    names = [*(column.name for column in table.columns), *table.left_out]
    near = hint(absent[0], names)
    return DataError(
        f"{table.source} lacks the {noun} {listed(absent)}, which the model needs. {near}"
    )


# ── rows ────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, eq=False)
class Sheet:
    """Prepared rows, and what stands beside them.

    Attributes
    ----------
    rows : (n, d) array or memmap
        As the model takes them.
    ids, labels : (n,) arrays or None
        As the file has them.
    names : tuple of str
        Of the d columns.
    notes : tuple of str
        What was guessed, left out, filled or kept elsewhere, for people.
    digest : str
        SHA-256 of the rows before they were filled and scaled.
    preparation : Preparation
        What was done to them.
    """

    rows: Array
    ids: Any
    labels: Any
    names: tuple[str, ...]
    notes: tuple[str, ...]
    digest: str
    preparation: Preparation
    id_name: str | None = None
    label_name: str | None = None

    def raw(self, rows: slice = slice(None)) -> Array:
        """The rows, or some of them, in the units of the file."""
        return self.preparation.unscaled(np.asarray(self.rows[rows]))

    def __len__(self) -> int:
        return int(self.rows.shape[0])


def prepared_rows(table: TableFile, preparation: Preparation, *, memory_bytes: int) -> Sheet:
    r"""Read all rows of a file, and prepare them.

    Rows that fit in half of the memory are held in it. Others are written to a temporary file, which has
    no name and is gone when nobody uses it any more; but an NPY file to which nothing has to be done is
    used where it lies.

    Parameters
    ----------
    table : TableFile
        Its columns are matched to those of the preparation by name.
    preparation : Preparation
        What is done to them.
    memory_bytes : int
        What the work may use.

    Returns
    -------
    Sheet

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mercer.data.formats import open_table
    >>> from mercer.preprocessing.preparation import Preparation
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.csv")
    ...     _ = path.write_text("y,x\n1,2\n3,4\n")
    ...     sheet = prepared_rows(open_table(path), Preparation(("x", "y")), memory_bytes=10**6)
    >>> sheet.rows
    array([[2., 1.],
           [4., 3.]])
    """
    table = matched(table, preparation)
    limit = memory_bytes // 2
    mapped = table.in_place() if preparation.is_plain else None
    if mapped is not None and mapped.nbytes <= limit:
        mapped = None
    store = _Store(len(preparation.features), table.dtype, limit, keep=mapped is None)
    digest = Digest()
    ids: list[Any] = []
    labels: list[Any] = []
    for chunk in table.chunks(chunk_height(table)):
        coded = preparation.coded(chunk)
        digest.add(coded)
        store.add(preparation.scaled(preparation.filled(coded), chunk))
        ids.append(chunk.ids)
        labels.append(chunk.labels)
    rows = store.rows() if mapped is None else mapped
    return Sheet(
        rows,
        _joined(ids),
        _joined(labels),
        preparation.features,
        (*table.notes, *store.notes),
        digest.hex(rows.shape, rows.dtype),
        preparation,
        table.id_name,
        table.label_name,
    )


def _joined(parts: list[Any]) -> Any:
    return None if not parts or parts[0] is None else np.concatenate(parts)


class _Store:
    """Blocks of rows, held until they are too many, then in a temporary file without a name."""

    def __init__(self, d: int, dtype: np.dtype[Any], limit: int, *, keep: bool) -> None:
        self._d, self._dtype, self._limit, self._keep = d, dtype, limit, keep
        self._blocks: list[Array] = []
        self._file: Any = None
        self._n = 0
        self.notes: list[str] = []

    def add(self, block: Array) -> None:
        self._n += len(block)
        if not self._keep:
            return
        self._blocks.append(block)
        if self._file is not None or self._n * self._d * self._dtype.itemsize > self._limit:
            self._spill()

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="mercer-")  # noqa: SIM115
            for block in self._blocks:
                self._file.write(np.ascontiguousarray(block).view(np.uint8).data)
            self._file.flush()
        except OSError as error:
            raise no_room(error, "Rows that do not fit in memory") from error
        self._blocks.clear()

    def rows(self) -> Array:
        shape = (self._n, self._d)
        if self._file is not None:
            size = format_bytes(self._n * self._d * self._dtype.itemsize)
            self.notes.append(
                f"{size} of prepared rows are more than half of the memory: kept in a temporary file in "
                f"{tempfile.gettempdir()}"
            )
            with self._file:  # the map holds on to it
                return np.memmap(self._file, dtype=self._dtype, mode="r", shape=shape)
        if len(self._blocks) == 1:
            return self._blocks[0]
        out = np.empty(shape, self._dtype)
        start = 0
        self._blocks.reverse()
        while self._blocks:  # each is let go when it has its place: never all rows twice
            block = self._blocks.pop()
            out[start : start + len(block)] = block
            start += len(block)
        return out
