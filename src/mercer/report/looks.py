"""Labels into classes that a reader can tell apart: each has a colour, a shape, a name and a count."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.plots._labels import MOST_CLASSES
from mercer.report.shown import count, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mercer._core.types import Flags, Indices

# Seven colours (Okabe and Ito, 2008) and five shapes: no two of 20 classes look the same.
COLOURS = 7
BANDS = 6
MISSING = "(no label)"


@dataclass(frozen=True, eq=False)
class Looks:
    """A class for each of n rows."""

    codes: NDArray[np.uint8]  # (n,)
    names: tuple[str, ...]
    counts: tuple[int, ...]
    remark: str = ""  # what was done to the labels, in words
    texts: tuple[str, ...] | None = None  # of each row, where the class doesn't say it all
    ordered: bool = False  # bands of a number, whose colours go from dark to light

    def each(self) -> Iterator[tuple[int, Flags]]:
        """Every class, and which rows are of it; without labels all are of one."""
        return ((code, self.codes == code) for code in range(max(1, len(self.names))))

    def taken(self, rows: Indices) -> Looks:
        """Of some of the rows; names and counts stay those of all."""
        texts = None if self.texts is None else tuple(self.texts[i] for i in rows.tolist())
        return replace(self, codes=self.codes[rows], texts=texts)

    def colour(self, code: int) -> str:
        """The style of a class."""
        if self.ordered and code < BANDS:
            return f"b{code}"
        return f"c{code % COLOURS}"


def looks(labels: Any, n: int) -> Looks:
    """Classes of n rows: labels as they are, bands of numbers, or the most frequent and the others."""
    if labels is None:
        return _made(np.zeros(n), ())
    words = [_word(label) for label in labels]
    distinct = sorted(set(words), key=_order)
    if len(distinct) <= MOST_CLASSES:
        return _made(_coded(words, distinct), distinct)
    numbers = _numbers(words)
    return _bands(numbers, words) if numbers is not None else _most(words, distinct)


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


def _numbers(words: list[str]) -> Any:
    try:
        values = np.array([np.nan if word == MISSING else float(word) for word in words])
    except ValueError:
        return None
    known = np.array([word != MISSING for word in words])
    return values if np.all(np.isfinite(values[known])) else None


def _coded(words: list[str], kept: list[str]) -> Indices:
    """The place of each word among those that are kept; one more for all others."""
    place = {word: code for code, word in enumerate(kept)}
    return np.array([place.get(word, len(kept)) for word in words])


def _made(codes: Any, names: Sequence[str], **more: Any) -> Looks:
    codes = codes.astype(np.uint8)
    counts = np.bincount(codes, minlength=len(names))[: len(names)]
    return Looks(codes, tuple(names), tuple(map(int, counts)), **more)


def _bands(numbers: Any, words: list[str]) -> Looks:
    """Numbers in bands of equal width."""
    known = np.isfinite(numbers)
    edges = np.linspace(numbers[known].min(), numbers[known].max(), BANDS + 1)
    band = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, BANDS - 1)
    names = [f"{number(a)} to {number(b)}" for a, b in pairwise(edges)]
    names += [] if known.all() else [MISSING]
    remark = f"Labels are numbers: they are shown in {BANDS} bands of equal width."
    codes = np.where(known, band, BANDS)
    return _made(codes, names, remark=remark, texts=tuple(words), ordered=True)


def _most(words: list[str], distinct: list[str]) -> Looks:
    """The most frequent labels, and all others as one class."""
    tally = Counter(words)
    kept = sorted(distinct, key=lambda word: (-tally[word], _order(word)))[: MOST_CLASSES - 1]
    others = len(distinct) - len(kept)
    remark = (
        f"There are {count(len(distinct))} labels: the {len(kept)} most frequent have a look of their own, "
        f"the other {count(others)} share one."
    )
    names = (*kept, f"others ({count(others)} labels)")
    return _made(_coded(words, kept), names, remark=remark, texts=tuple(words))
