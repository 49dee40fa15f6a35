"""What is done to the rows of a file before a model sees them: filled, one-hot, scaled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mercer._core.errors import DataError, InputError, many, quoted, refuse_data
from mercer._core.types import Array, Indices
from mercer.data.columns import are_dates, hint, listed
from mercer.data.table import Chunk, Table
from mercer.data.view import require_numbers
from mercer.engine.moments import Scale
from mercer.preprocessing.learn import Missing, Seen, imputed, scaling

WORDS = (
    "Keep it beside the rows with `id='{name}'` or `label='{name}'`, name the columns to use with `columns`, "
    "or turn each word into a 0/1 column with `one_hot=True`."
)
SCALES = ("standard", "none")
FILLS = (None, "mean", "median", "zero")


@dataclass(frozen=True, eq=False)
class Preparation:
    """The rows of a file as a model takes them: ``(filled and one-hot rows - center) / spread``.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.data.table import Chunk
    >>> prepare = Preparation(("x",), (("colour", ("blue", "red")),), fills=np.array([5.0]))
    >>> prepare.features
    ('x', 'colour=blue', 'colour=red')
    >>> words = {"colour": np.array(["red", "blue"], dtype=object)}
    >>> prepare(Chunk(0, np.array([[1.0], [np.nan]]), words))
    array([[1., 0., 1.],
           [5., 1., 0.]])
    """

    numbers: tuple[str, ...]  # the p columns of numbers, in order
    # Columns of words and their levels; each level becomes a column of 0 and 1, after those of numbers.
    categories: tuple[tuple[str, tuple[str, ...]], ...] = ()
    fills: Array | None = None  # (p,) in place of missing numbers, which are refused without it
    # Of the d prepared columns, 0 and 1 for those of 0 and 1; without them nothing is scaled.
    center: Array | None = None
    spread: Array | None = None
    id: str | None = None  # what named the rows in the file
    label: str | None = None  # and what labelled them
    image_shape: tuple[int, int] | None = None  # (height, width) of rows that are images
    # Columns of words in which a word without a level becomes zeros, as in scikit-learn's
    # OneHotEncoder(handle_unknown="ignore"); in the others it is refused.
    ignoring: tuple[str, ...] = ()
    # Of the columns of numbers, "" where the file says none; () where it has no line of units.
    units: tuple[str, ...] = ()

    @classmethod
    def learn(
        cls,
        table: Table,
        *,
        scale: str = "standard",
        impute: str | None = None,
        one_hot: bool = False,
        memory_bytes: int | None = None,
        weights: Array | None = None,
    ) -> tuple[Preparation, tuple[str, ...]]:
        r"""What the rows of a file need, and everything that will be done to them in words for people.

        The table is read once, twice for medians, which use `memory_bytes` at most. Columns of words are
        refused without `one_hot`. The standard scale is mean 0 and population standard deviation 1, and
        weights, (n,), are how often each row counts in means, medians and standard deviations.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from mercer.data.formats import open_table
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.csv")
        ...     _ = path.write_text("x,y\n0,5\n2,5\n")
        ...     preparation, notes = Preparation.learn(open_table(path))
        >>> preparation.center, preparation.spread
        (array([1., 5.]), array([1., 1.]))
        >>> notes
        ('standardised 1 column', "constant, only centred: 'y'")
        """
        for option, value, known in (("scale", scale, SCALES), ("impute", impute, FILLS)):
            if value not in known:
                must_be = f"one of {', '.join(map(repr, known))}"
                raise InputError.about(parameter=option, value=value, must_be=must_be)
        if not one_hot or not table.columns:
            require_numbers(table, WORDS)
        notes = list(table.fresh_notes())
        if table.left_out and table.reading.columns is not None:
            notes.append(f"left out: {listed(table.left_out)}")
        words = [column.name for column in table.columns if column.kind == "category"]
        names = tuple(column.name for column in table.columns if column.kind == "number")
        fills = center = spread = None
        levels: list[tuple[str, tuple[str, ...]]] = []
        if words or impute is not None or scale == "standard":
            seen = Seen.of(table, names, words, weights)
            if impute is None:
                seen.missing.refuse(table.source)
            else:
                fills = seen.fills(table, impute, memory_bytes)
                notes += imputed(table, seen.missing, impute)
            levels = [(name, tuple(sorted(seen.levels[name]))) for name in words]
            _require_no_dates(levels, table.source)
            notes += [f"one-hot: {quoted(name)} as {len(found)} columns" for name, found in levels]
            if scale == "standard":
                n_hot = sum(len(found) for _, found in levels)
                center, spread, said = scaling(seen.filled(fills), names, n_hot)
                notes += said
        notes += table.fresh_notes()
        beside = table.id_name, table.label_name, table.image_shape
        units = tuple(table.units.get(name, "") for name in names)
        units = units if any(units) else ()
        return cls(names, tuple(levels), fills, center, spread, *beside, units=units), tuple(notes)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of the file, those of numbers first."""
        return (*self.numbers, *(name for name, _ in self.categories))

    @property
    def is_nameless(self) -> bool:
        """Whether numbers were found by position: x0, x1, … are not names of a file."""
        return all(re.fullmatch(r"x[0-9]+", name) for name in self.numbers)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the d prepared columns."""
        hot = (f"{name}={level}" for name, levels in self.categories for level in levels)
        return (*self.numbers, *hot)

    @property
    def lenient(self) -> dict[str, tuple[str, ...]]:
        """The levels of the columns in which other words become zeros."""
        return {name: levels for name, levels in self.categories if name in self.ignoring}

    @property
    def is_plain(self) -> bool:
        """Whether rows without missing values stay as they are."""
        parts = (self.fills, self.center, self.spread)
        return not self.categories and all(part is None for part in parts)

    def lacking(
        self, absent: Sequence[str], names: Sequence[str], source: str, remedy: str | None = None
    ) -> DataError:
        """The error for columns that are not among the names of a file."""
        noun = "column" if len(absent) == 1 else "columns"
        msg = f"{source} lacks the {noun} {listed(absent)}, which the model needs."
        remedy = remedy or (
            f"{hint(absent[0], names, taken=self.columns)} Rename those that have other names here, or fit a "
            "model without the others (`columns`)."
        )
        return DataError.saying(msg, remedy, parameter="X", value=absent[0])

    def check_units(self, units: Sequence[str], source: str) -> None:
        """Raise where a number is in another unit than at the fit; an empty text is not compared."""
        for name, here, ours in zip(self.numbers, units, self.units, strict=False):
            if here and ours and here != ours:
                unit = quoted(ours)
                what = f"column {quoted(name)} is in {quoted(here)}, but the model was fitted to {unit}"
                remedy = f"Convert its values to {unit}. If both are one unit, correct the name."
                refuse_data(f"{source}: {what}.", remedy, parameter="X", value=here)

    def __call__(self, chunk: Chunk) -> Array:  # -> (b, d)
        """Rows of the file as the model takes them. What is missing and can't be filled is refused."""
        if self.fills is None:
            missing = Missing()
            missing.add(chunk, self.numbers)
            missing.refuse()
        return self.gappy(chunk)

    def gappy(self, chunk: Chunk) -> Array:  # -> (b, d)
        """The same, with NaN where a value is missing and there is nothing to put in its place."""
        return self.scaled(self.filled(self.coded(chunk)), chunk)

    def coded(self, chunk: Chunk) -> Array:  # -> (b, d)
        """Numbers as they are, words as columns of 0 and 1."""
        if not self.categories:
            return chunk.numbers
        parts = [chunk.numbers]
        for name, levels in self.categories:
            codes = _codes(chunk, name, levels, refuse=name not in self.ignoring)
            parts.append((codes[:, None] == np.arange(len(levels))).astype(chunk.numbers.dtype))
        return np.concatenate(parts, axis=1)

    def filled(self, rows: Array) -> Array:
        """Numbers in place of those that are missing."""
        if self.fills is None:
            return rows
        p = len(self.numbers)
        missing = np.isnan(rows[:, :p])
        if not missing.any():
            return rows
        out = np.array(rows)
        out[:, :p][missing] = np.broadcast_to(self.fills, missing.shape)[missing]
        return out

    def scaled(self, raw: Array, chunk: Chunk | None = None) -> Array:  # (b, d) -> (b, d)
        """Rows of the file, scaled in their precision; an overflow is refused by its place in `chunk`."""
        if self._scale is None:
            return raw
        with np.errstate(over="ignore", invalid="ignore"):  # refused in words
            out = self._scale(raw).astype(raw.dtype, copy=False)
        if chunk is not None and not np.isfinite(out).all():
            self._refuse_overflow(raw, out, chunk)
        return out

    @property
    def _scale(self) -> Scale | None:
        if self.center is None and self.spread is None:
            return None
        d = len(self.features)
        center = np.zeros(d) if self.center is None else self.center
        return Scale(center, np.ones(d) if self.spread is None else self.spread)

    def _refuse_overflow(self, raw: Array, out: Array, chunk: Chunk) -> None:
        places = np.argwhere(np.isfinite(raw) & ~np.isfinite(out))
        if len(places):
            row, column = map(int, places[0])
            name, value = quoted(self.features[column]), raw[row, column]
            spread = 1.0 if self.spread is None else float(self.spread[column])
            why = f"divided by {spread:.3g}, the spread at the fit, it is beyond {raw.dtype}"
            where = f"{chunk.place(row)}, which is too large to be standardised"
            what = f"Column {name} has {value:.6g} in {where}: {why}."
            remedy = "Correct the value, or leave the row out."
            refuse_data(what, remedy, parameter="X", value=value)

    def unscaled(self, rows: Array) -> Array:  # (b, d) -> (b, d)
        """Scaled rows in the units of the file."""
        scale = self._scale
        return rows if scale is None else scale.back(rows).astype(rows.dtype, copy=False)

    def __repr__(self) -> str:
        done = [f"{len(self.numbers)} numbers", f"{len(self.categories)} categories"]
        done += ["filled"] * (self.fills is not None) + ["scaled"] * (self.center is not None)
        return f"Preparation({', '.join(done)})"


def _require_no_dates(levels: list[tuple[str, tuple[str, ...]]], source: str) -> None:
    """A column for each day says nothing of a new day."""
    for name, words in levels:
        if are_dates(words):
            would = f"`one_hot` would make {many(len(words), 'column')} of them"
            what = f"{source}: column {quoted(name)} has dates, such as {quoted(words[0])}, and {would}."
            remedy = f"Keep it beside the rows with `id={name!r}`, or choose others with `columns`."
            refuse_data(what, remedy, parameter="one_hot", value=name)


def _codes(chunk: Chunk, name: str, levels: tuple[str, ...], *, refuse: bool) -> Indices:  # -> (b,)
    """The place of each word among the levels; -1 for another one, unless it is to be refused."""
    words = chunk.words[name]
    place = {level: j for j, level in enumerate(levels)}
    codes = np.array([place.get(word, -1) for word in words], dtype=np.intp)
    if refuse and (codes < 0).any():
        row = int(np.argmax(codes < 0))
        what = "a missing value" if words[row] is None else quoted(words[row])
        known = f"none of the {len(levels)} categories that the model knows: {listed(levels)}"
        said = f"Column {quoted(name)} has {what} in {chunk.place(row)}, which is {known}."
        remedy = "Correct the value, leave the row out, or fit again with such rows."
        refuse_data(said, remedy, parameter="X", value=words[row])
    return codes
