"""What is an explicit map worth? Degree 2 in 10 features has 66 monomials, far fewer than n."""

from __future__ import annotations

from benchmarks.case import Case


def cases(datasets: tuple[str, ...], *, large: bool) -> list[Case]:  # noqa: ARG001
    return [Case("poly", datasets[0], 10_000, 10, 20)]
