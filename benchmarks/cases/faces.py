"""What is the dual side worth? Eigenfaces: 400 pictures of 10 304 pixels, all components."""

from __future__ import annotations

from benchmarks.case import FACES, Case


def cases(datasets: tuple[str, ...], *, large: bool) -> list[Case]:  # noqa: ARG001
    return [Case("linear", FACES, 400, 112 * 92, None)]
