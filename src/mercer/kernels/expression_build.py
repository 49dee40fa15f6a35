"""From the tree of an expression to the objects that it describes."""

from __future__ import annotations

import inspect
import operator
from typing import TYPE_CHECKING, Any, NoReturn

from mercer._core.errors import KernelSyntaxError, nearest, quoted
from mercer.kernels.algebra import is_number, operand
from mercer.kernels.base import Kernel
from mercer.kernels.expression_tokens import fault
from mercer.kernels.expression_tree import (
    LARGEST_WHOLE,
    TOO_LARGE,
    Argument,
    Binary,
    Call,
    Items,
    Literal,
    Method,
    Node,
    Signed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mercer.kernels.expression_tokens import Token

METHODS = ("normalised", "on")
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
}


class Builder:
    """From a tree to what it describes. Whatever is wrong is told with its place."""

    def __init__(self, text: str, known: Mapping[str, type], *, what: str) -> None:
        self.text, self.what = text, what
        self.names = sorted(known)
        classes = {kind.__name__: kind for kind in known.values()}
        self.known = {_plain_name(name): kind for name, kind in {**classes, **known}.items()}

    def wrong(self, message: str, at: Node | Token) -> NoReturn:
        """Raise, with a caret under the place."""
        raise fault(message, self.text, at.start, at.end)

    def made(self, make: Callable[[], Any], at: Node | Token) -> Any:
        """What `make` gives; its complaints, and those of a kernel about its parameters, with the place."""
        try:
            value = make()
            if isinstance(value, Kernel):
                value.check_parameters()
        except KernelSyntaxError:
            raise
        except (
            TypeError,
            ValueError,
            ArithmeticError,
        ) as error:  # every InputError is a ValueError
            self.wrong(str(error), at)
        return value

    # ── values ──────────────────────────────────────────────────────────────
    def value(self, node: Node) -> Any:
        """A number, a text, None, True, False, a list, or what a call makes."""
        if isinstance(node, Literal):
            return node.value
        if isinstance(node, Items):
            return [self._item(part) for part in node.parts]
        if isinstance(node, Call):
            return self._called(node)
        if isinstance(node, Method):
            return self._method(node)
        if isinstance(node, Signed):
            return self._signed(node)
        assert isinstance(node, Binary)  # there are no others
        return self._binary(node)

    def _item(self, node: Node) -> Any:
        value = self.value(node)
        if not isinstance(value, (bool, int, float)):
            self.wrong(f"A list has numbers, True and False, but this is {in_words(value)}.", node)
        return value

    # ── calls ───────────────────────────────────────────────────────────────
    def _called(self, node: Call) -> Any:
        kind = self.known.get(_plain_name(node.name.word))
        if kind is None:
            self.wrong(
                f"Unknown {self.what} {quoted(node.name.word)}. {nearest(node.name.word, self.names)}",
                node.name,
            )
        positional, named = self._bound(kind.__name__, inspect.signature(kind), node.arguments)
        return self.made(lambda: kind(*positional, **named), node)

    def _method(self, node: Method) -> Any:
        target, name = self.value(node.target), node.name.word
        if not isinstance(target, Kernel):
            self.wrong(f"Kernels have methods, but this is {in_words(target)}.", node.target)
        if name not in METHODS:
            self.wrong(
                f"A kernel has no method {quoted(name)} here. {nearest(name, METHODS)}", node.name
            )
        method = getattr(target, name)
        positional, named = self._bound(f".{name}", inspect.signature(method), node.arguments)
        if name == "on" and not positional and not named:
            self.wrong("`on` needs columns: .on([0, 1]).", node.name)
        return self.made(lambda: method(*positional, **named), node)

    def _bound(
        self, who: str, signature: inspect.Signature, arguments: tuple[Argument, ...]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Arguments by position and by name, each of which exists and comes once."""
        known = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        names = [p.name for p in known]
        by_place = [p.name for p in known if p.kind is not p.KEYWORD_ONLY]
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for argument in arguments:
            if argument.name is None:
                if len(positional) == len(by_place):
                    most = f"at most {len(by_place)} without a name" if by_place else "none"
                    self.wrong(f"{who} takes arguments: {most}. This is one more.", argument.value)
                positional.append(self._argument(argument))
                continue
            name = argument.name.word
            if name not in names:
                hint = nearest(name, names) if names else "It has none."
                self.wrong(f"{who} has no parameter {quoted(name)}. {hint}", argument.name)
            if name in named or name in by_place[: len(positional)]:
                self.wrong(f"{name} came twice.", argument.name)
            named[name] = self._argument(argument)
        return positional, named

    def _argument(self, argument: Argument) -> Any:
        node = argument.value
        if isinstance(node, Call) and node.end == node.name.end:  # a bare word
            msg = f"A value was needed, but the name {node.name.word} came. Write texts in quotes: 'median'."
            self.wrong(msg, node)
        value = self.value(node)
        if isinstance(value, Kernel):
            self.wrong("A number, a text or a list was needed, but this is a kernel.", node)
        return value

    # ── algebra ─────────────────────────────────────────────────────────────
    def _signed(self, node: Signed) -> Any:
        value = self.value(node.operand)
        if is_number(value):
            return -value if node.sign.word == "-" else value
        if not isinstance(value, Kernel):
            self.wrong(f"A sign stands before a kernel or a number, not {in_words(value)}.", node)
        return self.made(lambda: -value, node) if node.sign.word == "-" else value

    def _binary(self, node: Binary) -> Any:
        left, right, sign = self.value(node.left), self.value(node.right), node.sign
        for value, part in ((left, node.left), (right, node.right)):
            if not is_number(value) and not isinstance(value, Kernel):
                self.wrong(
                    f"{sign} joins kernels and numbers, but this is {in_words(value)}.", part
                )
        if is_number(left) and is_number(right):
            return self._worked_out(node, left, right)
        if sign.word == "/":
            self.wrong("Kernels can't be divided. Multiply by a number: 0.5 * rbf().", sign)
        if sign.word == "**" and (isinstance(right, Kernel) or right - right != 0):
            what = "a kernel" if isinstance(right, Kernel) else repr(right)
            self.wrong(f"k ** p needs a whole p ≥ 1, but p is {what}.", node.right)
        if sign.word == "-" and is_number(left):  # as 1 - k in Python, if numbers knew kernels
            return self.made(lambda: operand(left) - right, node)
        at = sign if sign.word != "**" else node.right
        return self.made(lambda: _OPERATIONS[sign.word](left, right), at)

    def _worked_out(self, node: Binary, left: float, right: float) -> float:
        """Arithmetic of numbers; none that takes long, or leaves what NumPy can hold."""
        operation = _OPERATIONS[node.sign.word]
        whole = isinstance(left, int) and isinstance(right, int)
        try:
            about = operation(float(left), float(right))
        except ZeroDivisionError:
            self.wrong("This divides by zero.", node)
        except OverflowError:
            about = float("inf")
        if isinstance(about, complex):
            self.wrong("This has no real value.", node)
        finite = abs(left) < float("inf") and abs(right) < float("inf")
        if (whole and abs(about) > LARGEST_WHOLE) or (finite and abs(about) == float("inf")):
            self.wrong(TOO_LARGE, node)
        return operation(left, right) if whole else about


def _plain_name(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def in_words(value: Any) -> str:
    """A value in words."""
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, Kernel):
        return "a kernel"
    if isinstance(value, (list, str)):
        return "a list" if isinstance(value, list) else "a text"
    return "a number" if is_number(value) else f"a {type(value).__name__}"
