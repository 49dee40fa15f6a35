"""What each approximation leaves out of one data set, for several ranks and seeds; no clock runs."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.accuracy import rbf_tile
from benchmarks.scale import ruler
from benchmarks.scale.data import load, width
from benchmarks.scale.entrants import ENTRANTS, FOURIER, KMEANS, NYSTROM, RPCHOLESKY
from benchmarks.scale.tasks.fit import number_or_none

if TYPE_CHECKING:
    from benchmarks.scale.case import Case, Options

METHODS = (RPCHOLESKY, NYSTROM, KMEANS, FOURIER)


def measure(
    case: Case, who: str, options: Options, *, folder: str | None, repeat: int
) -> dict[str, Any]:
    del who, repeat  # all methods, and each seed once
    x = load(case, folder)
    gamma = width(case, x)
    tile = rbf_tile(gamma)
    found = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for method in METHODS:
            for rank in options.ranks:
                for seed in range(options.n_seeds):
                    chosen = replace(options, rank=rank, seed=seed)
                    model = ENTRANTS[method](case, gamma, chosen).fit(x)
                    features = ruler.fitted_features(tile, model)
                    worth = {
                        "left_out": number_or_none(model.fit_.trace_error),
                        "frobenius": ruler.frobenius(tile, features, x),
                    }
                    found.append({"who": method, "rank": rank, "seed": seed, **worth})
    told = sorted({str(warning.message) for warning in caught})
    return {"gamma": gamma, "errors": found, "warnings": told}
