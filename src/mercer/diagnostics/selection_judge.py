"""A judge behind the scores where rows carry weights: whole ones repeat rows, others are handed on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from mercer.data.rows import take_rows
from mercer.diagnostics.selection_weights import refuse_weights, whole

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices
    from mercer.diagnostics.selection_court import Court
    from mercer.estimators.kernel_pca import KernelPCA

# Up to so many rows whole weights are written out: any judge and any scoring can count rows.
WRITTEN_OUT = 20_000


def repeated(court: Court) -> list[tuple[Indices, Indices]] | None:
    """The folds with each row as often as it counts; None where weights have to be handed on."""
    if court.weights is None:
        return court.folds
    counts = whole(court.weights)
    if counts is None or int(counts.sum()) > WRITTEN_OUT:
        return None
    return [tuple(np.repeat(part, counts[part]) for part in fold) for fold in court.folds]  # type: ignore[misc]


def judged_by_weight(pipeline: Pipeline, court: Court) -> tuple[list[KernelPCA], Array]:
    """Models and scores, fold by fold: fits of the pipeline and the scoring get the weights."""
    assert court.weights is not None  # `repeated` looked
    scorer = check_scoring(pipeline, scoring=court.criterion)
    models, scores = [], []
    for train, test in court.folds:
        own = clone(pipeline)
        own.fit(take_rows(court.rows, train), court.y[train], **handed(own, court.weights[train]))
        new, labels = take_rows(court.rows, test), court.y[test]
        scores.append(float(scorer(own, new, labels, sample_weight=court.weights[test])))
        models.append(own[0])
    return models, np.array(scores)


def handed(pipeline: Pipeline, weights: Array, prefix: str = "") -> dict[str, Any]:
    """`sample_weight` for every step that takes it; the last one, which learns, has to."""
    found: dict[str, Any] = {}
    for place, (name, step) in enumerate(pipeline.steps):
        if isinstance(step, Pipeline):
            found |= handed(step, weights, f"{prefix}{name}__")
        elif has_fit_parameter(step, "sample_weight"):
            found[f"{prefix}{name}__sample_weight"] = weights
        elif place == len(pipeline.steps) - 1:
            raise refuse_weights(step)
    return found
