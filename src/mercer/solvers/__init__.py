"""Solvers: from an operator to its leading eigenpairs. A solver's knobs live on it."""

from typing import Literal, TypeAlias

from mercer.solvers.base import EigenPairs, Solver
from mercer.solvers.dense import Lapack
from mercer.solvers.krylov import BlockKrylov
from mercer.solvers.lanczos import Lanczos

# For editors to complete; a test holds it and the table together.
SolverName: TypeAlias = Literal["auto", "krylov", "lanczos", "lapack"]
# A dict, not a ladder: a new solver is one line here, and its name in the line above.
SOLVERS: dict[str, type[Solver]] = {"krylov": BlockKrylov, "lanczos": Lanczos, "lapack": Lapack}

__all__ = ["SOLVERS", "BlockKrylov", "EigenPairs", "Lanczos", "Lapack", "Solver", "SolverName"]
