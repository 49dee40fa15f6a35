"""The route of a fit, its solver and its bytes: a pure function of a few numbers, which touches no array."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from mercer._core.errors import MemoryBudgetError, many
from mercer._core.memory import format_bytes
from mercer._core.quick import changed
from mercer._core.wording import Message
from mercer.approximations import Approximation
from mercer.engine.tiles import paying_threads
from mercer.kernels.names import named
from mercer.planning.bytes import (
    FLOAT,
    SMALL,
    TILES_SHARE,
    device_pass_bytes,
    krylov_bytes,
    lapack_bytes,
    primal_bytes,
    streamed_bytes,
    tile_width,
)
from mercer.planning.krylov import SHARE_COMPONENTS, krylov_plan
from mercer.planning.problem import SMALL_ROWS, SMALL_SHARE, Problem, lapack_share
from mercer.planning.recipe import Given, Halved, Plan, Recipe, Tiles, Whole
from mercer.solvers import SOLVERS, BlockKrylov, Lanczos, Lapack, Solver

# Crossovers, as those of `mercer.planning.problem`.
LAPACK_ROWS = 500  # below, one LAPACK call beats any iteration for many components
ITERATED_ROWS = 150  # above, a few components of a stored K are found by iterating
ONE_BY_ONE_ROWS = 1500  # up to these, a vector at a time; of more rows, in narrow blocks
LANCZOS_ROWS = 1000
LANCZOS_SHARE = 10  # k up to this part of so few rows: more steps take as long as LAPACK
SUBSET_SHARE = 8  # k up to this part of n: LAPACK's subset driver beats the whole spectrum
TIGHT_TOL = 1e-10
# LAPACK takes two thirds as long as n²/LAPACK_PRODUCTS products of a narrow block, from 1200 to 3000 rows.
LAPACK_PRODUCTS = 17_000
# Landmarks to start from, one of so many rows: products of half floats with their matrix take a thousandth of
# the time, and what extends their vectors to all rows a sixteenth.
LANDMARK_ROWS, MOST_LANDMARKS = 32, 2**16
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
    problem = _paying(problem, locked=problem.locked)
    chosen = named_solver(solver)
    found = _primal(problem, chosen)
    if found is None:
        reason = f"solver={chosen!r} was asked for"
        if chosen is None:
            chosen, reason = _solver(problem)
        if isinstance(chosen, Lapack):
            found = _lapack_plan(problem, chosen, reason)
        else:
            found = krylov_plan(problem, chosen, reason)
            if isinstance(chosen, Lanczos) or (isinstance(chosen, BlockKrylov) and chosen.lapack):
                held = 0 if problem.precomputed else FLOAT * problem.n**2
                last = _lapack_run_bytes(problem.wide, Lapack(subset=True)) + held
                found = replace(found, n_bytes=max(found.n_bytes, last))
    return require_fits(found, problem)


def plan_approximation(problem: Problem, approximation: Approximation) -> Plan:
    """An approximation was asked for: memory for its passes, and for exact ones if it is refined."""
    problem, chosen = _paying(problem), copy(approximation)
    n_bytes, why = _factor_bytes(chosen, problem), (f"approximation={chosen!r} was asked for",)
    found = Plan("low-rank", Lapack(), None, n_bytes, why, problem.n_threads)
    if chosen.refine:
        k = problem.k or chosen.width(problem.n)
        solver = BlockKrylov(max_basis=chosen.refine * (k + 12))
        exact = krylov_plan(replace(problem, n_components=k), solver, why[0], hold=False)
        n_bytes = max(n_bytes, exact.n_bytes) + FLOAT * problem.n * (k + 12)
        passes = f"refine={chosen.refine}: exact passes give Ritz pairs with residuals"
        found = replace(exact, n_bytes=n_bytes, reasons=(*why, passes))
    return require_fits(replace(found, approximation=chosen), problem)


def _factor_bytes(approximation: Approximation, problem: Problem) -> int:
    """What it takes to choose the factor, and to pass over its features."""
    shape = problem.n, problem.d_held or problem.d
    n_bytes = approximation.n_bytes(shape, problem.itemsize) + problem.reading_bytes
    if problem.on_device:
        n_bytes = max(n_bytes, device_pass_bytes(problem, approximation.width(problem.n)))
    return n_bytes


def named_solver(solver: str | Solver) -> Solver | None:
    """A solver, or the one behind a name or a call such as ``krylov(tol=1e-8)``; None for ``"auto"``."""
    if isinstance(solver, str) and solver == "auto":
        return None
    # The plan is a record: the caller may turn the knobs of the solver that was passed later.
    chosen: Solver = copy(named("solver", solver, Solver, SOLVERS, "auto"))
    chosen.check_params()
    return chosen


def _paying(problem: Problem, *, locked: bool = True) -> Problem:
    """The problem with no more threads than pay for so many rows, in so much memory."""
    budget = problem.budget_bytes // TILES_SHARE
    most = paying_threads(problem.n, problem.n_threads, budget_bytes=budget, locked=locked)
    return problem if most == problem.n_threads else replace(problem, n_threads=most)


def plan_linear(problem: Problem, solver: str | Solver = "auto") -> Plan:
    """PCA itself: the d x d covariance or the n x n dot products, whichever is smaller."""
    problem = _paying(problem.at_home)
    n, d, m = problem.n, problem.d, min(problem.n, problem.d)
    if d > n:  # the rows themselves are multiplied, in memory
        problem = replace(problem, engine=Plan.engine)
    chosen = named_solver(solver) or _small_solver(problem, m)
    k = problem.k or m
    n_bytes = problem.itemsize * n * d + FLOAT * (5 * m * m + 3 * d * k + 4 * n * k) + SMALL
    if d <= n and problem.from_source:
        n_bytes = streamed_bytes(problem, d)
    elif problem.from_source:
        n_bytes += problem.itemsize * n * d + problem.reading_bytes
    n_bytes += problem.rows_bytes  # that KernelPCA keeps, and PCA does not
    if not problem.dense:  # sparse rows are not centred, and there is no dense copy of them
        n_bytes += (3 * (problem.d_held or d) - d) * n * problem.itemsize
    if d <= n:
        reason = f"d={d} <= n={n}: the covariance is the smaller matrix"
        found = Plan("primal", chosen, None, n_bytes, (reason,), problem.n_threads)
    else:  # one product gives all of K
        reason = (
            f"d={d} > n={n}: the matrix of dot products is smaller and has the same eigenvalues"
        )
        found = Plan("dual", chosen, Whole(n, "float64"), n_bytes, (reason,), problem.n_threads)
    return require_fits(found, problem)


def _primal(problem: Problem, chosen: Solver | None) -> Plan | None:
    m, n = problem.map_dimension, problem.n
    if m is None or m >= n:
        return None
    few = problem.k is not None and problem.k <= n // lapack_share(n)
    if few and m**2 > n * (problem.d + PRODUCT_COLUMNS) and n > LAPACK_ROWS:
        return None  # the map is smaller than n, but its covariance costs more than the products
    n_bytes = primal_bytes(problem, m)
    if n_bytes > problem.budget_bytes:
        return None
    reason = f"the explicit map has {m} columns for n={n} rows: its covariance is {m} x {m}"
    chosen = chosen or _small_solver(problem, m)
    return Plan("primal", chosen, None, n_bytes, (reason,), problem.n_threads)


def _small_solver(problem: Problem, size: int) -> Solver:
    k = problem.k
    if k is None or size <= 2 * LAPACK_ROWS or k > size // SMALL_SHARE:
        return Lapack()
    return BlockKrylov(tol=TIGHT_TOL)


def _solver(problem: Problem) -> tuple[Solver, str]:
    n, k = problem.n, problem.k
    share = LANCZOS_SHARE if n <= LANCZOS_ROWS else lapack_share(n)
    iterating = f"n={n} and k={k}: iterating for the top k costs far less than all of LAPACK's n³"
    # All of the negative part of a spectrum is reported, wherever there may be one.
    few = problem.valid and k is not None and k <= n // SUBSET_SHARE
    if n <= LAPACK_ROWS:
        iterated = few and (k or 0) <= n // share and n > ITERATED_ROWS
        narrow = _narrow(problem) if iterated else None
        found = f"the top k={k}" if few else "the whole spectrum"
        reason = f"n={n} is small: one LAPACK call gives {found}"
        return (Lapack(subset=few), reason) if narrow is None else (narrow, iterating)
    if problem.n_components is None:
        return Lapack(), f"all components of n={n} rows were asked for"
    if k is None:
        narrow = _narrow(problem) if problem.valid else None
        if n <= SMALL_ROWS and narrow is None:
            return Lapack(), f"a share of the variance was asked for, and n={n} is small"
        reason = "a share of the variance was asked for: k grows until it is reached"
        return narrow or BlockKrylov(), reason
    if k > n // share:
        reason = f"k={k} is more than n/{share}: a Krylov basis would grow towards K itself"
        return Lapack(subset=few), reason
    # In wide blocks; from more landmarks where products are of half floats, of many rows.
    most = min(MOST_LANDMARKS, n // LANDMARK_ROWS) if problem.halves else 0
    wide = BlockKrylov(tol=_tol(problem), landmarks=max(BlockKrylov.landmarks, most))
    return _narrow(problem) or wide, iterating


def _tol(problem: Problem) -> float:
    """Nearly all digits where they cost little. In single precision rounding is all there is below 1e-6."""
    tight = problem.n <= SMALL_ROWS and problem.itemsize == FLOAT
    return TIGHT_TOL if tight else BlockKrylov.tol


def _narrow(problem: Problem) -> Solver | None:
    """Iterating in narrow blocks, for a K of few rows that is held in float64; None where it is not."""
    # A product with such a K is so quick that columns count, not products, and a narrow block needs far fewer
    # of them (1000 rows, 20 components: 42 one by one, 120 in blocks of 8, 256 in blocks of 32). What the
    # eigenproblem of landmarks would save, it costs. Where the spectrum is flat, LAPACK is quicker.
    n, k = problem.n, problem.k or SHARE_COMPONENTS
    solver: Solver = Lanczos()
    if n > ONE_BY_ONE_ROWS:  # K is read from memory, by eight columns as quickly as by one
        solver = BlockKrylov(
            tol=_tol(problem),
            block=8,
            max_products=n * n // LAPACK_PRODUCTS,
            max_basis=k + 25 * 8,
            landmarks=0,
            lapack=True,
        )
    wide = problem.wide
    lapack = _lapack_run_bytes(wide, Lapack(subset=True))
    n_bytes = lapack + FLOAT * n * n + krylov_bytes(wide, solver, k)
    return solver if n <= SMALL_ROWS and n_bytes <= problem.budget_bytes else None


def _lapack_plan(problem: Problem, solver: Lapack, reason: str) -> Plan:
    fits = _lapack_run_bytes(problem.wide, solver) <= problem.budget_bytes
    if problem.is_double and (fits or not problem.single):  # K of a few rows where it fits
        problem = problem.wide
    width, dtype = tile_width(problem, problem.itemsize), problem.dtype
    n_bytes, whole = _lapack_run_bytes(problem, solver), problem.n**2 * problem.itemsize
    recipe: Recipe = Tiles(width, dtype)
    reasons: tuple[str, ...] = (reason,)
    if problem.precomputed:
        recipe = Given(dtype)
    elif problem.costly:
        recipe, reasons = (
            Whole(width, dtype),
            (*reasons, "K of a Python function is made once and held"),
        )
    elif problem.n <= LAPACK_ROWS and n_bytes + whole <= problem.budget_bytes:
        # Made again for the proof, and for probes, so small a K would take longer than it is worth.
        recipe, n_bytes = Whole(width, dtype), n_bytes + whole
    return Plan("dual", solver, recipe, n_bytes, reasons, problem.n_threads, problem.engine)


def _lapack_run_bytes(problem: Problem, solver: Lapack) -> int:
    """LAPACK's own, and K of a Python function, which is held: no entry is computed twice."""
    held = problem.n**2 * problem.itemsize if problem.costly else 0
    return lapack_bytes(problem, solver) + held


# ── what does not fit ───────────────────────────────────────────────────────
def require_fits(chosen: Plan, problem: Problem) -> Plan:
    """The plan, on the engine of the problem; raises where it does not fit into the budget of a place."""
    # Features of rows in memory are centred and multiplied on the host, whatever the engine.
    host = chosen.route == "primal" and not problem.from_source
    there = problem.on_device and not host
    allowed = problem.here_bytes if problem.on_device and host else problem.budget_bytes
    if chosen.n_bytes > allowed:
        what = type(chosen.approximation or chosen.solver).__name__
        where = f" on {problem.engine}" if there else ""
        msg = Message(
            f"This fit needs up to {format_bytes(chosen.n_bytes)}{where} (n={problem.n}, d={problem.d}, "
            f"{chosen.route} route, {what}), but {{memory}} allows {format_bytes(allowed)}. {{remedies}}",
            remedies=Message(_remedies(chosen, problem)),
        )
        raise MemoryBudgetError(msg)
    here = _here_bytes(chosen, problem) if there or problem.workers else 0
    if here > problem.here_bytes:
        raise MemoryBudgetError(_too_much_here(here, problem))
    if problem.workers and not host:
        chosen = chosen.because(_shared(chosen, problem))
    engine = Plan.engine if host else problem.engine
    return changed(chosen, engine=engine, host_bytes=here if there else 0)


def _here_bytes(chosen: Plan, problem: Problem) -> int:
    """What is held in this process while tiles are made elsewhere: on a device, or by workers."""
    iterates = isinstance(chosen.recipe, Tiles | Halved) and not isinstance(chosen.solver, Lapack)
    if problem.workers:
        if chosen.route != "dual":
            return 0
        alone = replace(problem, workers=0)
        if not iterates:
            return _lapack_run_bytes(alone, Lapack(subset=True))
        return krylov_bytes(alone, chosen.solver, problem.k or SHARE_COMPONENTS)
    kept = problem.rows_bytes + problem.reading_bytes + problem.staging_bytes
    if chosen.approximation is not None and not iterates:  # as it would be without a device
        shape = problem.n, problem.d_held or problem.d
        return chosen.approximation.n_bytes(shape, problem.itemsize) + kept
    if not iterates or problem.k is None:  # K, features, or as many vectors as a share may need
        return chosen.n_bytes + kept
    return krylov_bytes(problem, chosen.solver, problem.k) + kept


def _too_much_here(here: int, problem: Problem) -> str:
    """That the vectors of a fit don't fit beside the caller."""
    needed, allowed = format_bytes(here), format_bytes(problem.here_bytes)
    if problem.workers:
        return Message(
            f"This fit holds up to {needed} of vectors in the process of the client, which can take "
            f"{allowed}. Run the client where there is more memory, ask for fewer components, or use "
            "{approximation:RPCholesky(rank=100)}."
        )
    return Message(
        f"This fit needs up to {needed} on the host beside what it has on {problem.engine} (n={problem.n}, "
        f"d={problem.d}: vectors, and the rows that the model keeps), but {{memory}} allows {allowed} there. "
        f"Raise {{memory}} for 'host' to {format_bytes(1.1 * here)}, ask for fewer components, or use "
        "{approximation:RPCholesky(rank=100)}."
    )


def _shared(chosen: Plan, problem: Problem) -> str:
    """What workers do, hold and send, for the reasons of a plan."""
    n, k, workers = problem.n, problem.k or SHARE_COMPONENTS, many(problem.workers, "worker")
    width = n if chosen.route == "dual" else 1
    if chosen.approximation is not None:
        width = chosen.approximation.width(n)
    if not problem.from_source and n * width * problem.d < problem.least:
        return f"{workers}, but so little work stays in this process"
    if chosen.route != "dual":
        return f"{workers}, each of which passes over rows of its own and sends back their sums"
    if not isinstance(chosen.recipe, Tiles | Halved) or not isinstance(chosen.solver, BlockKrylov):
        whole = format_bytes(n * n * problem.itemsize)
        return f"{workers}, one of which makes K and sends it here, {whole}"
    rows, sent = n * problem.d * problem.itemsize, FLOAT * n * (chosen.solver.width(k, n) + 1)
    part = "a part of the tiles" if isinstance(chosen.recipe, Tiles) else "some rows of a product"
    return (
        f"{workers}, each with all rows ({format_bytes(rows)}) and {part}; a product sends up "
        f"to {format_bytes(sent)} to each, and as much back"
    )


def _remedies(chosen: Plan, problem: Problem) -> str:
    """A template of a `Message`."""
    more = f"Raise {{memory}} to {format_bytes(1.1 * chosen.n_bytes)}"
    if problem.devices:
        more += " if workers and their devices have it"
    elif problem.workers:
        more = f"Give workers more memory (dask worker --memory-limit), r{more[1:]} if they have it"
    if (factor := chosen.approximation) is not None:
        whose = type(factor).__name__
        way = f"lower {factor.size} of {whose}"
        if factor.refine and _factor_bytes(factor, problem) <= problem.budget_bytes:
            way = f"use refine=0 of {whose}, which never forms K"
        return f"{more}, {way}, or fit on fewer rows."
    if problem.precomputed or problem.linear or chosen.route == "primal":
        return f"{more}, ask for fewer components, or fit on fewer rows."
    ways = [more]
    if problem.n > LAPACK_ROWS:
        # Components that are iterated for, without K, unless a solver is asked for by name.
        asked = min(problem.k or problem.n, problem.n // lapack_share(problem.n))
        few = next((k for k in (asked, 30, 10, 3) if k <= asked and _iterates(problem, k)), 0)
        if few and few == problem.k:  # LAPACK was asked for by name
            ways.append("use {solver:'auto'}, which does not form K for so few components")
        elif few:
            auto = "" if isinstance(chosen.solver, BlockKrylov) else " with {solver:'auto'}"
            ways.append(f"ask for at most {few} components{auto}, for which K is not formed")
    from mercer.approximations import RPCholesky  # only an error needs it

    low_rank = RPCholesky(max(1, min(100, problem.n // 4)))
    shape = problem.n, problem.d_held or problem.d
    if low_rank.n_bytes(shape, problem.itemsize) + problem.reading_bytes <= problem.budget_bytes:
        ways.append(f"use {{approximation:RPCholesky(rank={low_rank.rank})}}, which never forms K")
    if len(ways) < 3:  # three are enough to choose from
        ways.append("fit on fewer rows")
    return f"{', '.join(ways[:-1])}, or {ways[-1]}."


def _iterates(problem: Problem, k: int) -> bool:
    fewer = krylov_plan(replace(problem, n_components=k), BlockKrylov(), "")
    return fewer.n_bytes <= problem.budget_bytes
