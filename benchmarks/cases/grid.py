"""Does the answer hold everywhere? Each n, d, k, kernel and data set, smallest n first."""

from __future__ import annotations

from itertools import product

from benchmarks.case import KERNELS, Case
from benchmarks.cases.scale import sizes


def cases(datasets: tuple[str, ...], *, large: bool) -> list[Case]:
    # n is the outermost loop: the small runs tell how long the large ones would take.
    axes = product(sizes(large=large), KERNELS, (10, 50, 784), (2, 20, 100), datasets)
    return [Case(kernel, dataset, n, d, k) for n, kernel, d, k, dataset in axes]
