"""The only chooser. A pure function of a few numbers, decided before an array is touched."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mercer.engine.tiles import SINGLE, cached_width, is_roomy, paying_threads, square_tiling
from mercer.planning.bytes import (
    FLOAT,
    SMALL,
    lapack_bytes,
    primal_bytes,
    ready_bytes,
    streamed_bytes,
    tile_bytes,
)
from mercer.planning.crossovers import LAPACK_ROWS, SMALL_ROWS, SMALL_SHARE, lapack_share
from mercer.planning.krylov_memory import (
    SHARE_COMPONENTS,
    most_components,
    run_bytes,
    useful_columns,
    within,
)
from mercer.planning.problem import Plan, Problem, Storage
from mercer.planning.refusal import checked
from mercer.planning.tile_cache import Holding, holding, rounded_holding
from mercer.solvers import BlockKrylov, Lapack, Solver
from mercer.solvers.names import named_solver

if TYPE_CHECKING:
    from mercer.approximations import Approximation

TIGHT_TOL = 1e-10
HALF_TOL = 5e-7  # what iterating on a float32 sketch reaches; below, each digit would cost a pass
ONCE = (
    "each tile is made once, in float64, and held rounded, which halves the memory traffic of a product; "
    "rows in float64 show what the rounding adds to residuals"
)
TWICE = "float32 halves the time of making a tile; residuals are proved in float64"
TILES_SHARE = 4  # live tiles take at most this part of the budget
PRODUCT_COLUMNS = 500  # columns multiplied in a typical Krylov run: blocks times products


def plan(problem: Problem, solver: str | Solver = "auto") -> Plan:
    """Choose route, solver and storage; raise before anything is allocated if nothing fits.

    Examples
    --------
    >>> print(plan(Problem(n=10_000, d=50, n_components=20, shift_invariant=True)))
    dual route, BlockKrylov(...), half of K held as float32 tiles, checked in float64 (...), at most ...
      - n=10000 and k=20: iterating for the top k costs far less than all of LAPACK's n³
      - each tile is made once, in float64, and held rounded, which halves the memory traffic ...
    """
    problem = _on_threads(problem)
    chosen = named_solver(solver)
    primal = _primal(problem, chosen)
    if primal is not None:
        return checked(primal, problem)
    if chosen is None:
        chosen, reason = _solver(problem)
    else:
        reason = f"solver={chosen!r} was asked for"
    if isinstance(chosen, Lapack):
        return checked(_lapack_plan(problem, chosen, reason), problem)
    return checked(_krylov_plan(problem, chosen, reason), problem)


def plan_approximation(problem: Problem, approximation: Approximation) -> Plan:
    """An approximation was asked for: memory for its passes, and for exact ones if it is refined."""
    problem, chosen = _on_threads(problem), copy(approximation)
    shape = problem.n, problem.d_held
    n_bytes = chosen.n_bytes(shape, problem.itemsize) + problem.reading_bytes
    reasons: tuple[str, ...] = (f"approximation={chosen!r} was asked for",)
    if not chosen.refine:
        found = Plan("low-rank", Lapack(), "none", n_bytes, reasons, approximation=chosen)
        return checked(found, problem)
    reasons = (*reasons, f"refine={chosen.refine}: exact passes give Ritz pairs with residuals")
    k = problem.k or chosen.width(problem.n)
    room = chosen.refine * (k + 12)
    solver = BlockKrylov(max_basis=room)
    exact = _krylov_plan(replace(problem, n_components=k), solver, reasons[0], hold=False)
    n_bytes = max(n_bytes, exact.n_bytes) + FLOAT * problem.n * (k + 12)
    return checked(
        replace(
            exact,
            n_bytes=n_bytes,
            reasons=reasons,
            approximation=chosen,
        ),
        problem,
    )


def _on_threads(problem: Problem) -> Problem:
    """The problem with no more threads than pay for so many rows, in so much memory."""
    n_threads = paying_threads(
        problem.n, problem.n_threads, budget_bytes=problem.budget_bytes // TILES_SHARE
    )
    return replace(problem, n_threads=n_threads)


def plan_linear(problem: Problem, solver: str | Solver = "auto") -> Plan:
    """PCA itself: the d x d covariance or the n x n dot products, whichever is smaller."""
    n, d = problem.n, problem.d
    chosen = named_solver(solver) or _small_solver(problem, min(n, d))
    m = min(n, d)
    k = problem.k or m
    n_bytes = problem.itemsize * n * d + FLOAT * (5 * m * m + 3 * d * k + 4 * n * k) + SMALL
    if d <= n and problem.from_source:
        n_bytes = streamed_bytes(d=d, m=d) + problem.reading_bytes
    elif problem.from_source:
        n_bytes += problem.itemsize * n * d + problem.reading_bytes
    n_bytes += (
        0 if problem.linear else problem.rows_bytes
    )  # PCA keeps no rows, KernelPCA made a copy
    if not problem.dense:  # sparse rows are not centred, and there is no dense copy of them
        n_bytes += 3 * problem.rows_bytes - problem.itemsize * n * d
    if d <= n:
        reason = f"d={d} <= n={n}: the covariance is the smaller matrix"
        return checked(Plan("primal", chosen, "none", n_bytes, (reason,)), problem)
    reason = f"d={d} > n={n}: the matrix of dot products is smaller and has the same eigenvalues"
    return checked(Plan("dual", chosen, "full", n_bytes, (reason,)), problem)


def _primal(problem: Problem, chosen: Solver | None) -> Plan | None:
    m, n = problem.map_dimension, problem.n
    if m is None or m >= n:
        return None
    few = problem.k is not None and problem.k <= n // lapack_share(n)
    if few and m**2 > n * (problem.d + PRODUCT_COLUMNS) and n > LAPACK_ROWS:
        return None  # the map is smaller than n, but its covariance costs more than the products
    k = problem.k or m
    if problem.from_source:
        n_bytes = streamed_bytes(d=problem.d, m=m) + problem.reading_bytes
    else:
        n_bytes = primal_bytes(n=n, m=m, k=k, itemsize=problem.itemsize) + problem.rows_bytes
    if n_bytes > problem.budget_bytes:
        return None
    reason = f"the explicit map has {m} columns for n={n} rows: its covariance is {m} x {m}"
    return Plan("primal", chosen or _small_solver(problem, m), "none", n_bytes, (reason,))


def _small_solver(problem: Problem, size: int) -> Solver:
    k = problem.k
    if k is None or size <= 2 * LAPACK_ROWS or k > size // SMALL_SHARE:
        return Lapack()
    return BlockKrylov(tol=TIGHT_TOL)


def _solver(problem: Problem) -> tuple[Solver, str]:
    n, k = problem.n, problem.k
    if n <= LAPACK_ROWS:
        return Lapack(), f"n={n} is small: one LAPACK call gives the whole spectrum"
    if problem.n_components is None:
        return Lapack(), f"all components of n={n} rows were asked for"
    if k is None:
        if n <= SMALL_ROWS:
            return Lapack(), f"a share of the variance was asked for, and n={n} is small"
        return BlockKrylov(), "a share of the variance was asked for: k grows until it is reached"
    share = lapack_share(n)
    if k > n // share:
        return Lapack(), f"k={k} is more than n/{share}: a Krylov basis would grow towards K itself"
    reason = f"n={n} and k={k}: iterating for the top k costs far less than all of LAPACK's n³"
    # In single precision rounding is all that is left below 1e-6.
    tight = n <= SMALL_ROWS and problem.itemsize == 8
    tol = TIGHT_TOL if tight else BlockKrylov.tol
    return BlockKrylov(tol=tol), reason


def _lapack_plan(problem: Problem, solver: Lapack, reason: str) -> Plan:
    # K of a few float32 rows is solved in float64 where that fits: the eigenvalues of a wide kernel are
    # far below its entries, and drown in their rounding.
    wide = replace(problem, itemsize=FLOAT)
    double = problem.itemsize < FLOAT and problem.n <= SMALL_ROWS and not problem.precomputed
    double = double and _lapack_bytes(wide, solver) + _function_bytes(wide) <= problem.budget_bytes
    problem = wide if double else problem
    n_bytes = _lapack_bytes(problem, solver) + _function_bytes(problem)
    reasons: tuple[str, ...] = (reason,)
    if problem.costly:
        reasons = (*reasons, "a Python function is called once a pair")
    storage: Storage = "full" if problem.costly else "none"
    width = _width(problem, problem.itemsize)
    return Plan(
        "dual",
        solver,
        storage,
        n_bytes,
        reasons,
        width=width,
        double=double,
        n_threads=problem.n_threads,
    )


def _function_bytes(problem: Problem) -> int:
    """K of a Python function, which is held: no entry is computed twice."""
    return problem.n**2 * problem.itemsize if problem.costly else 0


def _lapack_bytes(problem: Problem, solver: Lapack) -> int:
    n, itemsize = problem.n, problem.itemsize
    own = lapack_bytes(n=n, k=problem.k or n, itemsize=itemsize, subset=solver.subset)
    return own + _rows_bytes(problem) + _tile_bytes(problem)


def _width(problem: Problem, itemsize: int) -> int:
    return square_tiling(
        problem.n,
        itemsize=itemsize,
        budget_bytes=_tiles_budget(problem),
        n_threads=problem.n_threads,
        d=0 if problem.precomputed else problem.d,
    ).width


def _tiles_budget(problem: Problem) -> int:
    # One entry at least.
    return max(problem.budget_bytes // TILES_SHARE, 16 * problem.n_threads)


def _tile_bytes(problem: Problem) -> int:
    if problem.precomputed:
        return 0
    roomy = is_roomy(
        n_rows=problem.n,
        budget_bytes=_tiles_budget(problem),
        n_threads=problem.n_threads,
        d=problem.d,
    )
    return tile_bytes(
        n_threads=problem.n_threads,
        itemsize=8 if problem.dense else 24,  # a sparse product comes with its indices
        d=problem.d_held,
        width=min(problem.n, cached_width(8, problem.d, roomy=roomy, n_threads=problem.n_threads)),
        in_memory=problem.in_memory,
    )


def _rows_bytes(problem: Problem, *, sketch: bool = False) -> int:
    """The model's own rows, and those made ready for tiles: once in float64, once for a sketch."""
    if problem.precomputed:
        return problem.rows_bytes
    if not problem.dense:  # float32 rows are made float64 for the proof; slices are copies
        return 3 * problem.rows_bytes
    size = SINGLE if sketch else problem.itemsize
    ready = ready_bytes(n=problem.n, d=problem.d, itemsize=size, in_memory=problem.in_memory)
    ready += _proof_rows_bytes(problem) if sketch else 0
    return problem.rows_bytes + problem.reading_bytes + ready


def _proof_rows_bytes(problem: Problem) -> int:
    """Rows made ready in float64 beside those of a sketch."""
    if not problem.dense:
        return 0
    return ready_bytes(n=problem.n, d=problem.d, itemsize=FLOAT, in_memory=problem.in_memory)


def _sketch_rows_bytes(problem: Problem) -> int:
    """Rows made ready in float32: for tiles that are made anew in each product."""
    if not problem.dense:
        return 0
    return ready_bytes(n=problem.n, d=problem.d, itemsize=SINGLE, in_memory=problem.in_memory)


def _tiles(
    problem: Problem, *, sketch: bool, free: int, ready: int, most: int
) -> tuple[int, Holding]:
    """How wide tiles are and which of them are held: all if possible, made once and rounded.

    `ready` more bytes than `free` are there if rows are sliced, but tiles never take more than `most`.
    """
    if not sketch:
        width = _width(problem, problem.itemsize)
        room = min(free, most)
        return width, holding(problem, width=width, itemsize=problem.itemsize, free=room)
    width = _width(problem, FLOAT)
    # Made in float64 alone: no rows are made ready in float32.
    whole = rounded_holding(
        problem, width=width, free=free + _sketch_rows_bytes(problem), ready=ready, most=most
    )
    if whole is not None:
        return width, whole
    width = _width(problem, SINGLE)
    some = holding(problem, width=width, itemsize=SINGLE, free=min(free + ready, most))
    return width, replace(some, sliced=ready > 0)


def _krylov_plan(problem: Problem, solver: Solver, reason: str, *, hold: bool = True) -> Plan:
    """On as many threads as leave room for the whole basis and, where that can be, for all tiles.

    Each thread has a sum of its own, (n, block), and tiles of its own. In a tight budget they would take the
    room of the basis, whose restarts cost products, or of tiles, which are then made anew.
    """
    most = problem.n_threads
    counts = {most, *(2**j for j in range(most.bit_length()))}  # such as 14, 8, 4, 2, 1
    plans = [
        _krylov_on(replace(problem, n_threads=count), solver, reason, hold=hold) for count in counts
    ]

    def merits(found: Plan) -> tuple[int, int, bool, bool, int]:
        missing = min(problem.budget_bytes - found.n_bytes, 0)  # a refusal names the least there is
        if found.n_threads == 1:  # half of the speed of two: only where nothing else fits
            return missing, 0, False, False, 1
        all_tiles = found.storage != "tiles" or found.held == 1.0
        columns = useful_columns(problem, asked=solver, found=found.solver)
        return missing, columns, all_tiles, not found.packed, found.n_threads

    best = max(plans, key=merits)
    if best.n_threads == most:
        return best
    why = (
        f"{best.n_threads} of {most} threads: the sums and tiles of more would not fit in `memory`"
    )
    return replace(best, reasons=(*best.reasons, why))


def _krylov_on(problem: Problem, solver: Solver, reason: str, *, hold: bool) -> Plan:
    """The same on a given number of threads."""
    n, k = problem.n, problem.k or (SHARE_COMPONENTS if problem.is_share else problem.n)
    sketch = hold and _sketches(problem, solver)
    # Values that float32 can't hold are made in float64, whatever the rows are; and so are those of few rows,
    # which no sketch is proved for: K may fit whole or not, but residuals are to be true.
    wide = hold and not problem.precomputed and problem.itemsize < FLOAT
    wide = wide and (n <= SMALL_ROWS or not problem.fits_single)
    problem = replace(problem, itemsize=FLOAT) if wide else problem
    fixed = _rows_bytes(problem, sketch=sketch) + _tile_bytes(problem)
    ready = _proof_rows_bytes(problem) if sketch else 0
    asked, (solver, basis, reasons) = solver, within(problem, solver, k, fixed)
    sliced = ready > 0 and (bool(reasons) or fixed + basis > problem.budget_bytes)
    if sliced:  # rather slices of rows, made ready again, than a short basis
        fixed -= ready
        solver, basis, reasons = within(problem, asked, k, fixed)
    reasons = (reason, *reasons)
    if problem.precomputed:
        reasons = (*reasons, "K is the caller's own matrix")
        n_bytes, facts = _grown(problem, solver, fixed, basis)
        facts |= {"n_threads": problem.n_threads}
        return Plan("dual", solver, "full", n_bytes, reasons, **facts)
    whole = n * n * problem.itemsize
    if hold and n <= SMALL_ROWS and fixed + basis + whole <= problem.budget_bytes:
        n_bytes, facts = _grown(problem, solver, fixed, basis, held=whole)
        facts |= {"width": _width(problem, problem.itemsize), "double": wide}
        facts |= {"n_threads": problem.n_threads}
        return Plan("dual", solver, "full", n_bytes, reasons, **facts)
    free = problem.budget_bytes - fixed - basis if hold else 0
    lapack = _lapack_bytes(problem, Lapack())
    # k grows with the share, towards LAPACK if need be: room for that.
    spared = lapack if problem.is_share and lapack <= problem.budget_bytes else 0
    spare, left = 0 if sliced else ready, problem.budget_bytes - spared
    width, tiles = _tiles(problem, sketch=sketch, free=free, ready=spare, most=left)
    if sketch:
        reasons = (*reasons, ONCE if tiles.share == 1.0 else TWICE)
    if hold:
        reasons = (*reasons, *tiles.reasons)
    fixed -= spare if tiles.sliced else 0
    fixed -= _sketch_rows_bytes(problem) if sketch and tiles.share == 1.0 else 0
    n_bytes, facts = _grown(problem, solver, fixed, basis, held=tiles.n_bytes)
    facts |= {"width": width, "sketch": sketch, "packed": tiles.packed}
    facts |= {"double": wide, "n_threads": problem.n_threads}
    facts |= {"hold_bytes": tiles.n_bytes, "held": tiles.share, "sliced": sliced or tiles.sliced}
    return Plan("dual", solver, "tiles", n_bytes, reasons, **facts)


def _grown(
    problem: Problem, solver: Solver, fixed: int, basis: int, *, held: int = 0
) -> tuple[int, dict[str, Any]]:
    """The most that a fit holds, and how far k may grow where a share of the variance was asked for."""
    if not problem.is_share:
        return fixed + held + basis, {}
    lapack = _lapack_bytes(problem, Lapack()) + held
    fits = lapack <= problem.budget_bytes
    most = most_components(problem, solver, fixed + held)
    n_bytes = max(fixed + held + run_bytes(problem, solver, most), lapack if fits else 0)
    return n_bytes, {"lapack_fits": fits, "most_components": most}


def _sketches(problem: Problem, solver: Solver) -> bool:
    """Whether products iterate on float32 tiles, to be proved in float64."""
    if problem.precomputed or problem.n <= SMALL_ROWS or not isinstance(solver, BlockKrylov):
        return False
    if problem.costly or not problem.fits_single:
        return False  # no entry of a user's function is computed twice, if memory allows
    if problem.itemsize == 4:
        return True
    return problem.shift_invariant and problem.dense and solver.tol >= HALF_TOL
