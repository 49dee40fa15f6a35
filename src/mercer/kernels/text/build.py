"""From the tree of a text to the kernel, or any other object, that it describes; and back to a text."""

from __future__ import annotations

import ast
import inspect
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from mercer._core.errors import KernelError, KernelSyntaxError, nearest, quoted
from mercer._core.params import is_number
from mercer.kernels.algebra import Constant
from mercer.kernels.base import Kernel
from mercer.kernels.custom import Custom
from mercer.kernels.names import (
    KERNELS,
    OF_OBJECTS,
    as_kernel,
    by_plain_name,
    kernel_classes,
    plain_name,
)
from mercer.kernels.text.parse import DEEPEST, ONLY_IN_CALLS, OPERATOR, TOO_DEEP, fault, parse

Place: TypeAlias = tuple[int, int]  # text[start:end]

METHODS = ("normalised", "on")
# Whole numbers up to here are the same number to NumPy.
LARGEST_WHOLE = 2**63 - 1
MOST_DIGITS = 40
TOO_LARGE = "This number is too large. Write large numbers as 1e20, up to 1e308."

_INF = float("inf")
_WORDS = {"True": True, "False": False, "None": None, "inf": _INF, "nan": float("nan")}
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
}
_DASHED = re.compile(r"\s*[A-Za-z_]\w*(?:-[A-Za-z_]\w*)+")


def parse_kernel(text: str) -> Kernel:
    """The kernel that an expression describes, written as in Python and never evaluated by it.

    Parameters
    ----------
    text : str
        Names of `mercer.kernels.KERNELS` or of kernel classes, in any case, called with numbers, texts,
        None, True, False and lists, by position or by name; ``+ - *`` between kernels and numbers, ``**``
        with a whole number, ``.on([0, 1])`` and ``.normalised()``. A name alone is a call without arguments,
        and numbers may be worked out: ``rbf(gamma=1/8)``.

    Returns
    -------
    Kernel

    Raises
    ------
    KernelSyntaxError
        The message has the text, with a caret under the place.

    Examples
    --------
    >>> parse_kernel("rbf(gamma=0.5) + 0.1*linear()")
    RBF(gamma=0.5) + 0.1 * Linear()
    >>> parse_kernel("poly(2).on([0, 1]).normalised()")
    Polynomial(degree=2, gamma=1.0, coef0=1.0).on([0, 1]).normalised()
    >>> parse_kernel("rbf(gama=0.5)")
    Traceback (most recent call last):
        ...
    mercer._core.errors.KernelSyntaxError: RBF has no parameter 'gama'. Did you mean 'gamma'? Known names:
    'gamma', 'sigma'.
      rbf(gama=0.5)
          ^~~~
    """
    if not isinstance(text, str):
        msg = f"A kernel text such as 'rbf(gamma=0.5)' must be a str; got a {type(text).__name__}."
        raise KernelError(msg)
    builder = _Builder(text, kernel_classes(), {*KERNELS, "constant"}, what="kernel")
    value = builder.value(builder.tree)
    if is_number(value):
        return builder.made(lambda: Constant(value), builder.tree)
    if not isinstance(value, Kernel):
        what = _in_words(value)
        msg = f"Expected a kernel, but this is {what}. Write one such as rbf(gamma=0.5)."
        builder.wrong(msg, builder.tree)
    return value


def kernel_text(kernel: Any) -> str:
    """The kernel as an expression that `parse_kernel` reads back, parameter by parameter.

    Parameters
    ----------
    kernel : Kernel or str

    Returns
    -------
    str
        As the kernel prints itself.

    Raises
    ------
    KernelError
        The kernel, or one inside it, is a Python function or a class that has no name here.

    Examples
    --------
    >>> from mercer.kernels import RBF, Linear
    >>> kernel_text(RBF(gamma=0.5) + (Linear() + 1.0))
    'RBF(gamma=0.5) + (Linear() + 1.0)'
    >>> kernel_text(lambda x, y: x @ y)
    Traceback (most recent call last):
        ...
    mercer._core.errors.KernelError: Custom(<lambda>) is a Python function, which has no text. ...
    """
    kernel = as_kernel(kernel)
    try:
        for node in kernel.shape().walk():
            part = getattr(node, "kernel", None)  # of what has no formula
            if isinstance(part, OF_OBJECTS):
                raise _without_text(part)
        text = repr(kernel)
        again = parse_kernel(text)
    except (KernelSyntaxError, RecursionError) as error:
        why = str(error).partition("\n")[0]
        msg = f"This kernel has no text that reads back: {why}"
        raise KernelError(msg) from error
    if kernel != again:  # better no text than one of another kernel
        msg = f"{kernel!r} has no text that reads back: {text!r} is another kernel."
        raise KernelError(msg)
    return text


def _without_text(part: Kernel) -> KernelError:
    what = "a Python function" if isinstance(part, Custom) else "an object of scikit-learn"
    return KernelError(
        f"{part!r} is {what}, which has no text. Use kernels of `mercer.kernels` and their sums, products "
        "and powers where a kernel has to be written down."
    )


def parse_call(
    text: str, known: Mapping[str, type], *, what: str = "name", also: Collection[str] = ()
) -> Any:
    """The object that a call such as ``rpcholesky(rank=500)``, or a name alone, describes.

    Names are those of `known` and of its classes; case does not matter, nor dashes and underscores. Messages
    call them a `what`, and list `also` other names.

    >>> from fractions import Fraction
    >>> parse_call("fraction(3, denominator=4)", {"fraction": Fraction})
    Fraction(3, 4)
    """
    # A name with dashes gets underscores: the same length, so that carets stay where they belong.
    text = _DASHED.sub(lambda name: name.group().replace("-", "_"), text.strip(), count=1)
    builder = _Builder(text, by_plain_name(known), {*known, *also}, what=what)
    called = builder.tree.func if isinstance(builder.tree, ast.Call) else builder.tree
    if not builder.is_name(called):
        hint = nearest("", {*known, *also})
        builder.wrong(f"Expected one {what} with its arguments. {hint}", builder.tree)
    return builder.value(builder.tree)


def _too_many(who: str, by_place: Sequence[str], names: Collection[str]) -> str:
    if not names:
        return f"{who} takes no arguments."
    other = next((name for name in names if name not in by_place), "")
    hint = f"; name the others, such as {other}=2" if other and by_place else ""
    count = "one unnamed argument" if len(by_place) == 1 else f"{len(by_place)} unnamed arguments"
    most = f"at most {count}" if by_place else "named arguments only"
    return f"{who} takes {most}{hint}."


class _Builder(ast.NodeVisitor):
    def __init__(
        self, text: str, classes: Mapping[str, type], names: Collection[str], *, what: str
    ) -> None:
        self.text = text.strip()
        if not self.text:
            msg = f"The text is empty; expected a {what}. {nearest('', names)}"
            raise KernelSyntaxError(msg)
        self.tree = parse(self.text)
        self._classes, self._names, self._what = classes, names, what
        self._level = 0

    def _word(self, node: ast.expr) -> str:
        return self.text[node.col_offset : node.end_col_offset]

    def wrong(self, message: str, at: ast.expr | Place) -> NoReturn:
        if isinstance(at, ast.expr):
            at = at.col_offset, at.end_col_offset or at.col_offset
        raise fault(message, self.text, *at)

    def made(self, make: Callable[[], Any], at: ast.expr | Place) -> Any:
        """What `make` returns, as a checked kernel where it is one; errors show the place."""
        try:
            value = make()
            if isinstance(value, Kernel):
                value.check_parameters()
        except (TypeError, ValueError, ArithmeticError) as error:  # InputError is a ValueError
            self.wrong(str(error), at)
        return value

    # ── values ──────────────────────────────────────────────────────────────
    def value(self, node: ast.expr) -> Any:
        plain = self.is_literal(node.operand if isinstance(node, ast.UnaryOp) else node)
        self._level += not plain  # -1 is a number, not a level
        if self._level > DEEPEST:
            self.wrong(TOO_DEEP, node)
        value = self.visit(node)
        self._level -= not plain
        return value

    def is_literal(self, node: ast.expr) -> bool:  # a number, a text or a word such as None
        word = self._word(node)
        return isinstance(node, ast.Name) and (word in _WORDS or word[0] in "0123456789.'\"")

    def is_name(self, node: ast.expr) -> bool:  # which may be a call without arguments
        return isinstance(node, ast.Name) and not self.is_literal(node)

    def _literal(self, node: ast.expr) -> Any:
        word = self._word(node)
        if word in _WORDS or word[0] in "'\"":
            return _WORDS[word] if word in _WORDS else word[1:-1]
        digits = word.replace("_", "").isdigit()
        try:
            value = int(word) if digits and len(word) <= MOST_DIGITS else float(word)
        except ValueError:  # underscores in odd places
            self.wrong(f"{quoted(word)} is not a number.", node)
        if value > LARGEST_WHOLE and (digits or value == _INF):
            self.wrong(TOO_LARGE, node)
        return value

    def visit_Name(self, node: ast.Name) -> Any:
        return self._called(node, node, []) if self.is_name(node) else self._literal(node)

    def visit_List(self, node: ast.List | ast.Tuple) -> list[Any]:
        values = [self.value(part) for part in node.elts]
        for value, part in zip(values, node.elts, strict=True):
            if not isinstance(value, (bool, int, float, str)):
                msg = f"A list has numbers, names, True and False, but this is {_in_words(value)}."
                self.wrong(msg, part)
        return values

    visit_Tuple = visit_List

    def visit_Attribute(self, node: ast.Attribute) -> NoReturn:
        self.wrong("A method needs its brackets: .on([0, 1]) or .normalised().", _after_dot(node))

    def visit_Compare(self, node: ast.Compare) -> NoReturn:
        self.wrong(f"Unexpected '='. {ONLY_IN_CALLS}", self._sign(node.left, node.comparators[0]))

    # ── calls ───────────────────────────────────────────────────────────────
    def _called(self, node: ast.expr, name: ast.expr, arguments: Sequence[ast.expr]) -> Any:
        word = self._word(name)
        kind = self._classes.get(plain_name(word))
        if kind is None:
            hint = nearest(word, self._names)
            self.wrong(f"Unknown {self._what} {quoted(word)}. {hint}", name)
        return self._call(kind, kind.__name__, node, arguments)

    def visit_Call(self, node: ast.Call) -> Any:
        called = node.func
        if not isinstance(called, ast.Attribute):
            return self._called(node, called, node.args)
        target, place = self.value(called.value), _after_dot(called)
        name = self.text[slice(*place)]
        if not isinstance(target, Kernel):
            self.wrong(f"Kernels have methods, but this is {_in_words(target)}.", called.value)
        if name not in METHODS:
            hint = nearest(name, METHODS)
            self.wrong(f"A kernel has no method {quoted(name)} here. {hint}", place)
        if name == "on" and not node.args:
            self.wrong("`on` needs columns: .on([0, 1]).", place)
        return self._call(getattr(target, name), f".{name}", node, node.args)

    def _call(
        self, make: Callable[..., Any], who: str, node: ast.expr, arguments: Sequence[ast.expr]
    ) -> Any:
        """What a class or a method makes of the arguments."""
        parameters = inspect.signature(make).parameters.values()
        known = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
        names = [p.name for p in known]
        by_place = [p.name for p in known if p.kind is not p.KEYWORD_ONLY]
        values: dict[str, Any] = {}
        last = None  # what the argument before was given by name
        for i, part in enumerate(arguments):
            match part:
                case ast.Compare(left=left, comparators=[given]) if self.is_name(left):
                    name, last = self._word(left), given
                    if name not in names:
                        hint = nearest(name, names) if names else "It has none."
                        self.wrong(f"{who} has no parameter {quoted(name)}. {hint}", left)
                    if name in values:
                        self.wrong(f"{name} is given twice.", left)
                    values[name] = self._argument(given)
                case _ if last is not None:
                    msg = "An argument without a name can't follow one with a name."
                    if self.is_literal(last) and self.is_literal(part):
                        msg += " If this is the other half of a number, write it with a point: 0.5."
                    self.wrong(msg, part)
                case _ if i >= len(by_place):
                    self.wrong(_too_many(who, by_place, names), part)
                case _:
                    values[by_place[i]] = self._argument(part)
        return self.made(lambda: make(**values), node)

    def _argument(self, node: ast.expr) -> Any:
        if self.is_name(node):
            msg = f"Expected a value; got the name {self._word(node)}. Write texts in quotes: 'median'."
            self.wrong(msg, node)
        value = self.value(node)
        if isinstance(value, Kernel):
            self.wrong("Expected a number, a text or a list, but this is a kernel.", node)
        return value

    # ── algebra ─────────────────────────────────────────────────────────────
    def _sign(self, left: ast.expr, right: ast.expr) -> Place:
        """Where the operator between two operands stands; brackets may stand there too."""
        found = OPERATOR.search(self.text, left.end_col_offset or 0, right.col_offset)
        assert found is not None
        return found.span()

    def _operand(self, node: ast.expr, needed: str, at: ast.expr) -> Any:
        value = self.value(node)
        if not is_number(value) and not isinstance(value, Kernel):
            self.wrong(f"{needed} {_in_words(value)}.", at)
        return value

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self._operand(node.operand, "A sign stands before a kernel or a number, not", node)
        return self.made(lambda: -value, node) if isinstance(node.op, ast.USub) else value

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        place = self._sign(node.left, node.right)
        sign = self.text[slice(*place)]
        needed = f"{sign!r} joins kernels and numbers, but this is"
        left, right = (self._operand(part, needed, part) for part in (node.left, node.right))
        if is_number(left) and is_number(right):
            return self._worked_out(node, sign, left, right)
        if sign == "/":
            self.wrong("Kernels can't be divided. Multiply by a number: 0.5 * rbf().", place)
        if sign == "**" and (isinstance(right, Kernel) or right - right != 0):
            what = "a kernel" if isinstance(right, Kernel) else repr(right)
            self.wrong(f"k ** p needs a whole p ≥ 1, but p is {what}.", node.right)
        at = place if sign != "**" else node.right
        return self.made(lambda: _OPERATIONS[sign](left, right), at)

    def _worked_out(self, node: ast.BinOp, sign: str, left: float, right: float) -> float:
        """Arithmetic on two numbers, refusing results outside of int64 and float64."""
        whole, operation = isinstance(left, int) and isinstance(right, int), _OPERATIONS[sign]
        try:
            about = operation(float(left), float(right))
        except ZeroDivisionError:
            self.wrong("This divides by zero.", node)
        except OverflowError:
            about = _INF
        if isinstance(about, complex):
            self.wrong("This has no real value.", node)
        finite = abs(left) < _INF and abs(right) < _INF
        if (whole and abs(about) > LARGEST_WHOLE) or (finite and abs(about) == _INF):
            self.wrong(TOO_LARGE, node)
        return operation(left, right) if whole else about


def _after_dot(node: ast.Attribute) -> Place:
    end = node.end_col_offset or 0
    return end - len(node.attr), end


def _in_words(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, Kernel):
        return "a kernel"
    words = {list: "list", str: "text", int: "number", float: "number"}
    return f"a {words.get(type(value), type(value).__name__)}"
