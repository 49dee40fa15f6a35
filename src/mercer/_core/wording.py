"""Sentences that name parameters, as text in Python's words and as data for other front ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from string import Formatter
from typing import Any, TypeAlias

Mention: TypeAlias = Callable[[str, str | None], str | None]
# A name, and perhaps its value, in which texts in quotes may hold a backquote.
QUOTED = re.compile(
    r"""`([A-Za-z_][\w.]*)(?:=((?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^`'"])*))?`"""
)


# A number with a point that is written out; not a part of a name.
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?:e[+-]?\d+)?(?![\w.])")


def brief(value: object) -> str:
    """A kernel, a plan or whatever has numbers in its text, with four significant digits of each to read.

    What is to be typed in again takes `repr`, from which every bit comes back.

    >>> brief("RBF(gamma=0.09581957008344097) + 0.5 * Linear()")
    'RBF(gamma=0.09582) + 0.5 * Linear()'
    """

    def short(decimal: re.Match[str]) -> str:
        digits = decimal[0].partition("e")[0].replace(".", "").lstrip("0")
        return decimal[0] if len(digits) <= 4 else f"{float(decimal[0]):.4g}"

    return DECIMAL.sub(short, str(value))


class Message(str):
    """A sentence whose parameters are data.

    A field of the template that is not among the parts names a parameter: ``{memory}`` reads `` `memory` ``,
    ``{tol!s}`` reads ``tol``, and ``{preimage:'ridge'}`` reads ``preimage='ridge'``. A command line writes
    the same sentence with its flags.

    >>> text = Message("Raise {memory} to {size}, or use {preimage:'ridge'}.", size="2 GB")
    >>> print(text)
    Raise `memory` to 2 GB, or use preimage='ridge'.
    >>> text.written(lambda name, value: f"--{name} {value or ''}".rstrip())
    "Raise --memory to 2 GB, or use --preimage 'ridge'."
    """

    __slots__ = ("parts", "template")
    template: str
    parts: dict[str, str]

    def __new__(cls, template: str, /, **parts: Any) -> Message:
        parts = {name: p if isinstance(p, Message) else str(p) for name, p in parts.items()}
        message = super().__new__(cls, _filled(template, parts, lambda _name, _value: None))
        message.template, message.parts = template, parts
        return message

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, str]]:
        return (self.template,), self.parts

    def written(self, mention: Mention) -> str:
        """The sentence with ``mention(name, value)`` where it names a parameter; no value is None.

        Where `mention` returns None, the parameter is written as in Python.
        """
        return _filled(self.template, self.parts, mention)


def written(text: str, mention: Mention) -> str:
    """`Message.written`; in a plain text, what stands in backquotes is taken for a name.

    >>> written("Raise `memory`, or use `impute='mean'`.", lambda name, value: f"--{name}")
    'Raise --memory, or use --impute.'
    """
    if isinstance(text, Message):
        return text.written(mention)
    return QUOTED.sub(lambda found: mention(found[1], found[2]) or found[0], text)


def _filled(template: str, parts: dict[str, str], mention: Mention) -> str:
    """The text of a template; where `mention` returns None, a parameter is written as in Python."""
    found = []
    for literal, field, spec, conversion in Formatter().parse(template):
        found.append(literal)
        if field is None:
            continue
        if field in parts:
            part = parts[field]
            found.append(part.written(mention) if isinstance(part, Message) else part)
            continue
        value = spec.format(**parts) if spec else None
        text = mention(field, value)
        if text is None:
            bare = field if conversion == "s" else f"`{field}`"
            text = bare if value is None else f"{field}={value}"
        found.append(text)
    return "".join(found)
