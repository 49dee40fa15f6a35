"""Types of options: from what stands on the line, or in mercer.toml, to a value. Light to import."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Any, ClassVar

import click

from mercer._core.errors import InputError
from mercer._core.memory import parse_bytes

if TYPE_CHECKING:
    OptionType = click.ParamType[
        Any
    ]  # newer versions of Click say which type comes out; older can't
else:
    OptionType = click.ParamType


class Names(OptionType):
    """Names with commas between them; a name that has a comma itself stands in double quotes."""

    name = "names"
    takes_lists = True  # mercer.toml may have one

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """`a,b` as ("a", "b"); a list, as mercer.toml may have it, is taken as it is."""
        if isinstance(value, (list, tuple)):
            found = tuple(str(name) for name in value)
        else:
            found = tuple(
                name.strip() for name in next(csv.reader([str(value)], skipinitialspace=True), [])
            )
        if not all(found) or len(set(found)) != len(found) or not found:
            self.fail(
                f"{value!r} came; names with commas between them were needed, each once.",
                param,
                ctx,
            )
        return found


class Size(OptionType):
    """Height x width in pixels, such as 64x48."""

    name = "HxW"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """`64x48` as (64, 48)."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"\s*(\d{1,5})\s*[xX×]\s*(\d{1,5})\s*", str(value))
        if match is None or 0 in (size := (int(match[1]), int(match[2]))):
            self.fail(
                f"{value!r} came; a height and a width were needed, such as 64x48.", param, ctx
            )
        return size


class Delimiter(OptionType):
    """One character, or its name."""

    name = "char"
    NAMES: ClassVar = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """`tab` as the character."""
        found = self.NAMES.get(str(value).lower(), str(value))
        if len(found) != 1:
            self.fail(
                f"{value!r} came; one character was needed, or tab, comma, semicolon, space.",
                param,
                ctx,
            )
        return found


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
