"""The words of a kernel expression, and errors with a caret under the place."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from mercer._core.errors import KernelSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind: TypeAlias = Literal["number", "text", "name", "sign", "end", "space", "other"]

# A kernel that people write has a hundred characters; what a program writes may have more.
MOST_CHARACTERS = 20_000
# Columns of the text that are shown around the place of an error.
SHOWN = 72
LONGEST_MESSAGE = 500

# One alternative matches at every position, and none can match in two ways: no text is slow to read.
_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<number>(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<text>"[^"\\\n]*"|'[^'\\\n]*')
  | (?P<sign>\*\*|[-+*/()\[\],=.])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_HINTS = {
    "^": "Write ** for a power.",
    "×": "Write * for a product.",
    "·": "Write * for a product.",
    "−": "Write - for a minus.",
    "–": "Write - for a minus.",
    ";": "One expression is one kernel.",
    ":": "Write a parameter as gamma=0.5.",
    "{": "Brackets are round, lists have square ones.",
    **dict.fromkeys("“”„‘’`", "Write texts in plain quotes: 'median'."),
    **dict.fromkeys("\"'", "A text ends with the quote that it begins with, and has no backslash."),
}


@dataclass(frozen=True)
class Token:
    """A word, and where it stands: ``text[start:end]``."""

    kind: Kind
    word: str
    start: int
    end: int

    def __str__(self) -> str:
        return "the end of the text" if self.kind == "end" else repr(self.word)


def tokens(text: str) -> Iterator[Token]:
    """The words of the text, and a last one that is its end.

    Examples
    --------
    >>> [token.word for token in tokens("2*rbf()")]
    ['2', '*', 'rbf', '(', ')', '']
    """
    if len(text) > MOST_CHARACTERS:
        msg = (
            f"The expression has {len(text)} characters; at most {MOST_CHARACTERS} are read. "
            "Build such a kernel in Python."
        )
        raise fault(msg, text, 0, 1)
    for match in _TOKEN.finditer(text):
        kind, word = cast("Kind", match.lastgroup), match.group()  # the groups are the kinds
        if kind == "space":
            continue
        if kind == "other":
            code = "" if word.isascii() and word.isprintable() else f" (U+{ord(word):04X})"
            shown = word if word.isprintable() else "�"
            msg = f"Unexpected character {shown!r}{code}. {_HINTS.get(word, '')}".rstrip()
            raise fault(msg, text, *match.span())
        yield Token(kind, word, *match.span())
    yield Token("end", "", len(text), len(text))


# ── carets ──────────────────────────────────────────────────────────────────
def fault(message: str, text: str, start: int, end: int) -> KernelSyntaxError:
    """An error whose message shows the text, with a caret under ``text[start:end]``.

    Examples
    --------
    >>> print(fault("No such kernel.", "1 + rfb()", 4, 7))
    No such kernel.
      1 + rfb()
          ^~~
    """
    if len(message) > LONGEST_MESSAGE:  # names and texts in it may be as long as the user likes
        message = f"{message[:LONGEST_MESSAGE]}…"
    left, right = _window(len(text), start, end)
    cut_left, cut_right = "…" if left > 0 else "", "…" if right < len(text) else ""
    line = f"{cut_left}{_printable(text[left:right])}{cut_right}"
    indent = _columns(cut_left + _printable(text[left:start]))
    under = max(1, _columns(_printable(text[start : min(end, right)])))
    return KernelSyntaxError(f"{message}\n  {line}\n  {' ' * indent}^{'~' * (under - 1)}")


def _window(length: int, start: int, end: int) -> tuple[int, int]:
    """What of a long text is shown: the place, and as much before it as after it."""
    if length <= SHOWN:
        return 0, length
    middle = (start + min(end, start + SHOWN // 2)) // 2
    left = max(0, min(middle - SHOWN // 2, length - SHOWN))
    return left, min(length, left + SHOWN)


def _printable(text: str) -> str:
    """One line that a terminal can show: no line ends, no control characters, no half characters."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in text)


def _columns(text: str) -> int:
    """Columns on a terminal: Chinese characters take two, accents that join the letter before none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
