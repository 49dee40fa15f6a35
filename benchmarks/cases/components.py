"""What do few and many components cost? scikit-learn's default changes its route below ten."""

from __future__ import annotations

from benchmarks.case import Case


def cases(datasets: tuple[str, ...], *, large: bool) -> list[Case]:  # noqa: ARG001
    return [Case("rbf", datasets[0], 5000, 50, k) for k in (2, 100)]
