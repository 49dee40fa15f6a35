"""One fit: time, peak memory above the data, and what the result is worth."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.accuracy import rbf_tile
from benchmarks.measure import timed_fits
from benchmarks.scale import ruler
from benchmarks.scale.data import load, width
from benchmarks.scale.entrants import ENTRANTS, settled

if TYPE_CHECKING:
    from benchmarks.scale.case import Case, Options

WARM_UP_ROWS, WARM_UP_RANK = 600, 100


def measure(
    case: Case, who: str, options: Options, *, folder: str | None, repeat: int
) -> dict[str, Any]:
    x = load(case, folder)
    gamma, build = width(case, x), ENTRANTS[who]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # A small fit loads the code on the way, so that neither clock nor memory sees imports.
        small = None if options.rank is None else min(options.rank, WARM_UP_RANK)
        warm_up = replace(options, memory="auto", rank=small)
        build(case, gamma, warm_up).fit(x[:WARM_UP_ROWS])
        options = settled(who, case, gamma, options, x)
        expected = forecast(build(case, gamma, options), x) if options.forecast else {}
        caught.clear()  # what was said until here is not about this fit
        model, times = timed_fits(lambda: build(case, gamma, options), x, repeat)
    return {
        **times,
        "gamma": gamma,
        "budget": options.memory,
        "warnings": sorted({str(warning.message) for warning in caught}),
        **expected,
        **told(model),
        **(exact_worth(model, x, gamma) if is_exact(model) else low_rank_worth(model, x, gamma)),
    }


def forecast(model: Any, x: np.ndarray) -> dict[str, Any]:
    plan = model.plan(x)
    return {"expected_seconds": plan.seconds, "expected_products": plan.n_products}


def told(model: Any) -> dict[str, Any]:
    """What mercer says of its own fit; scikit-learn says nothing."""
    if not hasattr(model, "fit_"):
        return {}
    residuals = np.asarray(model.residuals_, dtype=np.float64)
    return {
        "plan": str(model.plan_),
        "planned_bytes": model.plan_.n_bytes,
        "held": 0.0 if model.plan_.recipe is None else model.plan_.recipe.share,
        "n_products": model.fit_.pairs.n_products,
        "told_residual": number_or_none(residuals.max(initial=0.0)),
        "told_left_out": number_or_none(model.fit_.trace_error),
    }


def number_or_none(value: Any) -> float | None:
    """JSON knows no NaN."""
    return float(value) if math.isfinite(value) else None


def is_exact(model: Any) -> bool:
    """Whether there is an eigenvector entry for each row, to be held against K itself."""
    if hasattr(model, "steps"):
        return False
    return getattr(model, "approximation", None) is None


def exact_worth(model: Any, x: np.ndarray, gamma: float) -> dict[str, Any]:
    values, vectors = model.eigenvalues_, model.eigenvectors_
    return {
        "residual": ruler.residual(rbf_tile(gamma), x, values, vectors),
        "n_returned": len(values),
        "eigenvalues": [float(value) for value in values],
    }


def low_rank_worth(model: Any, x: np.ndarray, gamma: float) -> dict[str, Any]:
    tile = rbf_tile(gamma)
    features = ruler.fitted_features(tile, model)
    # The squared singular values of centred features are the eigenvalues of the centred FFᵀ.
    values = model[-1].singular_values_ ** 2 if hasattr(model, "steps") else model.eigenvalues_
    return {
        "left_out": ruler.left_out(features, x),
        "frobenius": ruler.frobenius(tile, features, x),
        "n_returned": len(values),
        "eigenvalues": [float(value) for value in values],
    }
