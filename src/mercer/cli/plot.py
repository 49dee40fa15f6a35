"""`mercer plot`: a model and its rows as pictures, one kind a call."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from mercer._core.errors import nearest
from mercer.app.rows import Opened, check_output, open_model, write_note
from mercer.cli.ending import refuse
from mercer.cli.options import NAMES, OptionType, Read, flagged, option, read_numbers, read_sides
from mercer.cli.plot_file import PicturePath, need_matplotlib, save, verbatim
from mercer.cli.verb import Call, verb

EXAMPLE = """\
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label --kernel "rbf(gamma=2)" --components 6 -o circles.mercer
mercer plot scores circles.mercer circles.csv -o scores.png
mercer plot levels circles.mercer circles.csv -o levels.svg"""


@dataclass(frozen=True)
class Kind:
    """A kind of picture: what it shows, whether it needs rows, of which models, and its own options."""

    shows: str
    needs_data: bool
    of: str
    options: frozenset[str] = frozenset()


ANY, DETECTOR, COLUMNS = "any model", "a detector", "a model of columns that is no detector"
TIME, COMPONENTS = frozenset({"time"}), frozenset({"components"})
KINDS = {
    "scores": Kind("two components, coloured by label", True, ANY, COMPONENTS | TIME),
    "spectrum": Kind("share of the variance of each component", False, ANY),
    "panels": Kind("data, PCA, kernel PCA and points taken back, of two variables", True, COLUMNS),
    "levels": Kind(
        "components as functions over two variables",
        True,
        COLUMNS,
        COMPONENTS | {"variables", "fixed"},
    ),
    "faces": Kind("mean face and eigenfaces of a model of images", False, COLUMNS, COMPONENTS),
    "reconstruction": Kind("rows beside what the components keep of them", True, COLUMNS),
    "chart": Kind("T² and Q of a detector over time", True, DETECTOR, TIME),
    "contributions": Kind("variables behind alarms over time", True, DETECTOR, TIME),
}


class KindName(OptionType):
    """One of the kinds of pictures; a misspelt one gets a hint."""

    name = "kind"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        del param, ctx
        return f"{{{'|'.join(KINDS)}}}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in KINDS:
            self.fail(f"Unknown picture {value!r}. {nearest(str(value), KINDS)}", param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        del ctx, param
        begun = [name for name in KINDS if name.startswith(incomplete)]
        return [CompletionItem(name, help=KINDS[name].shows) for name in begun]


def _inches(value: Any) -> tuple[float, float] | None:
    sides = read_sides(value, r"\d+(?:\.\d+)?")
    return sides if sides and all(0.5 <= side <= 100 for side in sides) else None


def _places(value: Any) -> tuple[int, ...] | None:
    found = read_numbers(value)
    return found if found and min(found) > 0 and len({*found}) == len(found) else None


INCHES = Read("WxH", "a width and a height in inches, 0.5 to 100, such as 6x4.5", _inches)
PLACES = Read("I,J,…", "numbers counted from 1, each once, such as 1,2", _places, takes_lists=True)


@verb("reading", "memory", example=EXAMPLE)
@click.argument("kind", type=KindName())
@click.argument("model", type=click.Path())
@click.argument("data", type=click.Path(allow_dash=True), required=False)
@option("-o --output", "A .png, .svg or .pdf file.", PicturePath(), required=True)
@option(
    "--components",
    "Which components, counted from 1: one or two for scores, any for levels and faces.",
    PLACES,
    envvar="MERCER_PLOT_COMPONENTS",  # not MERCER_COMPONENTS, which is how many to fit
)
@option("--variables", "The two variables that move in levels.", NAMES, metavar="A,B")
@option(
    "--fixed",
    "Where levels holds the other variables: at their medians, or as in a row, counted from 0.",
    "median|ROW",
    default="median",
)
@option(
    "--time",
    "Column that says when each row of a chart, or of a detector's scores, was taken.",
    "COLUMN",
)
@option("--title", "Written above the picture.")
@option("--size", "Width and height in inches; each kind has its own.", INCHES)
@option("--dpi", "Pixels an inch.", click.IntRange(20, 1200), default=120)
def plot(
    call: Call,
    *,
    kind: str,
    model: str,
    data: str | None,
    output: Path,
    title: str | None,
    size: tuple[float, float] | None,
    dpi: int,
    **chosen: Any,
) -> None:
    """Draw a model or its scores to PNG, SVG or PDF."""
    _check_usage(kind, data, chosen)
    replaced = check_output(str(output), [model, *filter(None, [data])]).exists()
    need_matplotlib()
    from mercer.cli.monitor import name_by_time
    from mercer.cli.plot_kinds import DRAW, Asked

    found = open_model(model)
    _check_model(kind, found)
    time = chosen.pop("time")
    name_by_time(call, time if "time" in KINDS[kind].options else None)
    asked = Asked(call, found, data, size, **chosen)
    with call.timed("draw"):
        figure = DRAW[kind](asked)
        if title is not None:
            under = figure.get_suptitle()  # says where other variables are held: it stays
            above = verbatim(title)
            figure.suptitle(f"{above}\n{under}" if under else above, fontsize=11)
        save(figure, output, dpi=dpi)
    call.say(write_note(output, replaced=replaced))
    inches = figure.get_size_inches()
    call.tell({"kind": kind, "file": output, "inches": inches, "dpi": dpi})


plot.help = f"{plot.help}\n\n\b"  # lines that stay as they are
for _name, _kind in KINDS.items():
    plot.help += f"\n{_name:<16}{_kind.shows}{'' if _kind.needs_data else '; needs no data'}"


def _check_usage(kind: str, data: str | None, chosen: dict[str, Any]) -> None:
    """Raise when something is missing, or was given that this kind of picture has no use for."""
    known = KINDS[kind]
    if known.needs_data and data is None:
        refuse(f"A picture of {kind} needs rows: mercer plot {kind} MODEL DATA -o FILE")
    if not known.needs_data and data is not None:
        refuse(f"A picture of {kind} needs no rows; got {data!r}: leave it out.")
    for name in chosen:
        if name not in known.options and flagged(name):
            whose = " and ".join(kind for kind, other in KINDS.items() if name in other.options)
            refuse(f"--{name} is for {whose}, and {kind} has no use for it: leave it out.")


def _check_model(kind: str, found: Opened) -> None:
    """Raise when the model is not of the kind that the picture is about."""
    of, path = KINDS[kind].of, str(found.path)
    if of == DETECTOR and not found.is_detector:
        refuse(
            f"A picture of {kind} needs a detector, but {path!r} holds a {type(found.model).__name__}. "
            "Fit one: mercer fit DATA --model detector -o detector.mercer"
        )
    if of == COLUMNS and found.is_precomputed:
        refuse(
            f"{path!r} was fitted to a kernel matrix, which says nothing about variables or pixels. Draw its "
            "scores or its spectrum."
        )
    if of == COLUMNS and found.is_detector:
        refuse(
            f"{path!r} holds a detector, of which {kind} is not drawn. Draw its chart: mercer plot chart "
            f"{path} DATA -o chart.png"
        )
