"""Texts of fields as numbers: what a number is and what stands for a missing one; all else is a word."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence, Set

import numpy as np

from mercer._core.types import Array

# What people, spreadsheets, R, pandas and SQL write for nothing, in any case of letters.
MISSING = frozenset(
    {"", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "+nan", "null", "none", "nil", "nat"}
    | {"?", "-", "--", "."}
)
NOTHING: frozenset[str] = frozenset()
# No digit can belong to two parts of it: on a word of 100 000 digits it takes one pass, not their square.
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
PLAIN = b"0123456789.eE+- "  # made of these alone, Python's float reads NUMBER and nothing else


class WordError(Exception):
    """A text that is not a number: its position among those given, and what it is."""

    def __init__(self, at: int, text: str) -> None:
        super().__init__(at, text)
        self.at, self.text = at, text


def numbers(texts: Sequence[str], decimal: str = ".", na_values: Set[str] = NOTHING) -> Array:
    """Texts as float64, NaN for those that are missing; the first that is not a number raises `WordError`.

    >>> numbers(["1", "2.5e3", "NA", ""])
    array([1.0e+00, 2.5e+03,     nan,     nan])
    >>> numbers(["3,14"], decimal=",")
    array([3.14])
    """
    if na_values:
        texts = ["" if text.strip() in na_values else text for text in texts]
    if decimal == ",":
        texts = _pointed(texts)
    # All at once where nothing can be misread: float() would also take 1_000, nan, and digits of any script.
    if not "".join(texts).encode("utf-8", "replace").translate(None, PLAIN):
        try:
            return _finite(np.array(texts, dtype=np.float64), texts)
        except ValueError:  # an empty field, or "1-2"
            pass
    return _finite(np.array([_number(i, text) for i, text in enumerate(texts)]), texts)


def _pointed(texts: Sequence[str]) -> Sequence[str]:
    """Decimal commas as points. A point is refused, because 1.234 may be a thousand or one."""
    joined = "\0".join(texts)
    if "." in joined:
        for at, text in enumerate(texts):
            if "." in text and not is_missing(text):
                raise WordError(at, text)
    return joined.replace(",", ".").split("\0") if "," in joined else texts


def _number(at: int, text: str) -> float:
    stripped = text.strip()
    if NUMBER.fullmatch(stripped):
        return float(stripped)
    if stripped.lower() in MISSING:
        return math.nan
    raise WordError(at, text)


def _finite(values: Array, texts: Sequence[str]) -> Array:
    """The values, none of which is too large for a float64: 1e999 can't be computed with."""
    if np.isinf(values).any():
        at = int(np.argmax(np.isinf(values)))
        raise WordError(at, texts[at])
    return values


def is_missing(text: str, na_values: Set[str] = NOTHING) -> bool:
    """Whether a field stands for nothing: by what is customary, or by the texts that are given."""
    stripped = text.strip()
    return stripped.lower() in MISSING or stripped in na_values


def is_number(text: str, decimal: str = ".") -> bool:
    """Whether a field is a number, of any size."""
    if decimal == ",":
        if "." in text:
            return False
        text = text.replace(",", ".")
    stripped = text.strip()
    return bool(NUMBER.fullmatch(stripped) or INFINITE.fullmatch(stripped))


def why_no_number(text: str, decimal: str) -> tuple[str, str]:
    """What is wrong with a text where a number is needed, and what to do about its kind."""
    shown = repr(text if len(text) <= 40 else f"{text[:37]}...")
    stripped = text.strip()
    if INFINITE.fullmatch(stripped) or (NUMBER.fullmatch(stripped) and math.isinf(float(stripped))):
        return f"{shown} is infinite as a float64", ""
    if decimal == "," and "." in stripped:
        return f"{shown} is not a number, since the comma is the decimal mark", ""
    if decimal != "," and re.fullmatch(r"[+-]?\d+(?:\.\d{3})*,\d+", stripped):
        return f"{shown} is not a number", "If the comma is the decimal mark, use `decimal=','`."
    return f"{shown} is not a number", ""
