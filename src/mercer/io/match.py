"""A new file matched to a model: by the names of its columns, in whatever order they stand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mercer._core.errors import DataError
from mercer.io.layout import hint, listed
from mercer.io.missing import Missing
from mercer.io.table import Column, TableFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercer.io.preparation import Preparation
    from mercer.io.table import Chunk


class MatchedTable(TableFile):
    """A file with the columns that a preparation needs, in its order.

    Missing values are counted as rows go by. Where the preparation has nothing to put in their place, the
    pass ends in an error that says how many there are; otherwise a note says how many were filled. With
    `gaps` they stay, as NaN, for a caller that can do with incomplete rows.
    """

    def __init__(self, table: TableFile, preparation: Preparation, *, gaps: bool = False) -> None:
        self.__dict__.update(table.__dict__)  # its notes too, which stay one list
        self._table, self.preparation, self._gaps = table, preparation, gaps

    @property
    def columns(self) -> tuple[Column, ...]:
        return self._table.columns

    @property
    def id_name(self) -> str | None:
        return self._table.id_name

    @property
    def label_name(self) -> str | None:
        return self._table.label_name

    def in_place(self) -> Any:
        return self._table.in_place()

    def chunks(self, height: int) -> Iterator[Chunk]:
        missing, names = Missing(), self.preparation.numbers
        for chunk in self._table.chunks(height):
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
