"""What the rows of a file need before a fit: learned in one pass over it, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.errors import DataError, InputError, MemoryBudgetError, quoted
from mercer._core.memory import format_bytes, parse_bytes
from mercer.data.columns import listed
from mercer.engine.moments import ColumnMoments, weighted_median
from mercer.io.preparation import Missing, Preparation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercer._core.types import Array, Flags
    from mercer.data.table import Chunk, TableFile

CHUNK_BYTES = 16 * 2**20
MAX_LEVELS = 1000  # of a column of words; more are names, not categories


def chunk_height(table: TableFile) -> int:
    """Rows that are read at a time."""
    return max(1, CHUNK_BYTES // (8 * max(1, len(table.columns))))


def learn(
    table: TableFile,
    *,
    scale: str,
    impute: str | None,
    one_hot: bool,
    memory_bytes: int | None,
    weights: Array | None,
) -> tuple[Preparation, tuple[str, ...]]:
    """See `Preparation.learn`."""
    _require_known("scale", scale, ("standard", "none"))
    _require_known("impute", impute, (None, "mean", "median", "zero"))
    _require_features(table, one_hot=one_hot)
    notes = list(table.fresh_notes())
    if table.left_out and table.reading.columns is not None:
        notes.append(f"left out: {listed(table.left_out)}")
    words = [column.name for column in table.columns if column.kind == "category"]
    names = tuple(column.name for column in table.columns if column.kind == "number")
    fills = center = spread = None
    levels: list[tuple[str, tuple[str, ...]]] = []
    if words or impute is not None or scale == "standard":
        seen = _Seen.of(table, names, words, weights)
        if impute is None:
            seen.missing.refuse(table.source)
        else:
            fills = _fills(table, seen, impute, memory_bytes)
            notes += _imputed(table, seen.missing, impute)
        levels = [(name, tuple(sorted(seen.levels[name]))) for name in words]
        notes += [f"one-hot: {quoted(name)} as {len(found)} columns" for name, found in levels]
        if scale == "standard":
            n_hot = sum(len(found) for _, found in levels)
            moments = seen.moments if fills is None else seen.moments.filled(fills, seen.weight)
            center, spread, said = _scaling(moments, names, n_hot)
            notes += said
    notes += table.fresh_notes()
    preparation = Preparation(
        names,
        tuple(levels),
        fills,
        center,
        spread,
        table.id_name,
        table.label_name,
        table.image_shape,
    )
    return preparation, tuple(notes)


class _EvenBlocks:
    """Blocks of rows of any height, cut anew into blocks of one: the same sums, however a file is read.

    A CSV comes in blocks of text and an NPY in blocks of rows; sums over other blocks round otherwise.
    """

    def __init__(self, height: int, width: int) -> None:
        self._held, self._n = np.empty((height, width)), 0

    def cut(self, block: Array) -> Iterator[Array]:  # (b, p)
        """Whole blocks, each good until the next is asked for."""
        done = 0
        while done < len(block):
            some = block[done : done + len(self._held) - self._n]
            self._held[self._n : self._n + len(some)] = some
            self._n, done = self._n + len(some), done + len(some)
            if self._n == len(self._held):
                yield from self.rest()

    def rest(self) -> Iterator[Array]:
        """What is held, if there is any."""
        if self._n:
            yield self._held[: self._n]
            self._n = 0


def _a_value(block: Array, missing: Flags | None) -> Array:  # (b, p) -> (p,)
    """A value of each column to shift by; 0 where the block has none."""
    if missing is None:
        return np.array(block[0], dtype=np.float64)
    first = np.argmin(missing, axis=0)
    found = block[first, np.arange(block.shape[1])].astype(np.float64)
    return np.where(np.isnan(found), 0.0, found)


@dataclass
class _Seen:
    """What one pass over a file finds out."""

    names: tuple[str, ...]
    moments: ColumnMoments
    missing: Missing
    levels: dict[str, set[str]]
    weights: Array | None  # (n,)
    n: int = 0  # rows read
    n_summed: int = 0  # of these, rows in the moments

    @classmethod
    def of(
        cls, table: TableFile, names: tuple[str, ...], words: list[str], weights: Array | None
    ) -> _Seen:
        nothing = ColumnMoments.empty(np.zeros(len(names)))
        seen = cls(names, nothing, Missing(), {word: set() for word in words}, weights)
        height = chunk_height(table)
        even = _EvenBlocks(height, len(names))
        for chunk in table.chunks(height):
            seen._add(chunk)
            for block in even.cut(chunk.numbers):
                seen._sum(block)
        for block in even.rest():
            seen._sum(block)
        return seen

    @property
    def weight(self) -> float:
        """The weight of all rows: their number where all count alike."""
        return float(self.n) if self.weights is None else float(self.weights.sum())

    def _sum(self, block: Array) -> None:
        place = slice(self.n_summed, self.n_summed + len(block))
        self.n_summed = place.stop
        weights = None if self.weights is None else self.weights[place]
        gaps = found if (found := np.isnan(block)).any() else None
        # What is not finite is refused at the end.
        with np.errstate(over="ignore", invalid="ignore"):
            if not self.moments.count.any():
                self.moments = ColumnMoments.empty(_a_value(block, gaps))
            here = ColumnMoments.of(block, gaps, self.moments.shift, weights)
            self.moments = self.moments.merged(here)

    def _add(self, chunk: Chunk) -> None:
        self.missing.add(chunk, self.names)
        for name, levels in self.levels.items():
            levels.update(words := set(chunk.words[name]))
            if None in words:
                row = int(np.argmax([word is None for word in chunk.words[name]]))
                msg = (
                    f"Column {quoted(name)}, of categories, has a missing value in {chunk.place(row)}. No "
                    "number can stand in for a word: fill it in, or leave the column out (--columns)."
                )
                raise DataError(msg)
            if len(levels) > MAX_LEVELS:
                msg = (
                    f"Column {quoted(name)} has more than {MAX_LEVELS} different words by "
                    f"{chunk.place(len(chunk) - 1)}: these are names, not categories. Use it as --id, or "
                    "leave it out (--columns)."
                )
                raise DataError(msg)
        self.n += len(chunk)


def _require_known(option: str, value: str | None, known: tuple[str | None, ...]) -> None:
    if value not in known:
        msg = f"{option}={value!r} came. Use one of {', '.join(map(repr, known))}."
        raise InputError(msg)


def _require_features(table: TableFile, *, one_hot: bool) -> None:
    if not table.columns:
        msg = f"{table.source} has no column left for features: id and label are all that it has."
        raise DataError(msg)
    words = [column for column in table.columns if column.kind == "category"]
    if words and not one_hot:
        first = words[0]
        why = f" ({first.example})" if first.example else ""
        rest = [column.name for column in words[1:]]
        others = f" {listed(rest)} too." if rest else ""
        msg = (
            f"{table.source}: column {quoted(first.name)} holds words{why}, and a kernel needs "
            f"numbers.{others} Say --label or --id with its name to keep it beside the rows, --columns with "
            "the columns to use, or --one-hot to make a column of 0 and 1 of each word."
        )
        raise DataError(msg)


# ── missing values ──────────────────────────────────────────────────────────
def _fills(table: TableFile, seen: _Seen, impute: str, memory_bytes: int | None) -> Array:
    names, moments = seen.names, seen.moments
    if impute == "zero":
        return np.zeros(len(names))
    empty = [name for name, count in zip(names, moments.count, strict=True) if count == 0]
    if empty:
        msg = (
            f"{table.source}: column(s) {listed(empty)} have no value at all, so there is no {impute}. Leave "
            "them out (--columns), or say --impute zero."
        )
        raise DataError(msg)
    fills = np.array(moments.mean)
    if impute == "median":
        budget = parse_bytes("auto") if memory_bytes is None else memory_bytes
        fills = _medians(table, seen, budget)
    return fills


def _medians(table: TableFile, seen: _Seen, budget: int) -> Array:
    """Of all columns, so that a column that is whole here can have gaps in new rows."""
    # Bytes of a column, and of the copy that is sorted; with weights of their order and sums too.
    p, each = len(seen.names), (2 if seen.weights is None else 5) * 8 * seen.n
    if p > 0 and each > budget:
        msg = (
            f"The median of a column of {seen.n} values takes {format_bytes(each)} of memory, but "
            f"{format_bytes(budget)} are given. Raise --memory, or say --impute mean."
        )
        raise MemoryBudgetError(msg)
    medians, width = np.empty(p), max(1, budget // each)
    for first in range(0, p, width):  # as many columns at a time as fit
        some = slice(first, min(first + width, p))
        held = np.empty((seen.n, some.stop - some.start))
        for chunk in table.chunks(chunk_height(table)):
            held[chunk.start : chunk.start + len(chunk)] = chunk.numbers[:, some]
        if seen.weights is None:
            medians[some] = np.nanmedian(held, axis=0, overwrite_input=True)
        else:
            medians[some] = [weighted_median(column, seen.weights) for column in held.T]
    return medians


def _imputed(table: TableFile, missing: Missing, impute: str) -> list[str]:
    table.told.add("imputed")
    by = "zero" if impute == "zero" else f"the column {impute}"
    if not missing.total:
        return [f"no value is missing; in new rows {by} will stand in"]
    noun = "value" if missing.total == 1 else "values"
    return [f"{missing.total} {noun} imputed by {by} in {missing.where}"]


# ── scaling ─────────────────────────────────────────────────────────────────
def _scaling(
    moments: ColumnMoments, names: tuple[str, ...], n_hot: int
) -> tuple[Array, Array, list[str]]:
    with np.errstate(over="ignore", invalid="ignore"):
        spread, constant = moments.spread(), moments.is_constant()
    wild = ~np.isfinite(spread) | ~np.isfinite(moments.mean)
    if wild.any():
        name = names[int(np.argmax(wild))]
        msg = (
            f"Column {quoted(name)} has values so large that its variance is no finite number, so it can't "
            "be standardised. Give it in another unit, or say --scale none."
        )
        raise DataError(msg)
    spread = np.where(constant, 1.0, spread)
    n_scaled = len(names) - int(constant.sum())
    notes = [f"standardised {n_scaled} column{'' if n_scaled == 1 else 's'}"]
    if constant.any():
        flat = [name for name, is_flat in zip(names, constant, strict=True) if is_flat]
        notes.append(f"constant, only centred: {listed(flat)}")
    if n_hot:
        notes.append(f"columns of 0 and 1 are not scaled: {n_hot}")
    hot = np.zeros(n_hot)
    return np.append(moments.mean, hot), np.append(spread, hot + 1.0), notes
