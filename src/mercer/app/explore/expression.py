"""Kernel expressions under a finger: which numbers of a text slide, between which ends, and completion."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import MercerError
from mercer.app.outcome import refuse_value
from mercer.kernels.algebra import Constant
from mercer.kernels.bandwidth import is_rule
from mercer.kernels.names import KERNELS, kernel_classes
from mercer.kernels.parameters import constructor_names
from mercer.kernels.text import kernel_text, parse_kernel
from mercer.kernels.text.parse import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercer.app.explore.dataset import Dataset

DECADES = 1e3  # a width slides from a thousandth of the median to a thousand times as much
MOST_SLIDERS = 8
# Other names of one class, and what no text of a page can say.
HIDDEN = {"gaussian", "polynomial", "precomputed"}
WHOLE = {"degree": (1.0, 10.0)}


def catalogue() -> list[dict[str, Any]]:
    """Every kernel that a text may name, and its formula."""
    found = []
    for name, kind in sorted(KERNELS.items()):
        if name in HIDDEN:
            continue
        kernel, words = kind(), (kind.__doc__ or "").partition("\n")[0]
        formula, _, rest = words.partition(": ")
        given = [each for each in constructor_names(kind) if each in (*kind.rules, *WHOLE)][:1]
        call = f"{name}({given[0]}={getattr(kernel, given[0])!r})" if given else name
        found.append({"name": name, "call": call, "formula": formula.rstrip("."), "words": rest})
    return found


def completed(begun: str) -> list[dict[str, str]]:
    """Kernels whose names begin so."""
    last = re.split(r"[(+*]", begun)[-1].strip().lower()
    return [
        {"insert": each["call"], "label": each["name"], "words": each["formula"]}
        for each in catalogue()
        if each["name"].startswith(last)
    ]


def described(text: Any, data: Dataset | None, scale: str) -> dict[str, Any]:
    """An expression in the words of the library, and the numbers of it that slide."""
    if not isinstance(text, str):
        refuse_value("text", text, "a kernel expression")
    kernel = parse_kernel(text)
    kernel.check_parameters()
    on_rows = kernel
    if data is not None:  # a formula has numbers, also where they are read off the rows
        on_rows = kernel.resolve(data.sheet(scale).rows, rng=np.random.default_rng(0))
    return {
        "text": kernel_text(kernel),
        "formula": str(on_rows.shape()),
        "is_kernel": kernel.why_valid(),
        "widths": list(islice(sliders(text, data, scale), MOST_SLIDERS)),
    }


def sliders(text: str, data: Dataset | None, scale: str) -> Iterator[dict[str, Any]]:
    """The numbers of every kernel that a text names, from left to right.

    Of each, ``before + number + after`` is the text with another number.
    """
    bare, known = text.strip(), kernel_classes()
    start = text.index(bare)
    named = [found for found in _calls(parse(bare), bare) if _plain(found[0]) in known]
    read = _Reader(text, data, scale)
    for i, (name, end, call) in enumerate(named):
        kind = known[_plain(name)]
        given = {} if call is None else _arguments(call, bare, constructor_names(kind))
        own = [each for each in constructor_names(kind) if each in (*kind.rules, *WHOLE)]
        for each in ["sigma"] if "sigma" in given else own:
            around = _around(text, each, given.get(each), call, start=start, end=start + end)
            yield _slider(each, name, around, read, i)


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _calls(tree: ast.expr, text: str) -> Iterator[tuple[str, int, ast.Call | None]]:
    """Names of an expression, where each or its call ends, and the call where there is one."""
    seen: set[int] = set()
    nodes = sorted(
        (n for n in ast.walk(tree) if isinstance(n, (ast.Call, ast.Name))),
        key=lambda n: (n.col_offset, isinstance(n, ast.Name)),
    )
    for node in nodes:
        called = node.func if isinstance(node, ast.Call) else node
        if not isinstance(called, ast.Name) or called.col_offset in seen:
            continue
        seen.add(called.col_offset)
        word = text[called.col_offset : called.end_col_offset]
        yield word, int(node.end_col_offset or 0), node if isinstance(node, ast.Call) else None


def _arguments(call: ast.Call, text: str, names: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Where the value of each argument stands, by its name."""
    found: dict[str, tuple[int, int]] = {}
    for i, argument in enumerate(call.args):
        if isinstance(argument, ast.Compare):  # what a parameter is to the parser
            name = text[argument.left.col_offset : argument.left.end_col_offset]
            value: ast.expr = argument.comparators[0]
        else:
            name, value = names[i], argument
        found[name] = value.col_offset, int(value.end_col_offset or 0)
    return found


def _around(
    text: str, name: str, at: tuple[int, int] | None, call: ast.Call | None, *, start: int, end: int
) -> tuple[str, str]:
    """What stands before and after the number; a parameter that is not there is added to the call."""
    if at is not None:
        return text[: start + at[0]], text[start + at[1] :]
    if call is None:
        return f"{text[:end]}({name}=", f"){text[end:]}"
    comma = ", " if call.args else ""
    return f"{text[: end - 1]}{comma}{name}=", text[end - 1 :]


def _slider(
    name: str, of: str, around: tuple[str, str], read: _Reader, place: int
) -> dict[str, Any]:
    given, whole = getattr(_leaves(parse_kernel(read.text))[place], name), name in WHOLE
    median = None if whole else read.median(name, around, place)
    rule = (given or "median") if not whole and is_rule(given) else None
    value = float(given) if rule is None else (read.number(read.text, name, place) or 1.0)
    middle = median or value
    low, high = WHOLE.get(name, (min(middle / DECADES, value), max(middle * DECADES, value)))
    return {
        "name": name,
        "of": of,
        "before": around[0],
        "after": around[1],
        "value": value,
        "rule": rule,
        "median": median,
        "low": low,
        "high": high,
        "log": not whole,
        "whole": whole,
    }


def _leaves(kernel: Any) -> list[Any]:
    """The kernels that a text names, in its order."""
    if kernel.children:
        return [leaf for child in kernel.children for leaf in _leaves(child)]
    return [] if isinstance(kernel, Constant) else [kernel]


@dataclass(frozen=True)
class _Reader:
    """Reads numbers off the kernels of a text, in the order in which it names them."""

    text: str
    data: Dataset | None
    scale: str

    def number(self, text: str, name: str, place: int) -> float | None:
        """A parameter of one of them, read off the rows; None without rows."""
        if self.data is None:
            return None
        rows = self.data.sheet(self.scale).rows
        kernel = parse_kernel(text).resolve(rows, rng=np.random.default_rng(0))
        return float(getattr(_leaves(kernel)[place], name))

    def median(self, name: str, around: tuple[str, str], place: int) -> float | None:
        """What the rule of the median gives in this place; None where a kernel knows no such rule."""
        before, after = around
        if name == "sigma":  # σ = 1/√(2γ), and the rule is about γ
            begun = before.rpartition("sigma")[0]
            gamma = self.median("gamma", (f"{begun}gamma=", after), place)
            return None if gamma is None else float((2.0 * gamma) ** -0.5)
        with suppress(MercerError):
            return self.number(f"{before}'median'{after}", name, place)
        return None
