"""Pictures as files: PNG, SVG or PDF, written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mercer._core.atomic import replacing
from mercer.cli.options import OptionType
from mercer.data.frames import need

SUFFIXES = ("png", "svg", "pdf")

# The same picture is the same file: no date in it, and names that are counted, not drawn by lot.
UNDATED = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
SALT: dict[Any, Any] = {"svg.hashsalt": "mercer"}


class PicturePath(OptionType):
    """A file name whose suffix says which kind of picture it is to be."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(value)
        if not path.name:
            self.fail("it needs a file name; got an empty one.", param, ctx)
        suffix = path.suffix.lower().lstrip(".")
        if suffix not in SUFFIXES:
            hint = f"Use {str(path.with_suffix('.png'))!r}, for example."
            self.fail(f"it must end in .png, .svg or .pdf; got {str(value)!r}. {hint}", param, ctx)
        return path


def need_matplotlib() -> None:
    """Raise, with the command that installs it, when there is no matplotlib; no picture opens a window."""
    need("matplotlib", extra="plot").use("agg")


def new_figure(size: tuple[float, float]) -> Any:
    """A matplotlib figure of so many inches, or an error with the command that installs matplotlib.

    It is not one of pyplot's: it needs no display, and does not have to be closed.
    """
    return need("matplotlib.figure", extra="plot").Figure(figsize=size, layout="constrained")


def verbatim(text: str) -> str:
    r"""A user's text as matplotlib shows it: no formula between dollars, nothing hidden by a first _.

    Examples
    --------
    >>> verbatim("5 $ or 6 $")
    '5 \\$ or 6 \\$'
    """
    shown = text.replace("$", r"\$")
    return f"\N{WORD JOINER}{shown}" if shown.startswith("_") else shown  # else no legend has it


def save(figure: Any, path: Path, *, dpi: int = 120) -> None:
    """Write a matplotlib figure; a file that was there stays as it was until the new one is whole."""
    from matplotlib import rc_context

    suffix = path.suffix.lower().lstrip(".")
    with rc_context(SALT), replacing(path) as file:
        figure.savefig(file, format=suffix, dpi=dpi, metadata=UNDATED[suffix])
