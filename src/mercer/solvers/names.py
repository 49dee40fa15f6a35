"""Solvers by name, and by the text of a call."""

from __future__ import annotations

from copy import copy

from mercer.kernels.text import named
from mercer.solvers import SOLVERS, Solver


def named_solver(solver: str | Solver) -> Solver | None:
    """A solver, or the one behind a name or a call such as ``krylov(tol=1e-8)``; None for ``"auto"``."""
    if isinstance(solver, str) and solver == "auto":
        return None
    # The plan is a record: the caller may turn the knobs of the solver that was passed later.
    chosen: Solver = copy(named("solver", solver, Solver, SOLVERS, "auto"))
    chosen.check()
    return chosen
