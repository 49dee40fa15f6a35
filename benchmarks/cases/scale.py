"""How do time and memory grow with n, on a flat spectrum and on a decaying one?"""

from __future__ import annotations

from benchmarks.case import Case

SIZES = (1000, 2000, 5000, 10_000)
LARGE = 20_000


def sizes(*, large: bool) -> tuple[int, ...]:
    return (*SIZES, LARGE) if large else SIZES


def cases(datasets: tuple[str, ...], *, large: bool) -> list[Case]:
    return [Case("rbf", dataset, n, 50, 20) for n in sizes(large=large) for dataset in datasets]
