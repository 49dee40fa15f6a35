"""One pass over the rows: what is in the columns, the first scores, and what the components miss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer.data.rows import row_blocks
from mercer.engine.moments import ColumnMoments

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.report.subject import Subject

BLOCK_ENTRIES = 2**21  # numbers in a block of rows
BLOCK_ROWS = 2**14
MOST_AXES = 10  # components that a picture can be asked for


@dataclass(frozen=True, eq=False)
class Columns:
    """Of each column, in the units of the file."""

    low: Array  # (d,)
    mean: Array
    spread: Array  # the population standard deviation
    high: Array


@dataclass(frozen=True, eq=False)
class Measured:
    """What one pass over the rows has found."""

    columns: Columns
    scores: Array  # (n, c): of the first c components
    errors: Array | None  # (n,): squared distance from the components, in feature space
    lengths: Array  # (n,): squared length of all scores of a row
    why_no_errors: str = ""


def measured(subject: Subject) -> Measured:
    """Read all rows once, block by block."""
    n, d, c = subject.n, subject.d, min(subject.k, MOST_AXES)
    scores, lengths = np.empty((n, c)), np.empty(n)
    why = _why_no_errors(subject)
    errors = None if why else np.empty(n)
    seen: ColumnMoments | None = None
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    # A row so far out that its numbers overflow has infinite ones, and is told of where they are shown.
    with np.errstate(over="ignore", invalid="ignore"):
        for i, block in row_blocks(subject.rows, min(BLOCK_ROWS, max(1, BLOCK_ENTRIES // d))):
            raw = subject.raw(block).astype(np.float64, copy=False)
            here = ColumnMoments.of(raw, None, raw[0] if seen is None else seen.shift)
            seen = here if seen is None else seen.merged(here)
            low, high = np.minimum(low, raw.min(axis=0)), np.maximum(high, raw.max(axis=0))
            found = subject.scores(block)
            scores[i], lengths[i] = found[:, :c], np.sum(found.astype(np.float64) ** 2, axis=1)
            if errors is not None:
                errors[i] = subject.projector.reconstruction_error(subject.inner(block))
    assert seen is not None  # there are rows
    return Measured(Columns(low, seen.mean, seen.spread(), high), scores, errors, lengths, why)


def _why_no_errors(subject: Subject) -> str:
    if subject.is_precomputed:
        return (
            "The kernel is a matrix from a file. What the components miss of a row needs its k(x, x), which "
            "kernel values against the training points don't have."
        )
    if not hasattr(subject.projector, "reconstruction_error"):
        return f"{type(subject.projector).__name__} does not measure what its components miss."
    return ""
