"""The cases, one file a question; each holds a function ``cases`` that lists its lines.

The first data set asked for is the main one: questions that cost much are put to it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.cases import components, faces, features, grid, polynomial, quick, scale

if TYPE_CHECKING:
    from benchmarks.case import Case

__all__ = ["full", "headline", "smoke"]


def headline(datasets: tuple[str, ...], *, large: bool) -> list[Case]:
    return [
        case
        for module in (faces, scale, components, features, polynomial)
        for case in module.cases(datasets, large=large)
    ]


def full(datasets: tuple[str, ...], *, large: bool) -> list[Case]:
    return [*faces.cases(datasets, large=large), *grid.cases(datasets, large=large)]


def smoke(datasets: tuple[str, ...], *, large: bool) -> list[Case]:
    return quick.cases(datasets, large=large)
