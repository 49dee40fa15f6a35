"""A row of weight 2 is that row twice: repeated rows become one with a weight, and means count weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer.data.rows import take_rows
from mercer.engine.equal_rows import distinct

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices, Rows


def merged(
    rows: Rows, y: Any, weights: Array | None, *, least: int
) -> tuple[Rows, Any, Array | None]:
    """Distinct rows in the order of their first appearance, their labels, and how often each counts.

    A row and its copy in two folds would be held out from itself. Rows with different labels stay apart.
    Where fewer than `least` rows are distinct there are no folds of them, and all rows stay as they are.
    """
    parts = (rows,) if y is None else (rows, _codes(y))
    first, counts = distinct(parts, weights)
    if first is None or len(first) < least:
        return rows, y, weights
    own = None if counts is None or np.all(counts == 1.0) else counts
    return take_rows(rows, first), None if y is None else y[first], own


def _codes(y: Any) -> Array:  # (n, 1)
    """A number for each label, whatever labels are."""
    _, codes = np.unique([repr(label) for label in y.tolist()], return_inverse=True)
    return codes.astype(np.float64)[:, None]


def weighted_mean(values: Array, weights: Array | None = None) -> float:
    """The mean of one number a row, where rows count by weight."""
    if weights is None or len(weights) != len(values):
        return float(np.mean(values))
    return float(np.average(values, weights=weights))


def standard_error(values: Array, weights: Array | None = None) -> float:
    """The standard error of `weighted_mean`; 0 where one value is all there is.

    Kish's effective number of rows, (Σw)²/Σw², takes the place of n: a row that counts a hundred times is
    one observation, and giving every row twice makes nothing more certain.
    """
    n, unit = len(values), float(np.max(np.abs(values), initial=0.0))
    if n < 2 or not 0.0 < unit < np.inf:
        return 0.0
    own = np.ones(n) if weights is None or len(weights) != n else weights / np.max(weights)
    share = own / own.sum()
    scaled = values / unit  # squares of squares overflow
    variance = float(np.sum(share * (scaled - np.sum(share * scaled)) ** 2))
    effective = 1.0 / float(np.sum(share**2))
    return unit * float(np.sqrt(variance / (effective - 1.0))) if effective > 1.0 else 0.0


def whole(weights: Array | None) -> Indices | None:
    """Weights as counts; None where there are none, or where some are not whole."""
    if weights is None or not np.all(weights == np.rint(weights)):
        return None
    return weights.astype(np.intp)


def refuse_weights(judge: Any) -> InputError:
    """The error for a judge that can't count rows by weights that are not whole."""
    msg = (
        f"sample_weight has values that are not whole, and {judge!r} takes no sample_weight in `fit`. Give "
        "whole weights, which repeat rows, or a judge that takes weights."
    )
    return InputError(msg)
