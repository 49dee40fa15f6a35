"""A plan that does not fit is refused before anything is allocated, with the numbers and the ways out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer._core.errors import MemoryBudgetError
from mercer._core.memory import format_bytes
from mercer.planning.crossovers import LAPACK_ROWS, lapack_share
from mercer.solvers import Lapack

if TYPE_CHECKING:
    from mercer.planning.problem import Plan, Problem


def checked(chosen: Plan, problem: Problem) -> Plan:
    """The plan, if it fits into the budget."""
    if chosen.n_bytes > problem.budget_bytes:
        what = type(chosen.approximation or chosen.solver).__name__
        msg = (
            f"This fit needs up to {format_bytes(chosen.n_bytes)} (n={problem.n}, d={problem.d}, "
            f"{chosen.route} route, {what}), but `memory` allows {format_bytes(problem.budget_bytes)}. "
            f"{_ways_out(chosen, problem)}"
        )
        raise MemoryBudgetError(msg)
    return chosen


def _ways_out(chosen: Plan, problem: Problem) -> str:
    more = f"Raise `memory` to {format_bytes(1.1 * chosen.n_bytes)}"
    if chosen.approximation is not None:
        return f"{more}, give {type(chosen.approximation).__name__} a lower rank, or fit on fewer rows."
    if problem.precomputed or problem.linear:
        return f"{more}, ask for fewer components, or fit on fewer rows."
    rank = max(1, min(100, problem.n // 4))
    low_rank = f"use approximation=RPCholesky(rank={rank}), which never forms K"
    if isinstance(chosen.solver, Lapack) and problem.n > LAPACK_ROWS:
        most = problem.n // lapack_share(problem.n)
        fewer = f"ask for at most {most} components, for which K is not formed"
        return f"{more}, {fewer}, or {low_rank}."
    return f"{more}, {low_rank}, or fit on fewer rows."
