"""Byte arithmetic for plans: upper bounds on what each route holds at its peak, and nothing else.

Everything is named, nothing is measured here; a test holds every bound against measured peaks.
"""

from __future__ import annotations

import math

from mercer.engine.passes import SLICE_BYTES
from mercer.engine.shifted import RECENT
from mercer.engine.tiles import DEVICE_PASS_ROWS, cached_width, fitting_width, free_width, is_roomy
from mercer.planning.problem import Problem
from mercer.solvers import BlockKrylov, Lanczos, Lapack, Solver

FLOAT, SINGLE = 8, 4  # vectors and small problems are float64 on every route, rough tiles float32
TILES_A_THREAD = 3  # a tile, one temporary of its size, and the rows it is made of
# A device makes one tile at a time: a formula's stack of them, a mask or a copy, and what a product reads.
DEVICE_TILES = 6
DEVICE_WIDTH = 1024  # narrower tiles take a device longer to start on than to make
TILES_SHARE = 4  # live tiles take at most this part of the budget
SMALL = 2 * 2**20  # what Python and small arrays take on the way


def lapack_bytes(problem: Problem, solver: Lapack) -> int:
    """K, eigenvectors and LAPACK's work space of twice that; k vectors and their products; rows and tiles."""
    # The subset driver works on one copy, and a fallback to the full driver follows only when it fails.
    n, copies = problem.n, 2 if solver.subset else 4
    own = copies * n * n * problem.itemsize + 5 * FLOAT * n * (problem.k or n) + SMALL
    return own + rows_bytes(problem) + live_tiles_bytes(problem)


def primal_bytes(problem: Problem, m: int) -> int:
    """Features, their centred copy, and the m x m problem; then k vectors with their products."""
    if problem.from_source:
        return streamed_bytes(problem, m)
    features = (2 * problem.itemsize * problem.n + 4 * FLOAT * m) * m
    return features + 6 * FLOAT * problem.n * (problem.k or m) + SMALL + problem.rows_bytes


def streamed_bytes(problem: Problem, m: int) -> int:
    """Slices of rows and features, with their centred copies, and the m x m problem."""
    slices = 4 * SLICE_BYTES + 4096 * (problem.d + 2) * FLOAT * 2
    return slices + 6 * FLOAT * m * m + SMALL + problem.reading_bytes


def krylov_bytes(problem: Problem, solver: Solver, k: int) -> int:
    """Basis, blocks on their way through a product, refinement, and what the fit keeps."""
    # What a solver of the user's own holds is not known, and taken for ours.
    n, known = problem.n, solver if isinstance(solver, BlockKrylov | Lanczos) else BlockKrylov()
    block = known.width(k, n)
    basis = known.room(k, n) + block
    # In a product: the block, its projected, scaled and rounded copies with a column for the means,
    # the sums of the tiles, the result and its parts inside and outside of the basis.
    product = 9 * (block + 1) + problem.sum_columns(block + 1)
    # In a proof: vectors, products, their correction and the two stacked, before and after rotation.
    proof = 14 * k + 4 * (k + 1) + problem.sum_columns(k + 1)
    fitted = 4 * k
    return FLOAT * n * (basis + max(product, proof) + fitted) + FLOAT * 4 * basis * basis + SMALL


# ── rows and tiles ──────────────────────────────────────────────────────────
def tiles_budget(problem: Problem) -> int:
    """What live tiles may take: one entry at least."""
    return max(problem.budget_bytes // TILES_SHARE, 16 * problem.n_threads)


def tile_width(problem: Problem, itemsize: int) -> int:
    """The width of tiles of `itemsize` bytes an entry."""
    if problem.by_devices or not problem.locked:
        return fastest_width(problem, itemsize)
    width = fitting_width(
        problem.n,
        itemsize=itemsize,
        budget_bytes=tiles_budget(problem),
        n_threads=problem.n_threads,
        d=0 if problem.precomputed else problem.d,
        cache_bytes=problem.cache_bytes,
    )
    # Tiles on the diagonal are made whole: in narrow ones few pairs are computed twice.
    return min(width, max(16, -(-problem.n // 8))) if problem.costly else width


def fastest_width(problem: Problem, itemsize: int = FLOAT) -> int:
    """The width of the tiles that are made fastest, whatever the budget."""
    if problem.by_devices:
        return _device_width(problem, itemsize)
    n, d, n_threads, cache = problem.n, problem.d, problem.n_threads, problem.cache_bytes
    if not problem.locked:
        return free_width(n, itemsize, cache_bytes=cache, panel=problem.panel)
    roomy = is_roomy(n_rows=n, budget_bytes=tiles_budget(problem), n_threads=n_threads, d=d)
    return min(n, cached_width(itemsize, d, roomy=roomy, n_threads=n_threads, cache_bytes=cache))


def _device_width(problem: Problem, itemsize: int) -> int:
    """As wide as a device likes its tiles, which are in a part of its budget."""
    # Of few rows there are four rows of tiles: those on the diagonal, made whole, cost a quarter more. Those
    # of H workers, of which each has its part of the budget, are 4√H: eight tiles or so for each.
    workers = max(1, problem.workers)
    likes = math.isqrt(problem.cache_bytes // itemsize)
    fits = math.isqrt(tiles_budget(problem) // (workers * DEVICE_TILES * itemsize))
    few = math.ceil(problem.n / (4.0 * math.sqrt(workers)))
    return max(1, min(likes, fits, max(DEVICE_WIDTH, few), problem.n))


def live_tiles_bytes(problem: Problem) -> int:
    """Tiles that live during a product, those of all threads, and the rows they are made of."""
    # A thread is at two slices of rows. Those of a file are there as they were read, as they are ready and
    # weighted, and the slices read last stay for the next tile of any thread.
    if problem.precomputed:
        return 0
    width, entry = fastest_width(problem), FLOAT if problem.dense else 24  # with its indices
    tile, rows = width * width * entry, width * ((problem.d_held or problem.d) + 2) * FLOAT
    if problem.by_devices:
        return max(1, problem.workers) * (DEVICE_TILES * tile + 2 * 3 * rows) + SMALL
    recent = 3 * (RECENT - 1) * rows if problem.from_source else 0
    return problem.n_threads * (TILES_A_THREAD * tile + 2 * 3 * rows) + recent + SMALL


def device_pass_bytes(problem: Problem, width: int) -> int:
    """A block of a pass that makes `width` numbers of each row on a device, and the sums of their squares."""
    # As large as a tile, or with as many rows as a pass sends there at a time.
    rows = min(problem.n, DEVICE_PASS_ROWS)
    block = min(problem.cache_bytes, rows * (width + problem.d) * FLOAT)
    # Sums are float64: so far, of the block, and the two on their way into one.
    return DEVICE_TILES * block + 4 * FLOAT * width**2 + SMALL


def rows_bytes(problem: Problem, *, rough: bool = False) -> int:
    """The model's own rows, and those made ready for tiles: once in float64, once for rough products."""
    if problem.precomputed:
        return problem.rows_bytes
    # Each worker has all rows.
    theirs = problem.workers * problem.n * (problem.d_held or problem.d) * problem.itemsize
    if not problem.dense:  # float32 rows are made float64 for the proof; slices are copies
        return 3 * (problem.rows_bytes + theirs)
    ready = ready_bytes(problem, SINGLE if rough else problem.itemsize)
    ready += ready_bytes(problem, FLOAT) if rough else 0
    own = 0 if problem.on_device else problem.rows_bytes + problem.reading_bytes  # here, not there
    return own + theirs + ready


def ready_bytes(problem: Problem, itemsize: int) -> int:
    """Rows shifted and rounded for tiles of `itemsize` bytes an entry."""
    # Those of a file are made ready slice by slice, and sparse ones never. Workers have rows in memory.
    whole = problem.dense and (problem.workers > 0 or not problem.from_source)
    return max(1, problem.workers) * problem.n * (problem.d + 2) * itemsize if whole else 0
