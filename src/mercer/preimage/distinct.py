"""Rows that are there more than once are one example that counts more: a weight of 2 is a row twice.

A pre-image method looks at rows beside each other: it leaves one out, starts from the nearest, takes a
sample. With a copy of it left behind, a row that is left out is known all the same, and three copies of one
row are not three neighbours. So equal rows are made one here, before anything is sampled, and their weights
are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from mercer.data.rows import row_blocks
from mercer.engine.pairwise import dense

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mercer._core.types import Array, Indices, Rows

    Keys: TypeAlias = NDArray[np.uint64]

BLOCK = 2**16  # numbers of a block of rows


def distinct(
    parts: tuple[Rows, ...], weights: Array | None, there: Indices | None = None
) -> tuple[Indices | None, Array | None]:
    """The first position of each distinct row, in their order, and how many rows it stands for.

    parts : what a row consists of, such as itself and what it is to come back to.
    there : the positions that count; None: all. (None, None) where all rows are distinct and count one.
    """
    keys = _keys(parts)
    if there is not None:
        keys = keys[there]
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) == len(keys):
        return there, weights if there is None or weights is None else weights[there]
    order = np.argsort(first, kind="stable")
    counts = np.ones(len(keys))
    if weights is not None:
        counts = np.asarray(weights if there is None else weights[there], dtype=np.float64)
    totals = np.bincount(group, weights=counts)[order].astype(np.float64)
    first = first[order]
    return (first if there is None else there[first]), totals


def _keys(parts: tuple[Rows, ...]) -> Keys:  # (n,)
    """A number for each row: the same for equal rows, another for others, but for a chance of 2⁻⁶⁰ a pair."""
    n = int(parts[0].shape[0])
    keys, rng = np.zeros(n, dtype=np.uint64), np.random.default_rng(0)
    for part in parts:
        d = int(part.shape[1])
        factors = rng.integers(2**63, size=(2, d), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        for i, block in row_blocks(part, max(1, BLOCK // d)):
            bits = (np.asarray(dense(block), dtype=np.float64) + 0.0).view(np.uint64)  # -0.0 is 0.0
            keys[i] += _mixed(bits + factors[0]) @ factors[1]
    return keys


def _mixed(bits: Keys) -> Keys:
    """Every bit depends on every bit (Steele, Lea & Flood 2014): numbers differ in few, high ones."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
