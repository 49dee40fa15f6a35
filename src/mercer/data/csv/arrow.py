"""Blocks of lines by Arrow's parser, ten times as fast as the csv module: the same bits, or none at all.

Arrow is handed only what it can't read otherwise than the csv module and `numbers` do, with their list of
missing values. Where it raises, or finds what is not a finite number, the block goes the slow way, which
knows what to say and in which line.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from mercer._core.types import Array
from mercer.data.csv.numbers import MISSING
from mercer.data.csv.sniff import Dialect
from mercer.data.frames import MissingPackageError, need

LEAST_CHARACTERS = 2**18  # fewer are read before Arrow is imported
NUMERIC = "0123456789.+-eE "  # of which numbers are made
LEAST_ROWS = 16  # in a block: Arrow has some work for each column


class Parsed(NamedTuple):
    """The fields of a block of lines, a line each."""

    numbers: Array  # (b, p)
    texts: dict[int, Any]  # of each column of texts, (b,) objects


def parsed(text: str, dialect: Dialect, numbers: list[int], texts: list[int]) -> Parsed | None:
    """The columns of numbers and of texts at these positions; None where Arrow can't be used."""
    if len(text) < LEAST_CHARACTERS or not _is_plain(text, dialect, with_texts=bool(texts)):
        return None
    data = text.encode()
    ends = np.append(np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")), len(data))
    n_lines = len(ends) - text.endswith("\n")
    # What the csv module takes for a quote that is never closed is read by Arrow.
    if n_lines < LEAST_ROWS or np.max(np.diff(ends, prepend=-1)) > csv.field_size_limit():
        return None
    table = _read(data, dialect, numbers, texts)
    if table is None or table.num_rows != n_lines:  # a blank line is passed over
        return None
    block, n_missing = np.empty((n_lines, len(numbers))), 0
    for i, j in enumerate(numbers):
        column = table.column(str(j))
        block[:, i] = column.to_numpy(zero_copy_only=False)
        n_missing += column.null_count
    if np.count_nonzero(~np.isfinite(block)) != n_missing:
        return None  # inf, 1e999, or a NaN that is not in our list
    return Parsed(block, {j: table.column(str(j)).to_numpy(zero_copy_only=False) for j in texts})


def _is_plain(text: str, dialect: Dialect, *, with_texts: bool) -> bool:
    """Whether the rules of the csv module and those of Arrow mean the same in this text."""
    mark = dialect.delimiter
    if not mark.isascii() or mark in NUMERIC:
        return False
    if "\r" in text and text.count("\r") != text.count("\r\n"):
        return False
    if text.startswith("\ufeff"):  # which Arrow takes for a mark of the file
        return False
    blanks = " \t".replace(mark, "")
    if any(blank in text for blank in blanks):
        # csv skips blanks before a field, also before its quote; Arrow trims those around numbers, but not
        # around what is listed as missing.
        begins = any(f"{before}{b}" in text for before in (mark, "\n") for b in blanks)
        if (begins or text[0] in blanks) and (with_texts or '"' in text):
            return False
        if dialect.na_values:
            return False
    return '"' not in text or '"' not in _quoted(mark).sub("", text)


@cache
def _quoted(mark: str) -> re.Pattern[str]:
    """Fields that are quoted as they should be, each within a line."""
    m = re.escape(mark)
    return re.compile(rf'(?:(?<=[{m}\n])|\A)"(?:[^"\r\n]|"")*"(?=[{m}\r\n]|\Z)')


@cache
def _missing(na_values: frozenset[str]) -> list[str]:
    """What stands for nothing, in all cases of letters."""
    words = (product(*({c, c.upper()} for c in word)) for word in MISSING)
    return sorted({"".join(letters) for cases in words for letters in cases} | na_values)


def _read(data: bytes, dialect: Dialect, numbers: list[int], texts: list[int]) -> Any:
    """A table of these columns; None where Arrow is not installed, or refuses what it reads."""
    try:
        pyarrow, reader = need("pyarrow", extra="parquet"), need("pyarrow.csv", extra="parquet")
    except MissingPackageError:
        return None
    kinds = {str(j): pyarrow.null() for j in dialect.unnamed if j > 0}  # where nothing may stand
    kinds |= {str(j): pyarrow.float64() for j in numbers}
    kinds |= {str(j): pyarrow.string() for j in texts}
    names = [str(j) for j in range(len(dialect.columns))]
    try:
        return reader.read_csv(
            pyarrow.BufferReader(data),
            reader.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            reader.ParseOptions(delimiter=dialect.delimiter),
            reader.ConvertOptions(
                column_types=kinds,
                include_columns=list(kinds),
                null_values=_missing(dialect.na_values),
                decimal_point=dialect.decimal,
            ),
        )
    except pyarrow.ArrowException:  # which the slow way says with its line and column
        return None
