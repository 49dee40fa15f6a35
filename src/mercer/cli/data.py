"""Files at the command line: rows to fit to, rows matched to a model, and models in and out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer._core.errors import DataError, many, nearest
from mercer.cli.ending import refuse
from mercer.cli.output import check_output, told_file
from mercer.cli.progress import watched
from mercer.cli.verb import Call, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer._core.types import Array
    from mercer.data.table import Table
    from mercer.preprocessing.align import Sheet
    from mercer.preprocessing.preparation import Preparation

HEIGHT = 2**16  # weights at a time


# ── models ──────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Opened:
    """A model file: the estimator in it, how its rows were prepared, and what its header says."""

    model: Any
    preparation: Preparation | None
    header: dict[str, Any]
    path: Path

    @property
    def about(self) -> dict[str, Any]:
        """What was written down when it was saved: the command, its options, what was done to the data."""
        found = self.header.get("about")
        return found if isinstance(found, dict) else {}

    @property
    def is_detector(self) -> bool:
        """Whether it judges rows, in place of giving scores."""
        return hasattr(self.model, "monitor")

    @property
    def is_precomputed(self) -> bool:
        """Whether it was fitted to kernel values, and never saw rows."""
        kernel = getattr(self.model, "kernel_", None)
        return kernel is not None and kernel.is_precomputed

    @property
    def has_way_back(self) -> bool:
        """Whether scores lead back to rows; scikit-learn's drop-in says it by another name."""
        known = getattr(self.model, "preimage", getattr(self.model, "fit_inverse_transform", True))
        return known is not None and known is not False


def open_model(path: Path | str) -> Opened:
    """The model in a file, checked to the last byte before anything of it is used."""
    from mercer.estimators.prepared import Prepared
    from mercer.io import model_file

    found = Path(path)
    header, whole = model_file.read_header(found), model_file.load(found)
    if isinstance(whole, Prepared):
        return Opened(whole.model, whole.preparation, header, found)
    return Opened(whole, None, header, found)


def check_model_output(output: str | None, data: str) -> Path | None:
    """The path of a model to come, if it can be written there; None where none is to be kept."""
    if output == "-":
        refuse(
            "-o - is not a place for a model, which is not text. Name a file, such as model.mercer."
        )
    return None if output is None else check_output(output, [data])


def keep_model(
    call: Call, path: Path, model: Any, preparation: Preparation, sheet: Sheet, **more: Any
) -> dict[str, Any]:
    """Write the model with its preparation, say so, and give what --json tells of it.

    The header has the command, the options, what was said and warned of, and whatever `more` there is.
    """
    from mercer.estimators.prepared import Prepared

    about = {
        "command": call.line,
        "options": plain(call.params),
        "notes": call.notes,
        "warnings": call.warnings,
        **more,
    }
    n, d = sheet.rows.shape
    data = {"n": n, "d": d, "dtype": str(sheet.rows.dtype), "digest": sheet.digest}
    replaced = path.exists()
    with call.timed("write"):
        Prepared(preparation, model).save(path, data={**data, "digest_of": "data"}, about=about)
    call.say(told_file(path, replaced=replaced))
    return {"path": str(path), "bytes": path.stat().st_size, "digest": sheet.digest}


# ── rows to fit to ──────────────────────────────────────────────────────────
def open_data(call: Call, path: str) -> Table:
    """The file, opened as the options of the call say."""
    from mercer.data.formats import open_table

    with call.timed("read"):
        return open_table(path, call.reading)


def learn_rows(
    call: Call, table: Table, notes: Sequence[str] = (), **preparing: Any
) -> tuple[Sheet, Preparation]:
    """The rows of a file, prepared by what is learned from them; what was done to them is said."""
    from mercer.preprocessing.align import learned_rows

    with call.timed("read"):
        sheet, preparation, learned = learned_rows(table, memory_bytes=call.budget, **preparing)
    _say_read(call, table, sheet, (*learned, *notes, *sheet.notes))
    return sheet, preparation


def read_training(
    call: Call, path: str, *, scaled_later: bool = False, weights: Array | None = None, **how: Any
) -> tuple[Sheet, Preparation]:
    """Rows to fit to, and what was learned to prepare them; `how` is what the options don't say.

    `scaled_later`: the model that they go to standardises them itself.
    """
    how, notes = {**call.preparing, **how}, list[str]()
    if how["scale"] == "none":
        notes.append("columns are not scaled")
    elif scaled_later:
        how["scale"] = "none"
        notes.append("the model standardises every column itself")
    with watched(call, f"reading {path}"):
        sheet, preparation = learn_rows(call, open_data(call, path), notes, weights=weights, **how)
    require_two_rows(path, int(sheet.rows.shape[0]))
    return sheet, preparation


def require_two_rows(path: str, n: int) -> None:
    """Raise where there are too few rows to have a variance."""
    if n < 2:
        msg = f"{path} must have at least 2 rows, of which the variance is taken; got {n}."
        raise DataError(msg)


def take_weights(call: Call, path: str, column: str | None, how: str) -> Array | None:
    """How often each row counts, by a column that is not a feature from here on; None: all count once.

    It is said that the rows have weights; `how` ends the sentence.
    """
    import numpy as np

    from mercer.data.formats import open_table
    from mercer.estimators.input import check_weights

    if column is None:
        return None
    if path == "-":
        refuse(
            "--weights reads the file twice, and a pipe can be read once. Write the data to a file."
        )
    table = open_table(path, call.reading)
    if column not in table.names:
        msg = f"{table.source} has no column {column!r} of weights. {nearest(column, table.names)}"
        raise DataError(msg)
    alone = open_table(path, replace(call.reading, columns=(column,), id=None, label=None))
    if alone.columns[0].kind != "number":
        msg = f"{table.source}: column {column!r} has words, and weights are numbers."
        raise DataError(msg)
    numbers = np.concatenate([chunk.numbers[:, 0] for chunk in alone.chunks(HEIGHT)])
    weights: Array | None = check_weights(numbers, len(numbers))
    features = tuple(c.name for c in table.columns if c.name != column)
    call.reading = replace(call.reading, columns=features)
    call.note(f"rows count as often as column {column!r} says{how}")
    return weights


def _say_read(call: Call, table: Table, sheet: Sheet, notes: Sequence[str]) -> None:
    n, d = sheet.rows.shape
    call.say(f"{table.source}: {many(n, 'row')}, {many(d, 'feature')}")
    for note in notes:
        call.note(note)


# ── rows for a model ────────────────────────────────────────────────────────
def match_table(
    call: Call, path: str, opened: Opened, *, gaps: bool = False
) -> tuple[Table, Preparation]:
    """A file of new rows opened for a model, and how its rows become the model's.

    Columns are found by name. The columns that name and label the rows are those of the training file,
    where the new file has them. What is left out is said. With `gaps` missing values stay, as NaN.
    """
    from mercer.data.formats import open_table
    from mercer.preprocessing.align import matched
    from mercer.preprocessing.preparation import Preparation

    table, preparation = open_table(path, call.reading), opened.preparation
    if preparation is None:  # a model that Python saved: it takes rows as they are
        names = getattr(opened.model, "feature_names_in_", [c.name for c in table.columns])
        preparation = Preparation(numbers=tuple(map(str, names)))
    found = matched(table, preparation, gaps=gaps)
    for note in found.fresh_notes():
        call.note(note)
    return found, preparation


def read_sheet(call: Call, path: str, opened: Opened, *, gaps: bool = False) -> Sheet:
    """New rows, prepared for the model of `opened`; what was left out is said."""
    from mercer.preprocessing.align import prepared_rows

    with call.timed("read"), watched(call, f"reading {path}"):
        table, preparation = match_table(call, path, opened, gaps=gaps)
        sheet = prepared_rows(table, preparation, memory_bytes=call.budget)
    _say_read(call, table, sheet, sheet.notes)
    return sheet
