"""The NumPy engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer._core.memory import available_bytes
from mercer.engine.base import Facts
from mercer.engine.threads import n_blas_threads


@dataclass(frozen=True)
class NumpyEngine:
    """Tiles in NumPy, one per thread at a time."""

    n_threads: int | None = None

    def facts(self) -> Facts:
        """What it is, how wide, and that it runs every kernel."""
        lanes = self.n_threads or n_blas_threads()
        return Facts("numpy", lanes, available_bytes(), _runs_every_kernel)


def _runs_every_kernel(kernel: Any) -> None:  # noqa: ARG001
    return None
