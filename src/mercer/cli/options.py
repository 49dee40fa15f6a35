"""Options: their types, and those that verbs share. Light to import."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mercer._core.errors import InputError
from mercer._core.memory import parse_bytes

if TYPE_CHECKING:
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

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        del param, ctx
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
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
NAMES = Read("A,B,…", "names with commas between them, each once", _names, takes_lists=True)
SIZE = Read("HxW", "a height and a width, such as 64x48", _size)
DELIMITER = Read("CHAR", "one character, or tab, comma, semicolon, space", _character)


class Bytes(OptionType):
    """A size such as 2GB, sizes by place, or auto."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            parse_bytes(value if isinstance(value, (int, float)) else str(value))
        except InputError as error:
            self.fail(str(error).replace("memory must", "it must", 1), param, ctx)
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


def option(flags: str, text: str, kind: Any = None, **settings: Any) -> Callable[[Any], Any]:
    """An option by its flags and its help; its kind is a type, texts to choose from, bool, or a metavar."""
    if kind is bool:
        settings["is_flag"] = True
    elif isinstance(kind, str):
        settings["metavar"] = kind
    elif kind is not None:
        settings["type"] = click.Choice(kind) if isinstance(kind, (list, tuple)) else kind
    return click.option(*flags.split(), help=text, **settings)


def of_column(flag: str, text: str, kind: Any = None) -> Callable[[Any], Any]:
    """An option that names columns of the data, which a shell completes."""
    return option(flag, text, kind or "COLUMN", shell_complete=complete_columns)


WEIGHTS = of_column("--weights", "Column that says how often each row counts.")
# Of these a verb takes groups by name; all verbs have the last group.
SHARED: dict[str, tuple[Callable[[Any], Any], ...]] = {
    "preparing": (
        option(
            "--scale",
            "standard: every column to mean 0 and standard deviation 1.",
            ["standard", "none"],
            default="standard",
        ),
        option(
            "--impute",
            "What to put where a value is missing; otherwise missing values are refused.",
            ["mean", "median", "zero"],
        ),
        option("--one-hot", "A column of 0 and 1 for each category.", bool),
    ),
    "reading": (
        of_column("--columns", "Columns to use; all but --id and --label otherwise.", NAMES),
        of_column("--label", "Column of labels: kept beside the rows, not a feature."),
        of_column("--id", "Column that names the rows: kept beside them, not a feature."),
        option("--format", "Format of the data, where its name does not tell.", FORMATS),
        option("--delimiter", "Between the fields of a CSV; guessed.", DELIMITER),
        option(
            "--decimal",
            "Decimal mark of a CSV; a comma is guessed where numbers are written with one.",
            [".", ","],
            default=".",
        ),
        option("--header/--no-header", "Whether a CSV begins with names; guessed.", default=None),
        option(
            "--units-row/--no-units-row",
            "Whether a line of units follows the names of a CSV; guessed.",
            default=None,
        ),
        option("--na-values", "Texts for a missing value, beside NA, null, ? and the like.", NAMES),
        option("--comment", "Skip lines of a CSV that begin with this text.", "TEXT"),
        option(
            "--skip-rows",
            "Lines to skip at the beginning of a CSV or a sheet.",
            click.IntRange(0),
            default=0,
        ),
        option(
            "--time-format",
            "How the times in --id are written, such as %d.%m.%Y %H:%M; guessed.",
            "FORMAT",
        ),
        option("--array", "Which array of an NPZ or HDF5 file, or sheet of a workbook.", "NAME"),
        option("--image-size", "Bring all images to this height and width, such as 64x48.", SIZE),
        option("--dtype", "Precision to work in; the file's otherwise.", ["float32", "float64"]),
    ),
    "seed": (option("--seed", "Seed.", click.IntRange(0, LARGEST_SEED), default=0),),
    "memory": (
        option(
            "--memory",
            "What the work may use, such as 2GB, or by place: cuda=20GB,host=4GB; auto is a share of "
            "what is free.",
            Bytes(),
            default="auto",
            metavar="BYTES",
        ),
    ),
    "every": (
        option("--json as_json", "Print one JSON document on stdout.", bool),
        option("--quiet -q", "Print only warnings and errors to stderr.", bool),
        option("--debug", "Show the traceback of a failure.", bool),
        option(
            "--show-config",
            "Print every option, its value and where it comes from; do nothing.",
            bool,
        ),
    ),
}
