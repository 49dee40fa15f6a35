"""What is done to the rows of a file before a model sees them: filled, one-hot, scaled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import DataError, quoted
from mercer.data.columns import listed
from mercer.engine.moments import Scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer._core.types import Array
    from mercer.data.table import Chunk, TableFile


@dataclass(frozen=True, eq=False)
class Preparation:
    """The rows of a file as a model takes them: ``(filled and one-hot rows - center) / spread``.

    Parameters
    ----------
    numbers : tuple of str
        The p columns of numbers, in order.
    categories : tuple of (column, levels)
        Columns of words; each level becomes a column of 0 and 1, after those of numbers.
    fills : (p,) array, optional
        What stands in for a missing number; without it, missing numbers are refused.
    center, spread : (d,) arrays, optional
        Of the prepared columns; without them nothing is scaled. Columns of 0 and 1 have 0 and 1 here.
    id, label : str, optional
        What named and labelled the rows in the file.
    image_shape : (height, width), optional
        Of rows that are images.

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

    numbers: tuple[str, ...]
    categories: tuple[tuple[str, tuple[str, ...]], ...] = ()
    fills: Array | None = None  # (p,)
    center: Array | None = None  # (d,)
    spread: Array | None = None  # (d,)
    id: str | None = None
    label: str | None = None
    image_shape: tuple[int, int] | None = None

    @classmethod
    def learn(
        cls,
        table: TableFile,
        *,
        scale: str = "standard",
        impute: str | None = None,
        one_hot: bool = False,
        memory_bytes: int | None = None,
        weights: Array | None = None,
    ) -> tuple[Preparation, tuple[str, ...]]:
        r"""What the rows of a file need, and what there is to say about it.

        Parameters
        ----------
        table : TableFile
            Read once; twice when medians are asked for.
        scale : {"standard", "none"}
            To mean 0 and population standard deviation 1, or not at all.
        impute : {None, "mean", "median", "zero"}
            What stands in for a missing number.
        one_hot : bool
            Whether columns of words become columns of 0 and 1; they are refused otherwise.
        memory_bytes : int, optional
            What medians may use.
        weights : (n,) array, optional
            How often each row counts in means, medians and standard deviations.

        Returns
        -------
        preparation : Preparation
        notes : tuple of str
            Everything that will be done to the rows, for people.

        Examples
        --------
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
        from mercer.io.learning import learn  # which builds on this module

        return learn(
            table,
            scale=scale,
            impute=impute,
            one_hot=one_hot,
            memory_bytes=memory_bytes,
            weights=weights,
        )

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the d prepared columns."""
        hot = (f"{name}={level}" for name, levels in self.categories for level in levels)
        return (*self.numbers, *hot)

    @property
    def is_plain(self) -> bool:
        """Whether rows without missing values stay as they are."""
        parts = (self.fills, self.center, self.spread)
        return not self.categories and all(part is None for part in parts)

    def __call__(self, chunk: Chunk) -> Array:  # -> (b, d)
        """Rows of the file as the model takes them. What is missing and can't be filled is refused."""
        if self.fills is None:
            missing = Missing()
            missing.add(chunk, self.numbers)
            missing.refuse()
        return self.scaled(self.filled(self.coded(chunk)), chunk)

    def coded(self, chunk: Chunk) -> Array:  # -> (b, d)
        """Numbers as they are, words as columns of 0 and 1."""
        if not self.categories:
            return chunk.numbers
        parts = [chunk.numbers]
        for name, levels in self.categories:
            parts.append(_one_hot(chunk, name, levels, chunk.numbers.dtype))
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
        """Rows in the units of the file, scaled; in the precision they come in.

        A value that is finite there and not here is refused, with its place in the ``chunk``.
        """
        if self._scale is None:
            return raw
        with np.errstate(over="ignore", invalid="ignore"):  # told in words
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
        if not len(places):
            return
        row, column = (int(i) for i in places[0])
        spread = 1.0 if self.spread is None else float(self.spread[column])
        msg = (
            f"Column {quoted(self.features[column])} has {raw[row, column]:.6g} in {chunk.place(row)}, which "
            f"is too large to be standardised: divided by {spread:.3g}, the spread at the fit, it is beyond "
            f"{raw.dtype}. Correct the value, or leave the row out."
        )
        raise DataError(msg)

    def unscaled(self, rows: Array) -> Array:  # (b, d) -> (b, d)
        """Scaled rows in the units of the file."""
        return (
            rows if self._scale is None else self._scale.back(rows).astype(rows.dtype, copy=False)
        )

    def __repr__(self) -> str:
        done = [f"{len(self.numbers)} numbers", f"{len(self.categories)} categories"]
        done += ["filled"] * (self.fills is not None) + ["scaled"] * (self.center is not None)
        return f"Preparation({', '.join(done)})"


def _one_hot(chunk: Chunk, name: str, levels: tuple[str, ...], dtype: Any) -> Array:
    words = chunk.words[name]
    place = {level: j for j, level in enumerate(levels)}
    codes = np.array([place.get(word, -1) for word in words], dtype=np.intp)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        what = "a missing value" if words[row] is None else quoted(words[row])
        known = listed(levels)
        msg = (
            f"Column {quoted(name)} has {what} in {chunk.place(row)}, which is none of the {len(levels)} "
            f"categories that the model knows: {known}. Correct the value, leave the row out, or fit "
            "again with such rows."
        )
        raise DataError(msg)
    out = np.zeros((len(codes), len(levels)), dtype)
    out[np.arange(len(codes)), codes] = 1.0
    return out


class Missing:
    """A tally of missing values: where the first one is, and how many each column has."""

    def __init__(self) -> None:
        self.first = ""  # "line 7, column 'x'"
        self.counts: dict[str, int] = {}  # of the columns that have any

    def add(self, chunk: Chunk, names: Sequence[str]) -> None:
        """Count those of a chunk."""
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
        """Of all columns."""
        return sum(self.counts.values())

    @property
    def where(self) -> str:
        """The columns that have any."""
        noun = "column" if len(self.counts) == 1 else "columns"
        return f"{noun} {listed(list(self.counts))}"

    def refuse(self, source: str = "The rows") -> None:
        """Raise when there are any."""
        if not self.first:
            return
        noun = "value is" if self.total == 1 else "values are"
        msg = (
            f"{source}: {self.total} {noun} missing, the first in {self.first}; in {self.where}. Fill them "
            "when the model is fitted (--impute mean, median or zero), drop those rows, or leave the columns "
            "out (--columns)."
        )
        raise DataError(msg)
