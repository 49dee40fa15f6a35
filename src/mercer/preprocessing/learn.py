"""What the rows of a file need before a fit: learned in one pass over it, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mercer._core.errors import MemoryBudgetError, many, quoted, refuse_data
from mercer._core.memory import format_bytes, parse_bytes
from mercer._core.types import Array
from mercer.data.columns import listed
from mercer.data.rows import even_blocks, row_slices
from mercer.data.table import Chunk, Table
from mercer.data.view import chunk_height
from mercer.engine.moments import ColumnMoments, weighted_median

MAX_LEVELS = 1000  # of a column of words; more are names, not categories


def _a_value(block: Array) -> Array:  # (b, p) -> (p,)
    """A value of each column to shift by; 0 where the block has none."""
    first = np.argmin(np.isnan(block), axis=0)
    found = block[first, np.arange(block.shape[1])].astype(np.float64)
    return np.where(np.isnan(found), 0.0, found)


class Missing:
    """A tally of missing values: where the first one is, and how many each column has."""

    def __init__(self) -> None:
        self.first = ""  # "line 7, column 'x'"
        self.counts: dict[str, int] = {}  # of the columns that have any

    def add(self, chunk: Chunk, names: Sequence[str]) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isnan(np.sum(chunk.numbers)):  # one pass and no temporary where all is well
                return
        found = np.isnan(chunk.numbers)
        if not found.any():  # sums of large values may be ∞ - ∞
            return
        if not self.first:
            row, j = (int(i) for i in np.argwhere(found)[0])
            self.first = f"{chunk.place(row)}, column {quoted(names[j])}"
        for name, count in zip(names, found.sum(axis=0).tolist(), strict=True):
            if count:
                self.counts[name] = self.counts.get(name, 0) + count

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def where(self) -> str:
        noun = "column" if len(self.counts) == 1 else "columns"
        return f"{noun} {listed(list(self.counts))}"

    def refuse(self, source: str = "The rows") -> None:
        noun = "value is" if self.total == 1 else "values are"
        where = f" (of those in {self.where})" if len(self.counts) > 1 else ""
        if self.first:
            refuse_data(
                f"{source}: {self.total} {noun} missing, the first{where} in {self.first}.",
                "Fit with `impute='mean'` (or median, zero) to have missing values filled, drop those rows, "
                "or leave the columns out with `columns`.",
                parameter="impute",
            )


class Unseen:
    """A tally of words that the training rows did not have, of the columns that take them as zeros."""

    def __init__(self) -> None:
        self.n = 0  # rows looked at
        self.counts: dict[str, int] = {}  # rows with such a word, of the columns that have any
        self.words: dict[str, dict[str | None, None]] = {}  # in order, None for a missing one

    def add(self, chunk: Chunk, levels: Mapping[str, Sequence[str]]) -> None:
        self.n += len(chunk)
        for name, known in levels.items():
            place = set(known)
            new = [word for word in chunk.words[name] if word not in place]
            if new:
                self.counts[name] = self.counts.get(name, 0) + len(new)
                kept = self.words.setdefault(name, {})
                kept.update(dict.fromkeys(new[: MAX_LEVELS - len(kept)]))

    @property
    def sentences(self) -> list[str]:
        """One for each column, with the words and how many rows have them."""
        words = {
            name: listed(["a missing value" if word is None else word for word in found])
            for name, found in self.words.items()
        }
        return [
            f"Column {quoted(name)} has words that the training rows did not have in {count} of "
            f"{many(self.n, 'row')}: {words[name]}. Each became zeros, as the encoder ignores them."
            for name, count in self.counts.items()
        ]


@dataclass
class Seen:
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
        cls, table: Table, names: tuple[str, ...], words: list[str], weights: Array | None
    ) -> Seen:
        nothing = ColumnMoments.empty(np.zeros(len(names)))
        seen = cls(names, nothing, Missing(), {word: set() for word in words}, weights)
        height = chunk_height(table)
        # A CSV comes in blocks of text and an NPY in blocks of rows; sums over other blocks round otherwise.
        for block in even_blocks(map(seen._add, table.chunks(height)), height, len(names)):
            seen._sum(block)
        return seen

    def filled(self, fills: Array | None) -> ColumnMoments:
        """The moments of the columns once their gaps are filled."""
        if fills is None:
            return self.moments
        weight = self.n if self.weights is None else self.weights.sum()  # of all rows
        return self.moments.filled(fills, float(weight))

    def _sum(self, block: Array) -> None:
        place = slice(self.n_summed, self.n_summed + len(block))
        self.n_summed = place.stop
        weights = None if self.weights is None else self.weights[place]
        gaps = found if (found := np.isnan(block)).any() else None
        # What is not finite is refused at the end.
        with np.errstate(over="ignore", invalid="ignore"):
            if not self.moments.count.any():
                self.moments = ColumnMoments.empty(_a_value(block))
            here = ColumnMoments.of(block, gaps, self.moments.shift, weights)
            self.moments = self.moments.merged(here)

    def _add(self, chunk: Chunk) -> Array:
        """Count what is missing, and gather the words; the numbers are still to be summed."""
        self.missing.add(chunk, self.names)
        for name, levels in self.levels.items():
            levels.update(words := set(chunk.words[name]))
            if None in words:
                row = int(np.argmax([word is None for word in chunk.words[name]]))
                where = f"a missing value in {chunk.place(row)}, which no number can replace"
                what = f"Column {quoted(name)}, of categories, has {where}."
                remedy = "Fill it in, or leave the column out with `columns`."
                refuse_data(what, remedy, parameter="columns", value=name)
            if len(levels) > MAX_LEVELS:
                count = f"more than {MAX_LEVELS} different words by {chunk.place(len(chunk) - 1)}"
                what = f"Column {quoted(name)} has {count}: these are names, not categories."
                remedy = "Use it as the `id`, or leave it out with `columns`."
                refuse_data(what, remedy, parameter="one_hot", value=name)
        self.n += len(chunk)
        return chunk.numbers

    # ── missing values ──────────────────────────────────────────────────────
    def fills(self, table: Table, impute: str, memory_bytes: int | None) -> Array:  # (p,)
        """What stands in for a missing number of each column."""
        if impute == "zero":
            return np.zeros(len(self.names))
        counts = zip(self.names, self.moments.count, strict=True)
        if empty := [name for name, count in counts if count == 0]:
            have, it = ("has", "it has") if len(empty) == 1 else ("have", "they have")
            what = f"{table.source}: {listed(empty)} {have} no values, so {it} no {impute}."
            remedy = "Leave the columns out with `columns`, or use `impute='zero'`."
            refuse_data(what, remedy, parameter="impute", value=impute)
        if impute == "mean":
            return np.array(self.moments.mean)
        return self._medians(table, parse_bytes("auto") if memory_bytes is None else memory_bytes)

    def _medians(self, table: Table, budget: int) -> Array:
        """Of all columns, so that a column that is whole here can have gaps in new rows."""
        # Bytes of a column, and of the copy that is sorted; with weights of their order and sums too.
        p, each = len(self.names), (2 if self.weights is None else 5) * 8 * self.n
        if p > 0 and each > budget:
            size = f"takes {format_bytes(each)} of memory; the budget is {format_bytes(budget)}"
            msg = f"The median of a column of {self.n} values {size}."
            remedy = "Raise `memory`, or use `impute='mean'`."
            raise MemoryBudgetError.saying(msg, remedy, parameter="memory", value=budget)
        medians = np.empty(p)
        for some in row_slices(p, max(1, budget // each)):  # as many columns at a time as fit
            held = np.empty((self.n, some.stop - some.start))
            for chunk in table.chunks(chunk_height(table)):
                held[chunk.start : chunk.start + len(chunk)] = chunk.numbers[:, some]
            if self.weights is None:
                medians[some] = np.nanmedian(held, axis=0, overwrite_input=True)
            else:
                medians[some] = [weighted_median(column, self.weights) for column in held.T]
        return medians


def imputed(table: Table, missing: Missing, impute: str) -> list[str]:
    """What there is to say about missing values, said once."""
    table.noted.add("imputed")
    by = "zero" if impute == "zero" else f"the column {impute}"
    if not missing.total:
        return [f"no value is missing; in new rows {by} is used"]
    return [f"{many(missing.total, 'value')} imputed by {by} in {missing.where}"]


# ── scaling ─────────────────────────────────────────────────────────────────
def scaling(
    moments: ColumnMoments, names: tuple[str, ...], n_hot: int
) -> tuple[Array, Array, list[str]]:
    """Centre and spread of the columns, those of 0 and 1 last, and what there is to say about them."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread, constant = moments.spread(), moments.is_constant()
    wild = ~np.isfinite(spread) | ~np.isfinite(moments.mean)
    if wild.any():
        name = names[int(np.argmax(wild))]
        what = f"Column {quoted(name)} has values so large that its variance is not finite"
        remedy = "Give it in another unit, or use `scale='none'`."
        refuse_data(f"{what}: it can't be standardised.", remedy, parameter="scale", value=name)
    spread = np.where(constant, 1.0, spread)
    notes = [f"standardised {many(len(names) - int(constant.sum()), 'column')}"]
    if constant.any():
        flat = [name for name, is_flat in zip(names, constant, strict=True) if is_flat]
        notes.append(f"constant, only centred: {listed(flat)}")
    if n_hot:
        notes.append(f"columns of 0 and 1 are not scaled: {n_hot}")
    return np.append(moments.mean, np.zeros(n_hot)), np.append(spread, np.ones(n_hot)), notes
