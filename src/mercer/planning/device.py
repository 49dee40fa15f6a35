"""Can a GPU pay that nobody asked for? Arithmetic alone, so that a short fit never waits for torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer.planning.recipe import HOST, Tiles
from mercer.solvers import BlockKrylov, Lanczos

if TYPE_CHECKING:
    from mercer.planning.recipe import Plan

# A process pays it once: importing torch takes some 3 s, the context of a device 1 s, compiling a pass 10 s.
START_SECONDS = 15.0
# What a core does in a second, from one of a full machine in float64 to one alone in float32: 2 to 10 · 10¹⁰.
CORE_FLOPS = 5e10
FORMULA_FLOPS = 30.0  # of an entry, once its product of rows is there: an exponential, say
# A device is taken where its forecast is this part of the processor's: it leaves out what the host does.
PAYING_SHARE = 0.5


def work(plan: Plan, n: int, d: int, k: int) -> float:
    """Floating-point operations of an exact fit that iterates over tiles; 0 for any other.

    A product uses every entry, and makes those of one side of the diagonal of which no tile is held.
    """
    if not isinstance(plan.solver, BlockKrylov | Lanczos) or not isinstance(plan.recipe, Tiles):
        return 0.0
    products, columns = plan.solver.products(k, n), plan.solver.width(k, n)
    made = 1.0 + (products - 1.0) * (1.0 - plan.recipe.share)
    return float(n) ** 2 * (made * (d + 0.5 * FORMULA_FLOPS) + products * 2.0 * columns)


def may_pay(plan: Plan, n: int, d: int, k: int) -> bool:
    """Whether the processor would take longer for this fit than a device takes to start."""
    if plan.approximation is not None or plan.engine not in HOST:
        return False
    return work(plan, n, d, k) > START_SECONDS * CORE_FLOPS * plan.n_threads
