"""Files of a use case: rows to fit to, rows matched to a model, and models in and out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mercer._core.atomic import part_of, sweep
from mercer._core.errors import many, nearest, refuse_data
from mercer._core.memory import format_bytes
from mercer._core.types import Array
from mercer._core.wording import Message
from mercer.app.outcome import Run, plain, refuse
from mercer.data.formats import open_table
from mercer.data.table import Reading, Table
from mercer.estimators.anatomy import Anatomy
from mercer.estimators.input import check_weights
from mercer.estimators.prepared import Prepared
from mercer.persistence.model_file import opened
from mercer.preprocessing.align import MatchedTable, Sheet, learned_rows, matched, prepared_rows
from mercer.preprocessing.preparation import Preparation

HEIGHT = 2**16  # weights at a time


# ── what requests share ─────────────────────────────────────────────────────
@dataclass(frozen=True, kw_only=True)
class OfRows:
    """A request about the rows of a file, ``-`` for the standard input."""

    data: str
    reading: Reading = field(default_factory=Reading)
    memory: str = "auto"


@dataclass(frozen=True, kw_only=True)
class OfModel(OfRows):
    """A request about new rows and a model file."""

    model: str


@dataclass(frozen=True, kw_only=True)
class OfTraining(OfRows):
    """A request that learns from rows how to prepare them. No `scale` is "standard", where that can be."""

    scale: Literal["standard", "none"] | None = None
    impute: Literal["mean", "median", "zero"] | None = None
    one_hot: bool = False
    seed: int = 0
    # For the header of a model file: the command, and its options as they were given.
    origin: dict[str, Any] = field(default_factory=dict)

    @property
    def preparing(self) -> dict[str, Any]:
        """What is done to the rows before a fit."""
        return {"scale": self.scale or "standard", "impute": self.impute, "one_hot": self.one_hot}

    @property
    def about(self) -> dict[str, Any]:
        """What the header of a model file says of its making."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        del own["origin"]
        options = plain({**own, "reading": asdict(self.reading)})
        return {"command": "", "options": options, **self.origin}


# ── files that are written ──────────────────────────────────────────────────
def check_output(output: str, inputs: Iterable[str], *, option: str = "output") -> Path:
    """The path, if a file can be written there: an hour of work must not end in a file that can't be."""
    path, named = Path(output), f"{{{option}:{{path}}}}"  # as a message names it
    if not output:
        refuse(f"{{{option}}} needs a file name; got an empty one.")
    for given in inputs:
        if given != "-" and _is_same(path, Path(given)):
            refuse(f"{named} is the file that is read. Name another.", path=output)
    if path.is_dir():
        refuse(f"{named} is a folder. Name a file in it.", path=output)
    if path.exists() and not path.is_file():  # a device would be replaced by a file
        refuse(f"{named} is not a plain file. Name one that is, or a new one.", path=output)
    part = part_of(Path(os.path.realpath(path)))  # beside the file that a link leads to
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError as error:
        there = path.parent.is_dir()
        why = error.strerror if there else "its folder does not exist; create it first"
        msg = Message(f"{named} can't be written: {{why}}.", path=output, why=why)
        raise OSError(msg) from error
    finally:  # also when the program is ended just here
        with suppress(OSError):
            part.unlink()
    sweep(path)
    return path


def require_different(paths: Iterable[str]) -> None:
    """Raise where two outputs are one file."""
    paths = list(paths)
    if len(set(map(os.path.realpath, paths))) < len(paths):
        listed = ", ".join(paths)
        refuse("{paths}: two of these are one file. Give each its own name.", paths=listed)


def write_note(path: Path, *, replaced: bool) -> str:
    """What is said about a file that was written, in one line whatever it is called."""
    what = "replaced" if replaced else "wrote"
    name = str(path) if str(path).isprintable() else repr(str(path))
    return f"{what} {name}, {format_bytes(path.stat().st_size)}"


def _is_same(path: Path, other: Path) -> bool:
    with suppress(OSError):
        return path.samefile(other)
    return False


def component_names(k: int) -> list[str]:
    """The columns of scores in a file, for people: numbered from 1, as in pictures and reports.

    Examples
    --------
    >>> component_names(2)
    ['component_1', 'component_2']
    """
    return [f"component_{i + 1}" for i in range(k)]


# ── models ──────────────────────────────────────────────────────────────────
@dataclass(frozen=True, eq=False)
class Opened(Anatomy):
    """A model file: the estimator in it, how its rows were prepared, and what its header says."""

    preparation: Preparation | None
    header: dict[str, Any]
    path: Path

    @property
    def about(self) -> dict[str, Any]:
        """What was written down when it was saved: the command, its options, what was done to the data."""
        found = self.header.get("about")
        return found if isinstance(found, dict) else {}


def open_model(path: Path | str) -> Opened:
    """The model in a file, checked to the last byte before anything of it is used."""
    found = Path(path)
    whole, header = opened(found)
    if header["prepared"] and not isinstance(whole, Prepared):
        whole = Prepared.from_pipeline(whole)
    if isinstance(whole, Prepared):
        return Opened(whole.model, whole.preparation, header, found)
    return Opened(whole, None, header, found)


def open_detector(path: str) -> Opened:
    """The model in a file; raise when it judges no rows."""
    found = open_model(path)
    if not found.is_detector:
        refuse(
            "{path} must hold a detector; it holds a {holds}. Fit one to rows in normal operation: mercer "
            "fit DATA --model detector -o detector.mercer",
            path=repr(str(found.path)),
            holds=type(found.model).__name__,
        )
    return found


def check_model_output(output: str | None, data: str) -> Path | None:
    """The path of a model to come, if it can be written there; None where none is to be kept."""
    if output == "-":
        refuse(
            "{output:-} is not a place for a model, which is not text. Name a file, such as model.mercer."
        )
    return None if output is None else check_output(output, [data])


def facts_of(sheet: Sheet) -> dict[str, Any]:
    """What the header of a model file says of rows."""
    n, d = sheet.rows.shape
    dtype = str(sheet.rows.dtype)
    return {"n": n, "d": d, "dtype": dtype, "digest": sheet.digest, "digest_of": "data"}


def keep_model(
    run: Run,
    path: Path,
    model: Any,
    sheet: Sheet,
    about: dict[str, Any],
    *,
    fitted: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the model with its preparation, and give the facts of the file.

    The header has what `about` says, and what was found on the way. `fitted` is what it says of the rows of
    the fit, where those of the sheet are others.
    """
    if fitted is None:
        found = {"notes": run.messages("note"), "warnings": run.messages("warning")}
        about, fitted = {**about, **found}, facts_of(sheet)
    replaced = path.exists()
    with run.timed("write"):
        Prepared(sheet.preparation, model).save(path, data=fitted, about=about)
    run.say(write_note(path, replaced=replaced), "wrote", path=str(path))
    return {"path": str(path), "bytes": path.stat().st_size, "digest": sheet.digest}


# ── rows to fit to ──────────────────────────────────────────────────────────
def open_data(run: Run, path: str) -> Table:
    """The file, opened as the request says."""
    with run.timed("read"):
        return open_table(path, run.reading)


def learn_rows(run: Run, table: Table, notes: Sequence[str] = (), **preparing: Any) -> Sheet:
    """The rows of a file, prepared by what is learned from them; notes say what was done to them."""
    with run.timed("read"):
        sheet, learned = learned_rows(table, memory_bytes=run.budget, **preparing)
    _say_read(run, table, sheet, (*learned, *notes, *sheet.notes))
    return sheet


def read_training(
    run: Run,
    path: str,
    preparing: dict[str, Any],
    *,
    table: Table | None = None,
    scaled_later: bool = False,
    weights: Array | None = None,
) -> Sheet:
    """Rows to fit to, of a `table` that is open already or a file.

    `scaled_later`: the model that they go to standardises them itself.
    """
    how, notes = dict(preparing), list[str]()
    if how["scale"] == "none":
        notes.append("columns are not scaled")
    elif scaled_later:
        how["scale"] = "none"
        notes.append("the model standardises every column itself")
    sheet = learn_rows(run, table or open_data(run, path), notes, weights=weights, **how)
    require_two_rows(path, int(sheet.rows.shape[0]))
    return sheet


def require_two_rows(path: str, n: int) -> None:
    """Raise where there are too few rows to have a variance."""
    if n < 2:
        refuse_data(f"{path} must have at least 2 rows, since one row has no variance; got {n}.")


def take_weights(run: Run, path: str, column: str | None, how: str) -> Array | None:
    """How often each row counts, by a column that is not a feature from here on; None: all count once.

    A note says that the rows have weights; `how` ends the sentence.
    """
    if column is None:
        return None
    if path == "-":
        refuse("{weights} reads the data twice, and a pipe can be read once. Write them to a file.")
    table = open_table(path, run.reading)
    if column not in table.names:
        wrong = f"{table.source} has no column {column!r}, as `weights` needs."
        refuse_data(wrong, nearest(column, table.names))
    alone = table.named_columns([column])
    if alone.columns[0].kind != "number":
        refuse_data(f"{table.source}: column {column!r} has words, and weights are numbers.")
    numbers = np.concatenate([chunk.numbers[:, 0] for chunk in alone.chunks(HEIGHT)])
    weights: Array | None = check_weights(numbers, len(numbers))
    features = tuple(c.name for c in table.columns if c.name != column)
    run.reading = replace(run.reading, columns=features)
    run.note(f"rows count as often as column {column!r} says{how}", "weights", column=column)
    return weights


def _say_read(run: Run, table: Table, sheet: Sheet, notes: Sequence[str]) -> None:
    n, d = sheet.rows.shape
    run.say(f"{table.source}: {many(n, 'row')}, {many(d, 'feature')}", "read", n=n, d=d)
    for note in notes:
        run.note(note)


# ── rows for a model ────────────────────────────────────────────────────────
def match_table(run: Run, path: str, opened: Opened, *, gaps: bool = False) -> MatchedTable:
    """A file of new rows opened for a model; its `preparation` makes the model's rows of them.

    Columns are found by name. The columns that name and label the rows are those of the training file,
    where the new file has them. What is left out is said. With `gaps` missing values stay, as NaN.
    """
    preparation, reading = opened.preparation, run.reading
    if reading.time_format is not None and reading.id is None and preparation is not None:
        reading = replace(reading, id=preparation.id)  # which has the times of the training file
    table = open_table(path, reading)
    if preparation is None:  # a model that Python saved: it takes rows as they are
        names = opened.feature_names or tuple(c.name for c in table.columns)
        preparation = Preparation(numbers=names)
    found = matched(table, preparation, gaps=gaps)
    for note in found.fresh_notes():
        run.note(note)
    return found


def read_sheet(run: Run, path: str, opened: Opened, *, gaps: bool = False) -> Sheet:
    """New rows, prepared for the model of `opened`; what was left out is said."""
    with run.timed("read"):
        table = match_table(run, path, opened, gaps=gaps)
        sheet = prepared_rows(table, table.preparation, memory_bytes=run.budget)
    _say_read(run, table, sheet, sheet.notes)
    return sheet
