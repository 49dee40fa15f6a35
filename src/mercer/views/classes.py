"""Labels into classes that a reader can tell apart: each has a colour, a shape, a name and a count."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._core.errors import InputError
from mercer._core.types import Array, Flags, Indices
from mercer.views.wording import count, number

# Okabe and Ito (2008), told apart by all common kinds of colour vision. Their yellow is left out: it vanishes
# on white. A class has one of seven colours and, since colour alone is lost on some eyes, one of five shapes:
# no two of 20 classes look the same.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SHAPES = ("dot", "square", "triangle", "diamond", "plus")
MOST_CLASSES = 20
BANDS = 6
MISSING = "(no label)"


@dataclass(frozen=True, eq=False)
class Classes:
    """A class for each of n rows; without labels all are of one, which has no name."""

    codes: NDArray[np.uint8]  # (n,)
    names: tuple[str, ...]
    counts: tuple[int, ...]
    remark: str = ""  # what was done to the labels, in words
    labels: Any = None  # (n,): as they were given, where the class doesn't say it all
    ordered: bool = False  # bands of a number, whose colours go from dark to light
    # (n,): a measurement, or the place of each label in their order, for a scale of colours without steps.
    shade: Array | None = None
    shaded: str = ""  # what the shade is, in words

    def each(self) -> Iterator[tuple[int, Flags]]:
        """Every class, and which rows are of it."""
        return ((code, self.codes == code) for code in range(max(1, len(self.names))))

    def taken(self, rows: Indices) -> Classes:
        """Those of some of the rows, counted; names stay those of all."""
        given = None if self.labels is None else np.asarray(self.labels)[rows]
        shade = None if self.shade is None else self.shade[rows]
        own = _made(self.codes[rows], self.names)
        return replace(self, codes=own.codes, counts=own.counts, labels=given, shade=shade)

    @property
    def texts(self) -> list[str] | None:
        """The label of each row, where the class doesn't say it all."""
        return None if self.labels is None else [_word(label) for label in self.labels]


def alarm_classes(alarm: Flags, labels: Any = None, *, judged: Flags | None = None) -> Classes:
    """Rows that are alarms, rows that are not, and those that were not `judged`; None: all were."""
    codes = np.asarray(alarm, dtype=np.uint8)
    names: tuple[str, ...] = ("normal", "alarm")
    if judged is not None and not np.all(judged):
        codes, names = np.where(judged, codes, 2), (*names, "not judged")
    return replace(_made(codes, names), labels=labels)


def classes(labels: Any, n: int) -> Classes:
    """Classes of n rows: labels as they are, bands of numbers, or the most frequent and the others."""
    if labels is None:
        return _made(np.zeros(n), ())
    if isinstance(labels, Classes):
        return labels
    array = np.asarray(labels)
    if array.shape != (n,):
        msg = f"`labels` must have shape ({n},), one for each row; got shape {array.shape}."
        msg += " Pass a flat array in the order of the rows, or None."
        raise InputError(msg)
    if array.dtype.kind not in "biufUS":  # None, 1 and "a" have no common order: go by their words
        array = np.array([_word(label) for label in array], dtype=np.str_)
    distinct, place = np.unique(array, return_inverse=True)
    measured = array.dtype.kind == "f"
    if len(distinct) > MOST_CLASSES and array.dtype.kind in "biuf" and not np.isinf(array).any():
        found, words = _bands(array.astype(np.float64), array), _in_order(len(distinct))
        shade = (array if measured else place).astype(np.float64)
        return replace(found, shade=shade, shaded="label" if measured else words)
    called = [_word(label) for label in distinct]
    names = sorted(set(called), key=_order)
    code = {name: i for i, name in enumerate(names)}
    codes = np.array([code[word] for word in called])[place]  # (n,)
    if len(names) > MOST_CLASSES:
        numbers = _numbers(names)
        found = _most(codes, names, array) if numbers is None else _bands(numbers[codes], array)
        return replace(found, shade=codes.astype(np.float64), shaded=_in_order(len(names)))
    found = _made(codes, names)
    if measured and (distinct[np.isfinite(distinct)] % 1 != 0).any():
        return replace(found, shade=array.astype(np.float64), shaded="label")
    return found


def _in_order(n: int) -> str:
    return f"{n} classes, shaded in sorted order"


def _word(label: Any) -> str:
    if isinstance(label, (float, np.floating)):
        return MISSING if np.isnan(label) else f"{float(label):.12g}"
    return MISSING if label is None or not str(label).strip() else str(label)


def _order(word: str) -> tuple[int, float, list[tuple[int, str]]]:
    """Numbers by size, then words, "run 9" before "run 10"; what has no label comes last."""
    pieces = re.split(r"([0-9]+)", word)
    natural = [(int(p), "") if i % 2 and len(p) < 19 else (0, p) for i, p in enumerate(pieces)]
    try:
        value = float(word)
    except ValueError:
        value = np.inf
    if word == MISSING or not np.isfinite(value):
        return 2 if word == MISSING else 1, 0.0, natural
    return 0, value, natural


def _numbers(names: list[str]) -> Array | None:
    """The names as numbers, NaN where there is no label; None where one is not a number."""
    try:
        values = np.array([np.nan if name == MISSING else float(name) for name in names])
    except ValueError:
        return None
    known = np.array([name != MISSING for name in names])
    return values if np.all(np.isfinite(values[known])) else None


def _made(codes: Any, names: Sequence[str], **more: Any) -> Classes:
    codes = codes.astype(np.uint8)
    counts = np.bincount(codes, minlength=len(names))[: len(names)]
    return Classes(codes, tuple(names), tuple(map(int, counts)), **more)


def _bands(numbers: Array, labels: Any) -> Classes:
    known = np.isfinite(numbers)
    edges = np.linspace(numbers[known].min(), numbers[known].max(), BANDS + 1)
    band = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, BANDS - 1)
    names = [f"{number(a)} to {number(b)}" for a, b in pairwise(edges)]
    names += [] if known.all() else [MISSING]
    remark = f"Labels are numbers: they are shown in {BANDS} bands of equal width."
    return _made(np.where(known, band, BANDS), names, remark=remark, labels=labels, ordered=True)


def _most(codes: Indices, names: list[str], labels: Any) -> Classes:
    tally = np.bincount(codes, minlength=len(names))
    kept = np.argsort(-tally, kind="stable")[: MOST_CLASSES - 1]  # equals in their own order
    place = np.full(len(names), len(kept))
    place[kept] = np.arange(len(kept))
    others = len(names) - len(kept)
    remark = f"There are {count(len(names))} labels: the {len(kept)} most frequent have a look of their own, "
    remark += f"the other {count(others)} share one."
    shown = (*(names[i] for i in kept), f"others ({count(others)} labels)")
    return _made(place[codes], shown, remark=remark, labels=labels)
