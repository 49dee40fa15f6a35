"""Sentences that name parameters: Python's words as text, and as data for those who call them otherwise."""

from __future__ import annotations

import re
from string import Formatter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Mention = Callable[[str, str | None], str | None]

QUOTED = re.compile(r"`([A-Za-z_][\w.]*)(?:=([^`]*))?`")


class Message(str):
    """A sentence whose parameters are data.

    A field of the template that is not among the parts names a parameter, or whatever else has another name
    elsewhere: ``{memory}`` reads `` `memory` ``, ``{tol!s}`` reads ``tol``, and ``{preimage:'ridge'}`` reads
    ``preimage='ridge'``. A command line, whose users know the same parameters as flags, writes the same
    sentence in its own way.

    Parameters
    ----------
    template : str
        As for `str.format`, with names only.
    **parts : object
        Values of the other fields.

    Examples
    --------
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
        told = {
            name: part if isinstance(part, Message) else str(part) for name, part in parts.items()
        }
        message = super().__new__(cls, _filled(template, told, _in_python, lambda part: part))
        message.template, message.parts = template, told
        return message

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, str]]:
        return (self.template,), self.parts

    def written(self, mention: Mention) -> str:
        """The sentence with ``mention(name, value)`` where it names a parameter; no value is None.

        What `mention` does not know, and answers None for, stays in Python's words.
        """

        def asked(name: str, value: str | None, bare: bool) -> str:
            told = mention(name, value)
            return _in_python(name, value, bare) if told is None else told

        def nested(part: str) -> str:
            return part.written(mention) if isinstance(part, Message) else part

        return _filled(self.template, self.parts, asked, nested)


def written(text: str, mention: Mention) -> str:
    """What `Message.written` gives; of a plain text, what stands in backquotes is taken for a name.

    Examples
    --------
    >>> written("Raise `memory`, or use `impute='mean'`.", lambda name, value: f"--{name}")
    'Raise --memory, or use --impute.'
    """
    if isinstance(text, Message):
        return text.written(mention)
    return QUOTED.sub(lambda found: mention(found[1], found[2]) or found[0], text)


def _filled(
    template: str,
    parts: dict[str, str],
    mention: Callable[[str, str | None, bool], str],
    nested: Callable[[str], str],
) -> str:
    found = []
    for literal, field, spec, conversion in Formatter().parse(template):
        found.append(literal)
        if field is None:
            continue
        if field in parts:
            found.append(nested(parts[field]))
        else:
            value = spec.format(**parts) if spec else None
            found.append(mention(field, value, conversion == "s"))
    return "".join(found)


def _in_python(name: str, value: str | None, bare: bool) -> str:
    if value is not None:
        return f"{name}={value}"
    return name if bare else f"`{name}`"
