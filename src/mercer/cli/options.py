"""Options: their types, and those that verbs share. Light to import."""

from __future__ import annotations

import csv
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mercer._core.errors import InputError
from mercer._core.memory import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    OptionType = click.ParamType[
        Any
    ]  # newer versions of Click say which type comes out; older can't
else:
    OptionType = click.ParamType

FORMATS = ("csv", "tsv", "npy", "npz", "images", "parquet", "arrow", "hdf5", "excel", "h5ad")
LARGEST_SEED = 2**32 - 1  # that scikit-learn takes, with which some verbs work


# ── types: from what stands on the line, or in mercer.toml, to a value ──────
class Read(OptionType):
    """What `read` makes of a value; None where it is not what is `needed`."""

    def __init__(
        self, name: str, needed: str, read: Callable[[Any], Any], *, takes_lists: bool = False
    ) -> None:
        self.name, self.needed, self.read = name, needed, read
        self.takes_lists = takes_lists  # mercer.toml may have one

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value that was read."""
        found = self.read(value)
        if found is None:
            self.fail(f"it must be {self.needed}; got {value!r}.", param, ctx)
        return found


def _names(value: Any) -> tuple[str, ...] | None:
    """`a,b` as ("a", "b"); a name that has a comma itself stands in double quotes."""
    if isinstance(value, (list, tuple)):
        found = tuple(str(name) for name in value)
    else:
        fields = next(csv.reader([str(value)], skipinitialspace=True), [])
        found = tuple(name.strip() for name in fields)
    return found if found and all(found) and len(set(found)) == len(found) else None


def read_numbers(value: Any) -> tuple[int, ...] | None:
    """`2,5` as (2, 5)."""
    parts = value if isinstance(value, (list, tuple)) else str(value).split(",")
    texts = [str(part).strip() for part in parts]
    fine = all(re.fullmatch(r"[0-9]{1,9}", text) for text in texts)
    return tuple(map(int, texts)) if fine else None


def read_sides(value: Any, number: str = r"\d{1,5}") -> tuple[float, float] | None:
    """`64x48` as (64.0, 48.0)."""
    if isinstance(value, tuple):
        return value
    match = re.fullmatch(rf"\s*({number})\s*[xX×]\s*({number})\s*", str(value))
    return (float(match[1]), float(match[2])) if match else None


def _size(value: Any) -> tuple[int, int] | None:
    height, width = read_sides(value) or (0, 0)
    return (int(height), int(width)) if height and width else None


def _character(value: Any) -> str | None:
    found = CHARACTERS.get(str(value).lower(), str(value))
    return found if len(found) == 1 else None


CHARACTERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
NAMES = Read("names", "names with commas between them, each once", _names, takes_lists=True)
SIZE = Read("HxW", "a height and a width, such as 64x48", _size)
DELIMITER = Read("char", "one character, or tab, comma, semicolon, space", _character)


class Bytes(OptionType):
    """A size such as 2GB, sizes by place, or auto."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as it is, if it is a size."""
        try:
            parse_bytes(value if isinstance(value, (int, float)) else str(value))
        except InputError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def flagged(name: str) -> bool:
    """Whether the running command was given the parameter on the line itself, not in a file for all."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


# ── options that verbs share ────────────────────────────────────────────────
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


def of_column(flag: str, text: str, **settings: Any) -> Callable[[Any], Any]:
    """An option that names columns of the data, which a shell completes."""
    settings = {"metavar": "COLUMN", **settings}
    return click.option(flag, shell_complete=complete_columns, help=text, **settings)


WEIGHTS = of_column("--weights", "Column that says how often each row counts.")
# Of these a verb takes groups by name; all verbs have the last group.
SHARED: dict[str, tuple[Callable[[Any], Any], ...]] = {
    "preparing": (
        click.option(
            "--scale",
            type=click.Choice(["standard", "none"]),
            default="standard",
            help="standard: every column to mean 0 and standard deviation 1.",
        ),
        click.option(
            "--impute",
            type=click.Choice(["mean", "median", "zero"]),
            help="What to put where a value is missing; otherwise missing values are refused.",
        ),
        click.option("--one-hot", is_flag=True, help="A column of 0 and 1 for each category."),
    ),
    "reading": (
        of_column(
            "--columns",
            "Columns to use; all but --id and --label otherwise.",
            type=NAMES,
            metavar="A,B,…",
        ),
        of_column("--label", "Column of labels: kept beside the rows, not a feature."),
        of_column("--id", "Column that names the rows: kept beside them, not a feature."),
        click.option(
            "--format",
            type=click.Choice(FORMATS),
            help="Format of the data, where its name does not tell.",
        ),
        click.option("--delimiter", type=DELIMITER, help="Between the fields of a CSV; guessed."),
        click.option(
            "--decimal",
            type=click.Choice([".", ","]),
            default=".",
            help="Decimal mark of a CSV; a comma is guessed where numbers are written with one.",
        ),
        click.option(
            "--header/--no-header", default=None, help="Whether a CSV begins with names; guessed."
        ),
        click.option(
            "--units-row/--no-units-row",
            default=None,
            help="Whether a line of units follows the names of a CSV; guessed.",
        ),
        click.option(
            "--na-values",
            type=NAMES,
            metavar="A,B,…",
            help="Texts that stand for a missing value, beside NA, null, ? and the like.",
        ),
        click.option(
            "--comment", metavar="TEXT", help="Skip lines of a CSV that begin with this text."
        ),
        click.option(
            "--skip-rows",
            type=click.IntRange(0),
            default=0,
            help="Lines to skip at the beginning of a CSV or a sheet.",
        ),
        click.option(
            "--time-format",
            metavar="FORMAT",
            help="How the times in --id are written, such as %d.%m.%Y %H:%M; guessed.",
        ),
        click.option(
            "--array",
            metavar="NAME",
            help="Which array of an NPZ or HDF5 file, or which sheet of a workbook.",
        ),
        click.option(
            "--image-size",
            type=SIZE,
            metavar="HxW",
            help="Bring all images to this height and width, such as 64x48.",
        ),
        click.option(
            "--dtype",
            type=click.Choice(["float32", "float64"]),
            help="Precision to work in; that of the file otherwise.",
        ),
    ),
    "seed": (
        click.option("--seed", type=click.IntRange(0, LARGEST_SEED), default=0, help="Seed."),
    ),
    "memory": (
        click.option(
            "--memory",
            type=Bytes(),
            default="auto",
            metavar="BYTES",
            help="What the work may use, such as 2GB, or by place: cuda=20GB,host=4GB; auto is a share of "
            "what is free.",
        ),
    ),
    "every": (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout."),
        click.option(
            "--quiet", "-q", is_flag=True, help="No talk on stderr but warnings and errors."
        ),
        click.option("--debug", is_flag=True, help="Show the traceback of a failure."),
        click.option(
            "--show-config",
            is_flag=True,
            help="Print every option, its value and where it comes from; do nothing.",
        ),
    ),
}
