"""Rows that are equal, number by number: those unlike a row, whether all are alike, and the distinct ones.

A row of weight 2 is that row twice. A method that leaves a row out, starts from the nearest one or takes a
sample must not find a copy of it, and three copies of a row are not three neighbours. So equal rows become
one, and their weights are added.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._core.types import Array, Flags, Indices, Rows
from mercer.data.rows import RowSource, row_blocks
from mercer.engine.passes import numbers_a_row

Keys: TypeAlias = NDArray[np.uint64]

BLOCK = 2**16  # numbers of a block of rows
ALIKE_ROWS = 4096  # rows that are compared at a time


def unlike(x: Rows, point: Rows) -> Flags:  # (n, d), (1, d) -> (n,)
    """Which rows are not this one, number by number: a distance of equal sparse rows may be rounding."""
    if not sparse.issparse(x):
        return np.asarray(np.any(x != point, axis=1))
    x, point = _plain(x), _plain(point)
    same = np.diff(x.indptr) == point.nnz
    same &= np.all(x[:, point.indices].toarray() == point.data, axis=1)
    return np.asarray(~same)


def are_alike(x: Rows) -> bool:
    """Whether all rows in memory are one and the same: then there is no variance, whatever the kernel."""
    if isinstance(x, RowSource):
        return False  # read once: their moments show it
    # Rows that differ do so among the first, as a rule, and no others are looked at then.
    if isinstance(x, np.ndarray) and len(x) > 1 and (x[0] != x[1]).any():
        return False
    return not any(np.any(unlike(block, x[:1])) for _, block in row_blocks(x, ALIKE_ROWS))


def distinct(
    parts: tuple[Rows, ...], weights: Array | None, there: Indices | None = None
) -> tuple[Indices | None, Array | None]:
    """The first position of each distinct row, in their order, and how many rows it stands for.

    parts : what a row consists of, such as itself and what it is to come back to.
    there : the positions that count; None: all. (None, None) where all rows are distinct and count one.
    """
    keys = _keys(parts)
    if there is not None:
        keys, weights = keys[there], None if weights is None else weights[there]
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) == len(keys):
        return there, weights
    order = np.argsort(first, kind="stable")
    first, totals = first[order], np.bincount(group, weights)[order].astype(np.float64)
    return (first if there is None else there[first]), totals


def _keys(parts: tuple[Rows, ...]) -> Keys:  # (n,)
    """A number for each row: the same for equal rows, another for others, but for a chance of 2⁻⁶⁰ a pair."""
    n = int(parts[0].shape[0])
    keys, rng = np.zeros(n, dtype=np.uint64), np.random.default_rng(0)
    for part in parts:
        d = int(part.shape[1])
        factors = rng.integers(2**63, size=(2, d), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        for i, block in row_blocks(part, max(1, BLOCK // max(1, numbers_a_row(part)))):
            if sparse.issparse(block):
                keys[i] += _sparse_keys(block, *factors)
            else:
                keys[i] += _mixed(_bits(block) + factors[0]) @ factors[1]
    return keys


def _sparse_keys(block: Rows, first: Keys, second: Keys) -> Keys:  # (b, d), (d,), (d,) -> (b,)
    """The keys of dense rows: that of a row of zeros, and what others change. Sums modulo 2⁶⁴ are exact."""
    rows, zeros = _plain(block), _mixed(first)
    j = rows.indices
    changes = (_mixed(_bits(rows.data) + first[j]) - zeros[j]) * second[j]
    sums = np.append(np.uint64(0), np.cumsum(changes, dtype=np.uint64))[rows.indptr]
    return np.diff(sums) + zeros @ second


def _bits(values: Array) -> Keys:
    return (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)  # -0.0 is 0.0


def _mixed(bits: Keys) -> Keys:
    """Every bit depends on every bit (Steele, Lea & Flood 2014): numbers differ in few, high ones."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _plain(rows: Rows) -> sparse.csr_array:
    """A copy in which a place is stored once, and no zero is."""
    rows = sparse.csr_array(rows, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows
