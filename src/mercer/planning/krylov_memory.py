"""How long a Krylov basis there is room for, and how wide its blocks are then."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mercer.planning.bytes import FLOAT, krylov_bytes
from mercer.planning.crossovers import lapack_share
from mercer.solvers import BlockKrylov

if TYPE_CHECKING:
    from mercer.planning.problem import Problem
    from mercer.solvers import Solver

FEW_BLOCKS = 5  # that a basis should hold between restarts
SHARE_COMPONENTS = 64  # to plan with, when a share of the variance leaves their number open


def within(
    problem: Problem, solver: Solver, k: int, fixed: int
) -> tuple[Solver, int, tuple[str, ...]]:
    """The solver with a basis that fits: a shorter one restarts more often, and costs products."""
    if not isinstance(
        solver, BlockKrylov
    ):  # a solver of the user's own: what it holds is not known
        return solver, run_bytes(problem, solver, k), ()
    needed = run_bytes(problem, solver, k)
    spare = problem.budget_bytes - fixed
    if needed <= spare:
        return solver, needed, ()
    shorter = [
        found
        for block in _blocks(solver, k, problem.n)
        if (found := _shorter(problem, solver, k, block, spare))
    ]
    if not shorter:  # the refusal names what the least would take
        block = _blocks(solver, k, problem.n)[-1]
        least = replace(solver, block=block, max_basis=k + 2 * block)
        return least, run_bytes(problem, least, k), ()
    # The widest block of which the basis holds a few; a basis of two blocks hardly converges.
    enough = [
        found
        for found in shorter
        if found.room(k, problem.n) >= k + FEW_BLOCKS * (found.block or 1)
    ]
    short = enough[0] if enough else shorter[-1]
    why = (
        f"the Krylov basis restarts at {short.max_basis} columns, in blocks of {short.block}, to stay within "
        "`memory`"
    )
    return short, run_bytes(problem, short, k), (why,)


def _blocks(solver: BlockKrylov, k: int, n: int) -> list[int]:
    """Widths of a block to try, the usual one first; one that the user has set stays."""
    width = solver.width(k, n)
    return [width] if solver.block is not None else [width, max(width // 2, 1), max(width // 4, 1)]


def _shorter(
    problem: Problem, solver: BlockKrylov, k: int, block: int, spare: int
) -> BlockKrylov | None:
    """The solver with this block and the longest basis that fits; None when not even two blocks do."""
    short = replace(solver, block=block, max_basis=k + 2 * block)
    left = spare - run_bytes(problem, short, k)
    if left < 0:
        return None
    most = solver.max_basis or k + 8 * block
    room = min(k + 2 * block + left // (2 * FLOAT * problem.n), max(most, k + 2 * block))
    return replace(short, max_basis=int(room))


def run_bytes(problem: Problem, solver: Solver, k: int) -> int:
    """What a run for k components holds; what one of the user's own does is not known, and taken for ours."""
    n, known = problem.n, solver if isinstance(solver, BlockKrylov) else BlockKrylov()
    return krylov_bytes(
        n=n, k=k, block=known.width(k, n), room=known.room(k, n), n_threads=problem.n_threads
    )


def useful_columns(problem: Problem, *, asked: Solver, found: Solver) -> int:
    """Columns of the basis of `found`, as far as more of them save products: a few blocks of `asked`."""
    if not isinstance(asked, BlockKrylov) or not isinstance(found, BlockKrylov):
        return 0
    n, k = problem.n, problem.k or SHARE_COMPONENTS
    return min(found.room(k, n), k + FEW_BLOCKS * asked.width(k, n))


def most_components(problem: Problem, solver: Solver, fixed: int) -> int:
    """Components whose blocks fit, when a share of the variance makes their number grow."""
    if not isinstance(solver, BlockKrylov):
        return problem.n
    k, most = SHARE_COMPONENTS, problem.n // lapack_share(problem.n)
    while k < most:
        more = min(2 * k, most)
        if fixed + run_bytes(problem, solver, more) > problem.budget_bytes:
            break
        k = more
    return k
