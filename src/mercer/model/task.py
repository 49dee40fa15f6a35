"""What a route of a fit is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from mercer._core.observer import SILENT
from mercer.engine.resolve import AUTO, resolve_engine

if TYPE_CHECKING:
    import numpy as np

    from mercer._core.observer import Observer
    from mercer._core.types import Array, Rows
    from mercer.engine.base import Engine
    from mercer.kernels.base import Kernel
    from mercer.planning.recipe import Plan


@dataclass(frozen=True, repr=False)
class Task:
    """Kernel PCA of these rows, as planned."""

    kernel: Kernel  # resolved
    x: Rows  # checked
    asked: int | float | None  # components, or a share of the variance
    plan: Plan
    rng: np.random.Generator
    weights: Array | None = None  # (n,)
    observer: Observer = SILENT
    engine: Engine[Any] = field(default_factory=partial(resolve_engine, AUTO))
