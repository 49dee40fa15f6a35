"""Plans that iterate: how long a Krylov basis there is room for, on how many threads, over which tiles."""

from __future__ import annotations

from dataclasses import replace

from mercer.engine.halves import block_columns, halves_bytes, product_bytes
from mercer.engine.tiles import PACKED
from mercer.planning.bytes import (
    FLOAT,
    SINGLE,
    fastest_width,
    krylov_bytes,
    lapack_bytes,
    live_tiles_bytes,
    ready_bytes,
    rows_bytes,
    tile_width,
)
from mercer.planning.problem import SMALL_ROWS, Problem, lapack_share
from mercer.planning.recipe import Given, Halved, Plan, Proof, Recipe, TileCache, Tiles, Whole
from mercer.solvers import BlockKrylov, Lapack, Solver
from mercer.solvers.krylov import MAX_BLOCK, MORE

FEW_BLOCKS = 5  # that a basis should hold between restarts
SHARE_COMPONENTS = 64  # to plan with, when a share of the variance leaves their number open
ROUGH_TOL = 5e-7  # what iterating on float32 tiles reaches; below, each digit would cost a pass
ONCE = (
    "each tile is made once, in float64, and held rounded, which halves the memory traffic of a product; "
    "rows in float64 show what the rounding adds to residuals"
)
OF_ONE = "tensor cores multiply half floats; residuals are proved in float64"
OF_TWO = (
    "tensor cores multiply half floats: one a number to iterate, two to prove; rows in float64 show what "
    "these leave of residuals"
)
# Of a block of half floats, beyond those of others: with 31 columns rounding showed in 20 components of a
# million rows, and a second precise product had to prove them; 63 did with one, and with fewer rough ones.
SPARE_COLUMNS = 4
TWICE = "float32 halves the time of making a tile; residuals are proved in float64"


def krylov_plan(problem: Problem, solver: Solver, reason: str, *, hold: bool = True) -> Plan:
    """On as many threads as leave room for the whole basis and, where that can be, for all tiles."""
    # Each thread has a sum of its own, (n, block), and tiles of its own. In a tight budget they would take
    # the room of the basis, whose restarts cost products, or of tiles, which are then made anew.
    most, k, plans = problem.n_threads, problem.k or SHARE_COMPONENTS, []
    count = most
    while count:  # such as 14, 8, 4, 2, 1
        narrower = problem if count == most else replace(problem, n_threads=count)
        plans.append(_on_threads(narrower, solver, reason, hold=hold))
        count = 1 << (count - 1).bit_length() >> 1

    def merits(found: Plan) -> tuple[int, int, bool, bool, int]:
        assert found.recipe is not None  # of a dual problem
        missing = min(problem.budget_bytes - found.n_bytes, 0)  # a refusal names the least there is
        if found.n_threads == 1:  # half of the speed of two: only where nothing else fits
            return missing, 0, False, False, 1
        columns, all_tiles = 0, found.recipe.share == 1.0
        if isinstance(solver, BlockKrylov) and isinstance(found.solver, BlockKrylov):
            # More save products up to a few blocks of the solver that was asked for.
            enough = k + FEW_BLOCKS * solver.width(k, problem.n)
            columns = min(found.solver.room(k, problem.n), enough)
        return missing, columns, all_tiles, not found.recipe.packed, found.n_threads

    best = max(plans, key=merits)
    if best.n_threads == most:
        return best
    return best.because(
        f"{best.n_threads} of {most} threads: the sums and tiles of more would not fit in `memory`"
    )


def _on_threads(problem: Problem, solver: Solver, reason: str, *, hold: bool) -> Plan:
    """The same on a given number of threads."""
    n, k = problem.n, problem.k or (SHARE_COMPONENTS if problem.is_share else problem.n)
    if hold and problem.halves and (halved := _of_halves(problem, solver, reason, k)) is not None:
        return halved
    rough = hold and _uses_rough(problem, solver)
    # K may fit whole or not, but residuals are to be true; those of exact passes too, which hold nothing.
    if problem.is_double or not hold:
        problem = problem.wide
    fixed = rows_bytes(problem, rough=rough) + live_tiles_bytes(problem)
    ready = ready_bytes(problem, FLOAT) if rough else 0
    asked, (solver, basis, reasons) = solver, fit_basis(problem, solver, k, fixed)
    sliced = ready > 0 and (bool(reasons) or fixed + basis > problem.budget_bytes)
    if sliced:  # rather slices of rows, made ready again, than a short basis
        fixed -= ready
        solver, basis, reasons = fit_basis(problem, asked, k, fixed)
    free, whole, held = problem.budget_bytes - fixed - basis, n * n * problem.itemsize, 0
    recipe: Recipe
    if problem.precomputed:
        recipe, reasons = Given(problem.dtype), (*reasons, "K is the caller's own matrix")
    elif hold and n <= SMALL_ROWS and whole <= free:
        recipe, held = Whole(tile_width(problem, FLOAT), problem.dtype), whole
    elif rough:
        recipe, saved = _rounded_tiles(problem, free, sliced=sliced)
        fixed, reasons = fixed - saved, (*reasons, ONCE if recipe.share == 1.0 else TWICE)
    else:
        width, room = tile_width(problem, problem.itemsize), min(free, _most_held(problem))
        store = TileCache.within(room, n, width, problem.itemsize) if hold else None
        recipe = Tiles(width, problem.dtype, store)
    if isinstance(recipe, Tiles) and recipe.store is not None:
        held, reasons = recipe.store.n_bytes, (*reasons, *recipe.store.reasons)
    reasons = (reason, *reasons)
    return _dual_plan(problem, solver, recipe, reasons, fixed=fixed, basis=basis, held=held)


def _of_halves(problem: Problem, solver: Solver, reason: str, k: int) -> Plan | None:
    """Products of half floats, where the engine makes them and they fit; None where they don't."""
    if not _uses_rough(replace(problem, shift_invariant=True), solver):
        return None
    assert isinstance(solver, BlockKrylov)
    parts = problem.halves if solver.tol >= ROUGH_TOL else 1
    wide = replace(problem.wide, halves=parts)
    fixed = rows_bytes(wide) + live_tiles_bytes(wide)
    of = max(1, problem.workers)  # each has its own
    fixed += of * halves_bytes(problem.n, problem.d, parts)
    usual = solver.width(k, problem.n) + SPARE_COLUMNS
    fixed += of * product_bytes(problem.n, block_columns(max(usual, k)))
    block = solver.block or block_columns(usual)
    short, basis, reasons = fit_basis(wide, replace(solver, block=block), k, fixed)
    if reasons or fixed + basis > problem.budget_bytes:  # narrower ones
        short, basis, reasons = fit_basis(wide, solver, k, fixed)
    if fixed + basis > problem.budget_bytes:
        return None
    reasons = (reason, *reasons, OF_TWO if parts > 1 else OF_ONE)
    recipe = Halved(tile_width(wide, FLOAT), parts)
    return _dual_plan(wide, short, recipe, reasons, fixed=fixed, basis=basis)


def _most_held(problem: Problem) -> int:
    """What tiles may take at most: k grows with the share, towards LAPACK if need be, which needs room."""
    lapack = lapack_bytes(problem, Lapack()) if problem.is_share else 0
    return problem.budget_bytes - (lapack if lapack <= problem.budget_bytes else 0)


def _rounded_tiles(problem: Problem, free: int, *, sliced: bool) -> tuple[Tiles, int]:
    """Rounded tiles with their proof, and the bytes of ready rows that they save."""
    # All of them are held if possible, made once in float64: no rows are made ready in float32 then. The
    # proof may make its rows ready slice by slice, and leave their room to tiles. Entries of a bounded kernel
    # are of one size, so sixteen bits hold them all.
    n, most, width = problem.n, _most_held(problem), tile_width(problem, FLOAT)
    ready = 0 if sliced else ready_bytes(problem, FLOAT)
    unused = ready_bytes(problem, SINGLE)
    ways = [(sliced, free, SINGLE), (True, free + ready, SINGLE), (True, free + ready, PACKED)]
    for slices, room, entry in ways if problem.shift_invariant else ways[:2]:
        store = TileCache.within(min(room + unused, most), n, width, entry)
        if store.share == 1.0:
            saved = unused + (ready if slices else 0)
            return Tiles(width, "float32", store, Proof(width, sliced=slices)), saved
    width = tile_width(problem, SINGLE)
    store = TileCache.within(min(free + ready, most), n, width, SINGLE)
    proof = Proof(min(width, fastest_width(problem)), sliced=sliced or ready > 0)
    return Tiles(width, "float32", store, proof), ready


def _dual_plan(
    problem: Problem,
    solver: Solver,
    recipe: Recipe,
    reasons: tuple[str, ...],
    *,
    fixed: int,
    basis: int,
    held: int = 0,
) -> Plan:
    """The plan in so many bytes; where a share was asked for, with how far k may grow, and its bytes then."""
    n_bytes = fixed + held + basis
    found = Plan("dual", solver, recipe, n_bytes, reasons, problem.n_threads, problem.engine)
    if not problem.is_share:
        return found
    lapack = lapack_bytes(problem, Lapack()) + held
    fits, most = lapack <= problem.budget_bytes, most_components(problem, solver, fixed + held)
    n_bytes = max(fixed + held + krylov_bytes(problem, solver, most), lapack if fits else 0)
    return replace(found, n_bytes=n_bytes, lapack_fits=fits, most_components=most)


def _uses_rough(problem: Problem, solver: Solver) -> bool:
    """Whether products iterate on float32 tiles, to be proved in float64."""
    if problem.precomputed or problem.n <= SMALL_ROWS or not isinstance(solver, BlockKrylov):
        return False
    if problem.costly or not problem.single:
        return False  # no entry of a user's function is computed twice, if memory allows
    if problem.itemsize == SINGLE:
        return True
    return problem.shift_invariant and problem.dense and solver.tol >= ROUGH_TOL


# ── the basis ───────────────────────────────────────────────────────────────
def fit_basis(
    problem: Problem, solver: Solver, k: int, fixed: int
) -> tuple[Solver, int, tuple[str, ...]]:
    """The solver with a basis that fits: a shorter one restarts more often, and costs products."""
    n, needed, spare = problem.n, krylov_bytes(problem, solver, k), problem.budget_bytes - fixed
    if needed <= spare or not isinstance(solver, BlockKrylov):  # the user's own has what it has
        return solver, needed, ()
    # A block that the user has set stays.
    usual = solver.width(k, n)
    wide = min(k + MORE, MAX_BLOCK, n)  # whole vectors, where that is one
    blocks = [usual, max(wide // 2, 1), max(wide // 4, 1)] if solver.block is None else [usual]
    shorter = [s for block in blocks if (s := _shorter(problem, solver, k, block, spare))]
    if not shorter:  # the refusal names what the least would take
        least = replace(solver, block=blocks[-1], max_basis=k + 2 * blocks[-1])
        return least, krylov_bytes(problem, least, k), ()
    # The widest block of which the basis holds a few; a basis of two blocks hardly converges.
    enough = (s for s in shorter if s.room(k, n) >= k + FEW_BLOCKS * (s.block or 1))
    short = next(enough, shorter[-1])
    why = (
        f"the Krylov basis restarts at {short.max_basis} columns, in blocks of {short.block}, to stay within "
        "`memory`"
    )
    return short, krylov_bytes(problem, short, k), (why,)


def _shorter(
    problem: Problem, solver: BlockKrylov, k: int, block: int, spare: int
) -> BlockKrylov | None:
    """The solver with this block and the longest basis that fits; None when not even two blocks do."""
    short = replace(solver, block=block, max_basis=k + 2 * block)
    left = spare - krylov_bytes(problem, short, k)
    if left < 0:
        return None
    most = solver.max_basis or k + 8 * block
    room = min(k + 2 * block + left // (2 * FLOAT * problem.n), max(most, k + 2 * block))
    return replace(short, max_basis=int(room))


def most_components(problem: Problem, solver: Solver, fixed: int) -> int:
    """Components whose blocks fit, when a share of the variance makes their number grow."""
    if not isinstance(solver, BlockKrylov):
        return problem.n
    k, most = SHARE_COMPONENTS, problem.n // lapack_share(problem.n)
    while k < most:
        more = min(2 * k, most)
        if fixed + krylov_bytes(problem, solver, more) > problem.budget_bytes:
            break
        k = more
    return k
