"""Files at the command line: the options that say how to read one, and files matched to a model."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

import click

from mercer._core.errors import DataError, many
from mercer._core.memory import parse_bytes
from mercer.cli.option_types import Delimiter, Names, Size
from mercer.cli.progress import watched

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mercer._core.types import Array
    from mercer.cli.frame import Talk
    from mercer.data.table import Reading, TableFile
    from mercer.io.preparation import Preparation
    from mercer.io.prepare import Sheet

__all__ = [
    "Names",
    "Opened",
    "complete_columns",
    "match_table",
    "open_model",
    "preparing_options",
    "read_sheet",
    "read_training",
    "reading_options",
    "require_two_rows",
    "say_read",
]

FORMATS = ("csv", "tsv", "npy", "npz", "images", "parquet", "arrow", "hdf5", "h5ad")


# ── how to read: options ────────────────────────────────────────────────────
def complete_columns(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of columns of the file that stands on the line already; only its head is read."""
    from mercer.data.formats import open_table
    from mercer.data.table import Reading

    del param
    names: list[str] = []
    # While an option waits for its value, Click has not yet said which words are which argument.
    for path in filter(None, (ctx.params.get("data"), *ctx.args)):
        with suppress(Exception):  # a shell that completes has no use for an error, whichever it is
            if str(path) != "-":
                names = [column.name for column in open_table(path, Reading()).columns]
    before, comma, begun = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(begun)]


OPTIONS = (
    click.option(
        "--columns",
        type=Names(),
        metavar="A,B,…",
        shell_complete=complete_columns,
        help="Columns to use; all but --id and --label otherwise.",
    ),
    click.option(
        "--label",
        metavar="COLUMN",
        shell_complete=complete_columns,
        help="Column of labels: kept beside the rows, no feature.",
    ),
    click.option(
        "--id",
        metavar="COLUMN",
        shell_complete=complete_columns,
        help="Column that names the rows: kept beside them, no feature.",
    ),
    click.option(
        "--format",
        type=click.Choice(FORMATS),
        help="Format of the data, where its name does not tell.",
    ),
    click.option("--delimiter", type=Delimiter(), help="Between the fields of a CSV; guessed."),
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        default=".",
        show_default=True,
        help="Decimal mark of a CSV; a comma is guessed where numbers are written with one.",
    ),
    click.option(
        "--header/--no-header", default=None, help="Whether a CSV begins with names; guessed."
    ),
    click.option("--array", metavar="NAME", help="Which array of an NPZ or HDF5 file."),
    click.option(
        "--image-size",
        type=Size(),
        metavar="HxW",
        help="Bring all images to this height and width, such as 64x48.",
    ),
    click.option(
        "--dtype",
        type=click.Choice(["float32", "float64"]),
        help="Precision to work in; that of the file otherwise.",
    ),
)

PREPARING = (
    click.option(
        "--scale",
        type=click.Choice(["standard", "none"]),
        default="standard",
        show_default=True,
        help="standard: every column to mean 0 and standard deviation 1.",
    ),
    click.option(
        "--impute",
        type=click.Choice(["mean", "median", "zero"]),
        help="What to put where a value is missing; otherwise missing values are refused.",
    ),
    click.option("--one-hot", is_flag=True, help="A column of 0 and 1 for each category."),
)


def reading_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how a file is to be read; the verb gets one argument, `reading`."""

    def run(*args: Any, **options: Any) -> Any:
        from mercer.data.table import Reading

        names = [field.name for field in fields(Reading)]
        given = {name: options.pop(name) for name in names if name in options}
        return function(*args, reading=Reading(**given), **options)

    update_wrapper(run, function)  # the options below it come along
    decorated: Callable[..., Any] = run
    for option in reversed(OPTIONS):
        decorated = option(decorated)
    return decorated


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
        """What the one who saved it wrote down: the command, its options, what was done to the data."""
        found = self.header.get("about")
        return found if isinstance(found, dict) else {}

    @property
    def is_detector(self) -> bool:
        """Whether it judges rows, in place of giving scores."""
        return hasattr(self.model, "monitor")


def open_model(path: Path | str) -> Opened:
    """The model in a file, checked to the last byte before anything of it is used."""
    from pathlib import Path

    from mercer.estimators.prepared import Prepared
    from mercer.io import model_file

    found = Path(path)
    header, whole = model_file.read_header(found), model_file.load(found)
    if isinstance(whole, Prepared):
        return Opened(whole.model, whole.preparation, header, found)
    return Opened(whole, None, header, found)


# ── rows ────────────────────────────────────────────────────────────────────
def preparing_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of verbs that fit: --scale, --impute and --one-hot."""
    for option in reversed(PREPARING):
        function = option(function)
    return function


def read_training(
    talk: Talk,
    path: str,
    reading: Reading,
    memory: str,
    *,
    scale: str = "standard",
    impute: str | None = None,
    one_hot: bool = False,
    scaled_later: bool = False,
    weights: Array | None = None,
) -> tuple[Sheet, Preparation]:
    """Rows to fit to, and what was learned to prepare them; what was done to them is said.

    `scaled_later`: the model that they go to standardises them itself.
    """
    from mercer.data.formats import open_table
    from mercer.io.preparation import Preparation
    from mercer.io.prepare import prepared_rows

    budget = parse_bytes(memory)
    with talk.timed("read"), watched(talk, f"reading {path}"):
        table = open_table(path, reading)
        now = "none" if scaled_later else scale
        preparation, notes = Preparation.learn(
            table,
            scale=now,
            impute=impute,
            one_hot=one_hot,
            memory_bytes=budget,
            weights=weights,
        )
        sheet = prepared_rows(table, preparation, memory_bytes=budget)
    if scale == "none":
        notes = (*notes, "columns are not scaled")
    elif scaled_later:
        notes = (*notes, "the model standardises every column itself")
    say_read(talk, table, sheet, (*notes, *sheet.notes))
    require_two_rows(path, int(sheet.rows.shape[0]))
    return sheet, preparation


def require_two_rows(path: str, n: int) -> None:
    """Raise where there is no variance to speak of, for want of rows."""
    if n < 2:
        msg = f"{path} must have at least 2 rows, of which the variance is taken; got {n}."
        raise DataError(msg)


def say_read(talk: Talk, table: TableFile, sheet: Sheet, notes: tuple[str, ...]) -> None:
    """How much was read, and what was done to it."""
    n, d = sheet.rows.shape
    talk.say(f"{table.source}: {many(n, 'row')}, {many(d, 'feature')}")
    for note in notes:
        talk.note(note)


def match_table(
    talk: Talk, path: str, reading: Reading, opened: Opened, *, gaps: bool = False
) -> tuple[TableFile, Preparation]:
    """A file of new rows opened for a model, and how its rows become the model's.

    Columns are found by name. The columns that name and label the rows are those of the training file,
    where the new file has them. What is left out is said. With `gaps` missing values stay, as NaN.
    """
    from mercer.data.formats import open_table
    from mercer.io.preparation import Preparation
    from mercer.io.prepare import matched

    table, preparation = open_table(path, reading), opened.preparation
    if preparation is None:  # a model that Python saved: it takes rows as they are
        names = getattr(opened.model, "feature_names_in_", [c.name for c in table.columns])
        preparation = Preparation(numbers=tuple(map(str, names)))
    found = matched(table, preparation, gaps=gaps)
    for note in found.fresh_notes():
        talk.note(note)
    return found, preparation


def read_sheet(
    talk: Talk, path: str, reading: Reading, opened: Opened, memory: str, *, gaps: bool = False
) -> Sheet:
    """New rows, prepared for the model of `opened`; what was left out is said."""
    from mercer.io.prepare import prepared_rows

    with talk.timed("read"), watched(talk, f"reading {path}"):
        table, preparation = match_table(talk, path, reading, opened, gaps=gaps)
        sheet = prepared_rows(table, preparation, memory_bytes=parse_bytes(memory))
    say_read(talk, table, sheet, sheet.notes)
    return sheet
