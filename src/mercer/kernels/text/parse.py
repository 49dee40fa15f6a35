"""From a text to Python's own tree of it, and errors with a caret under the place. Nothing is evaluated."""

from __future__ import annotations

import ast
import re
import unicodedata

from mercer._core.errors import KernelSyntaxError

# A kernel that people write has a hundred characters; what a program writes may have more.
MOST_CHARACTERS = 20_000
# Levels of brackets, signs and terms. Python's own stack would end at some hundreds, and everything that
# walks through a kernel later (a copy, a text) takes several frames a level.
DEEPEST = 100
TOO_DEEP = (
    f"The expression has more than {DEEPEST} levels here. Leave out brackets that do nothing, and bracket "
    "the halves of a long sum: (a + b) + (c + d) has fewer levels than a + b + c + d."
)
# Each operator of a chain is a level to Python's parser, which recurses in C: thousands would end the
# process where a thread has a small stack.
MOST_OPERATORS = 500
TOO_MANY = (
    f"The expression has more than {MOST_OPERATORS} operators and methods, the most that are read. "
    "Build such a kernel in Python."
)
ONLY_IN_CALLS = "Names stand before = in a call only: rbf(gamma=0.5)."
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
  | (?P<end>\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
OPERATOR = re.compile(r"\*\*|[-+*/=]")
_HINTS = {
    "^": "Write ** for a power.",
    **dict.fromkeys("×·", "Write * for a product."),
    **dict.fromkeys("−–", "Write - for a minus."),
    ";": "One expression is one kernel.",
    ":": "Write a parameter as gamma=0.5.",
    "{": "Brackets are round, lists have square ones.",
    "#": "A text has no comments.",
    "\\": "A text may have several lines without it.",
    **dict.fromkeys("“”„‘’`", "Write texts in plain quotes: 'median'."),
    **dict.fromkeys("\"'", "A text ends with the quote that it begins with, and has no backslash."),
}
# What a token may follow, and what it is to the next one: a value; a name, which may be called; a dot; an
# operator, after which a value is needed; or the begin of a list, which may be empty.
_VALUE = ("value", "name")
_OPEN = ("begin", "operator")
_FITS: dict[str, tuple[tuple[str, ...], str]] = {
    **dict.fromkeys(("number", "text"), (_OPEN, "value")),
    "name": ((*_OPEN, "dot"), "name"),
    "(": ((*_OPEN, "name"), "begin"),
    "[": (_OPEN, "begin"),
    **dict.fromkeys((")", "]"), (("begin", *_VALUE), "value")),
    ",": (_VALUE, "begin"),
    ".": (_VALUE, "dot"),
    **dict.fromkeys(("+", "-"), ((*_OPEN, *_VALUE), "operator")),
    **dict.fromkeys(("*", "/", "**", "="), (_VALUE, "operator")),
    "end": (_VALUE, "end"),
    "other": ((), ""),
}
_CLOSING = {"(": ")", "[": "]"}


def parse(text: str) -> ast.expr:
    """The tree of an expression that neither begins nor ends with a space, with places in it.

    Python's parser sees brackets and operators only. Numbers, texts and names are identifiers of the same
    length to it, so that the columns of a node are its place in the text, and a parameter, ``gamma=0.5``, is
    a comparison, which may stand anywhere.

    >>> tree = parse("2*rbf(gamma='é')")
    >>> ast.unparse(tree)
    'x * xxx(xxxxx < xxx)'
    >>> tree.right.func.col_offset
    2
    """
    if len(text) > MOST_CHARACTERS:
        msg = (
            f"The expression has {len(text)} characters; at most {MOST_CHARACTERS} are read. "
            "Build such a kernel in Python."
        )
        raise fault(msg, text, 0, 1)
    plain = _masked(text)
    try:
        return ast.parse(plain, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # called with little stack left
        raise fault(TOO_DEEP, text, 0, len(text)) from None


def _masked(text: str) -> str:
    """The text for Python's parser; raises unless values, operators and brackets take turns."""
    seen: list[str] = []
    closings = [""]  # of the text, and of the brackets that are open
    before, operators = "begin", 0
    for match in _TOKEN.finditer(text):
        kind, word = str(match.lastgroup), match.group()
        if kind == "space":
            seen.append(" " * len(word))
            continue
        closing = closings[-1]
        follows, then = _FITS[word if kind == "sign" else kind]
        closes = word in ("", ")", "]")
        if before not in follows or (closes and word != closing) or (word == "," and not closing):
            raise _unexpected(text, match, before, closing)
        if closes:
            closings.pop()
        elif word in _CLOSING:
            closings.append(_CLOSING[word])
        operators += then == "dot" or (then == "operator" and before != "begin")
        deep = len(closings) > DEEPEST + 1
        if deep or operators > MOST_OPERATORS:
            raise fault(TOO_DEEP if deep else TOO_MANY, text, *match.span())
        before = then
        seen.append(word.replace("=", "<") if kind == "sign" else "x" * len(word))
    return "".join(seen)


def _unexpected(text: str, match: re.Match[str], before: str, closing: str) -> KernelSyntaxError:
    word = match.group()
    msg = f"Found {word!r}, but expected " if word else "Found the end of the text, but expected "
    if match.lastgroup == "other":
        code = "" if word.isascii() and word.isprintable() else f" (U+{ord(word):04X})"
        msg = f"Unexpected character {_printable(word)!r}{code}. {_HINTS.get(word, '')}".rstrip()
    elif before == "dot":
        msg += "a method, .on([0, 1]) or .normalised()."
    elif before not in _VALUE:
        msg += "a kernel, a number or a bracket."
    elif closing:
        msg += f"an operator, a comma or the closing bracket {closing}."
    else:
        msg += "an operator such as + or *, or the end of the text."
    return fault(f"{msg} {ONLY_IN_CALLS}" if word == "=" else msg, text, *match.span())


# ── carets ──────────────────────────────────────────────────────────────────
def fault(message: str, text: str, start: int, end: int) -> KernelSyntaxError:
    """An error whose message shows the text, with a caret under ``text[start:end]``.

    >>> print(fault("No such kernel.", "1 + rfb()", 4, 7))
    No such kernel.
      1 + rfb()
          ^~~
    """
    if len(message) > LONGEST_MESSAGE:  # names and texts in it may be as long as the user likes
        message = f"{message[:LONGEST_MESSAGE]}…"
    middle = (start + min(end, start + SHOWN // 2)) // 2  # as much is shown before it as after it
    left = max(0, min(middle - SHOWN // 2, len(text) - SHOWN))
    right = min(left + SHOWN, len(text))
    cut_left, cut_right = "…" if left > 0 else "", "…" if right < len(text) else ""
    line = f"{cut_left}{_printable(text[left:right])}{cut_right}"
    indent = _columns(cut_left + _printable(text[left:start]))
    under = max(1, _columns(_printable(text[start : min(end, right)])))
    return KernelSyntaxError(f"{message}\n  {line}\n  {' ' * indent}^{'~' * (under - 1)}")


def _printable(text: str) -> str:
    """One line that a terminal can show: no line ends, no control characters, no half characters."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in text)


def _columns(text: str) -> int:
    """Columns on a terminal: Chinese characters take two, accents that join the letter before none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
