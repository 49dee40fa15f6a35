"""Does the benchmark itself work? A minute's worth of every kind of line; no figures to quote."""

from __future__ import annotations

from benchmarks.case import Case
from benchmarks.cases import faces


def cases(datasets: tuple[str, ...], *, large: bool) -> list[Case]:
    return [
        *faces.cases(datasets, large=large),
        *(Case("rbf", dataset, n, 50, 20) for n in (500, 1000) for dataset in datasets),
        Case("poly", datasets[0], 1000, 10, 20),
    ]
