"""What do many features cost, when filling the kernel matrix takes as long as solving?"""

from __future__ import annotations

from benchmarks.case import Case


def cases(datasets: tuple[str, ...], *, large: bool) -> list[Case]:  # noqa: ARG001
    return [Case("rbf", datasets[0], 5000, 784, 20)]
