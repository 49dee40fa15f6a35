"""Solvers by name, and by the text of a call."""

from __future__ import annotations

from copy import copy

from mercer._core.errors import ParameterError, nearest
from mercer.kernels.text import parse_call
from mercer.solvers import SOLVERS, Solver


def named_solver(solver: str | Solver) -> Solver | None:
    """A solver, or the one behind a name or a call such as ``krylov(tol=1e-8)``; None for ``"auto"``."""
    if isinstance(solver, Solver):
        solver.check()
        return copy(
            solver
        )  # the plan is a record: the caller may change the solver's parameters later
    if isinstance(solver, str):
        if solver == "auto":
            return None
        if solver in SOLVERS:
            return SOLVERS[solver]()
        if "(" in solver:
            return named_solver(parse_call(solver, SOLVERS, what="solver"))
        msg = f"Unknown solver {solver!r}. {nearest(solver, ['auto', *SOLVERS])}"
        raise ParameterError(msg)
    msg = (
        f"solver must be a name or a solver object, but a {type(solver).__name__} came. "
        f"{nearest('', ['auto', *SOLVERS])}"
    )
    raise ParameterError(msg)
