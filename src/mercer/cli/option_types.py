"""Types of options: from what stands on the line, or in mercer.toml, to a value. Light to import."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Any, ClassVar

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


class Read(OptionType):
    """What `read` makes of a value; None where it is not what is `needed`."""

    needed: ClassVar[str]

    def read(self, value: Any) -> Any:
        """The value, or None."""
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value that was read."""
        found = self.read(value)
        if found is None:
            self.fail(f"it must be {self.needed}; got {value!r}.", param, ctx)
        return found


class Names(Read):
    """Names with commas between them; a name that has a comma itself stands in double quotes."""

    name = "names"
    takes_lists = True  # mercer.toml may have one
    needed = "names with commas between them, each once"

    def read(self, value: Any) -> tuple[str, ...] | None:
        """`a,b` as ("a", "b"); a list, as mercer.toml may have it, is taken as it is."""
        if isinstance(value, (list, tuple)):
            found = tuple(str(name) for name in value)
        else:
            fields = next(csv.reader([str(value)], skipinitialspace=True), [])
            found = tuple(name.strip() for name in fields)
        return found if found and all(found) and len(set(found)) == len(found) else None


class Size(Read):
    """Height x width in pixels, such as 64x48."""

    name = "HxW"
    needed = "a height and a width, such as 64x48"

    def read(self, value: Any) -> tuple[int, int] | None:
        """`64x48` as (64, 48)."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"\s*(\d{1,5})\s*[xX×]\s*(\d{1,5})\s*", str(value))
        size = (int(match[1]), int(match[2])) if match else (0, 0)
        return size if all(size) else None


class Delimiter(Read):
    """One character, or its name."""

    name = "char"
    needed = "one character, or tab, comma, semicolon, space"
    NAMES: ClassVar = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}

    def read(self, value: Any) -> str | None:
        """`tab` as the character."""
        found: str = self.NAMES.get(str(value).lower(), str(value))
        return found if len(found) == 1 else None


class Bytes(OptionType):
    """A size such as 2GB, or auto."""

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
