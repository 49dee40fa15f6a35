"""Types of parameters that estimators share, with names that an editor completes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np

from mercer.approximations import Approximation, ApproximationName
from mercer.engine.base import Engine
from mercer.engine.resolve import EngineName
from mercer.kernels import Kernel
from mercer.kernels.names import KernelName
from mercer.preimage import Preimage, PreimageName
from mercer.solvers import Solver, SolverName


class Client(Protocol):
    """What a client of Dask looks like, which may not be installed."""

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        """A task for the cluster."""


# Each is a name, the same with its parameters as text, or an object.
KernelLike: TypeAlias = KernelName | str | Kernel | Callable[..., Any]
SolverLike: TypeAlias = SolverName | str | Solver
ApproximationLike: TypeAlias = ApproximationName | str | Approximation | None
PreimageLike: TypeAlias = PreimageName | str | Preimage | None
EngineLike: TypeAlias = EngineName | str | Engine[Any] | Client
Seed: TypeAlias = int | np.random.Generator | np.random.RandomState | None
