"""From the words of a kernel expression to its tree, by precedence (Pratt, 1973). Nothing is evaluated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from mercer._core.errors import KernelSyntaxError
from mercer.kernels.expression_tokens import Token, fault, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

# Levels of brackets, signs and terms. Python's own stack would end at some hundreds, and everything that
# walks through a kernel later (a copy, a text) takes several frames a level.
DEEPEST = 100
# Whole numbers up to here are the same number to NumPy.
LARGEST_WHOLE = 2**63 - 1
MOST_DIGITS = 40
TOO_LARGE = "This number is too large. Write large numbers as 1e20, up to 1e308."

# How strongly a sign binds what stands left and right of it. A power binds to its right first, and a minus
# in front less than a power, as in Python: -x**2 is -(x**2).
_BINDING = {"+": (1, 2), "-": (1, 2), "*": (3, 4), "/": (3, 4), "**": (8, 7)}
_IN_FRONT = 5

Value: TypeAlias = "float | str | bool | None"


@dataclass(frozen=True)
class Node:
    """A part of an expression: the place it stands at, and how many levels it has."""

    start: int
    end: int
    height: int = field(default=0, kw_only=True)


@dataclass(frozen=True)
class Literal(Node):
    """A number, a text, True, False or None."""

    value: Value


@dataclass(frozen=True)
class Items(Node):
    """[a, b, …] or (a, b, …)."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Argument:
    """``value`` or ``name=value`` in a call."""

    name: Token | None
    value: Node


@dataclass(frozen=True)
class Call(Node):
    """name(arguments); a name alone is a call without any."""

    name: Token
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Method(Node):
    """target.name(arguments)."""

    target: Node
    name: Token
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Signed(Node):
    """-x or +x."""

    sign: Token
    operand: Node


@dataclass(frozen=True)
class Binary(Node):
    """left sign right."""

    sign: Token
    left: Node
    right: Node


_WORDS: dict[str, Value] = {
    "True": True,
    "False": False,
    "None": None,
    "inf": float("inf"),
    "nan": float("nan"),
}


def parse(text: str) -> Node:
    """The tree of an expression."""
    if not text.strip():
        msg = "The text is empty. An expression such as rbf(gamma=0.5) was needed."
        raise KernelSyntaxError(msg)
    parser = _Parser(text)
    node = parser.expression(0)
    if parser.next.kind != "end":
        parser.unexpected("an operator such as + or *, or the end of the text")
    return node


class _Parser:
    """Reads from left to right, one word ahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._words = tokens(text)
        self._depth = 0
        self.last = self.next = Token("end", "", 0, 0)
        self._step()

    # ── words ───────────────────────────────────────────────────────────────
    def _step(self) -> Token:
        """Take the next word."""
        self.last, self.next = self.next, next(self._words, self.next)
        return self.last

    def _at(self, *signs: str) -> bool:
        return self.next.kind == "sign" and self.next.word in signs

    def _need(self, sign: str, what: str) -> Token:
        if not self._at(sign):
            self.unexpected(what)
        return self._step()

    def unexpected(self, needed: str) -> NoReturn:
        """Raise: this word came, that was needed."""
        came = self.next
        msg = f"Found {came}. Needed here: {needed}."
        if came.word == "=":
            msg += " Names stand before = in a call only: rbf(gamma=0.5)."
        raise fault(msg, self.text, came.start, came.end)

    def _levels(self, *parts: Node, at: Token) -> int:
        """Levels of a node over these parts."""
        height = 1 + max((part.height for part in parts), default=0)
        if height > DEEPEST:
            self._too_deep(at)
        return height

    def _too_deep(self, at: Token) -> NoReturn:
        msg = (
            f"The expression has more than {DEEPEST} levels here. Leave out brackets that do nothing, and "
            "bracket the halves of a long sum: (a + b) + (c + d) has fewer levels than a + b + c + d."
        )
        raise fault(msg, self.text, at.start, at.end)

    # ── expressions ─────────────────────────────────────────────────────────
    def expression(self, least: int) -> Node:
        """An operand and all that binds to it at least this strongly."""
        self._depth += 1
        if self._depth > DEEPEST:
            self._too_deep(self.next)
        left = self._operand()
        while self.next.kind == "sign" and self.next.word in _BINDING:
            binds, binds_right = _BINDING[self.next.word]
            if binds < least:
                break
            sign = self._step()
            right = self.expression(binds_right)
            height = self._levels(left, right, at=sign)
            left = Binary(left.start, right.end, sign, left, right, height=height)
        self._depth -= 1
        return left

    def _operand(self) -> Node:
        if self._at("+", "-"):
            sign = self._step()
            operand = self.expression(_IN_FRONT)
            if isinstance(operand, Literal) and type(operand.value) in (int, float):
                value = operand.value if sign.word == "+" else -operand.value  # type: ignore[operator]
                return Literal(sign.start, operand.end, value)  # -1 is a number, not a level
            return Signed(
                sign.start, operand.end, sign, operand, height=self._levels(operand, at=sign)
            )
        node = self._atom()
        while self._at("."):
            self._step()
            if self.next.kind != "name":
                self.unexpected("a method, .on([0, 1]) or .normalised()")
            name = self._step()
            self._need("(", "the bracket of the call")
            arguments = self._arguments()
            height = self._levels(node, *(a.value for a in arguments), at=name)
            node = Method(node.start, self.last.end, node, name, arguments, height=height)
        return node

    def _atom(self) -> Node:
        came = self.next
        if came.kind == "number":
            return Literal(came.start, came.end, self._number(self._step()))
        if came.kind == "text":
            return Literal(came.start, came.end, self._step().word[1:-1])
        if came.kind == "name":
            return self._named()
        if self._at("("):
            return self._bracket()
        if self._at("["):
            self._step()
            return self._items(came, "]", [])
        return self.unexpected("a kernel, a number or a bracket")

    def _named(self) -> Node:
        name = self._step()
        if name.word in _WORDS:
            return Literal(name.start, name.end, _WORDS[name.word])
        if not self._at("("):
            return Call(name.start, name.end, name, (), height=1)
        self._step()
        arguments = self._arguments()
        height = self._levels(*(a.value for a in arguments), at=name)
        return Call(name.start, self.last.end, name, arguments, height=height)

    def _number(self, token: Token) -> float:
        word = token.word
        try:
            whole = len(word) <= MOST_DIGITS and word.replace("_", "").isdigit()
            value = int(word) if whole else float(word)
        except ValueError:  # underscores in odd places
            msg = f"{token} is no number."
            raise fault(msg, self.text, token.start, token.end) from None
        if value > LARGEST_WHOLE and (word.replace("_", "").isdigit() or value == float("inf")):
            raise fault(TOO_LARGE, self.text, token.start, token.end)
        return value

    # ── brackets ────────────────────────────────────────────────────────────
    def _bracket(self) -> Node:
        """(x) is x; (x,) and (x, y) are lists."""
        opening = self._step()
        if self._at(")"):
            return self._items(opening, ")", [])
        inner = self.expression(0)
        if self._at(","):
            self._step()
            return self._items(opening, ")", [inner])
        self._need(")", "an operator or the closing bracket )")
        return inner

    def _items(self, opening: Token, closing: str, parts: list[Node]) -> Node:
        while not self._at(closing):
            parts.append(self.expression(0))
            if not self._at(closing):
                self._need(",", f"a comma or the closing bracket {closing}")
        end = self._step().end
        height = self._levels(*parts, at=opening)
        return Items(opening.start, end, tuple(parts), height=height)

    def _arguments(self) -> tuple[Argument, ...]:
        """What stands between the brackets of a call, after the opening one."""
        found: list[Argument] = []
        while not self._at(")"):
            found.append(self._argument(found))
            if not self._at(")"):
                self._need(",", "a comma or the closing bracket )")
        self._step()
        return tuple(found)

    def _argument(self, before: Sequence[Argument]) -> Argument:
        value = self.expression(0)
        if self._at("=") and isinstance(value, Call) and value.end == value.name.end:
            self._step()
            return Argument(value.name, self.expression(0))
        if before and before[-1].name is not None:
            msg = "An argument without a name can't follow one with a name."
            if isinstance(value, Literal) and isinstance(before[-1].value, Literal):
                msg += " If this is the other half of a number, write it with a point: 0.5."
            raise fault(msg, self.text, value.start, value.end)
        return Argument(None, value)
