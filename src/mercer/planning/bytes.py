"""Byte arithmetic for plans: upper bounds on what each route holds at its peak, and nothing else.

Everything is named, nothing is measured here; a test holds every bound against measured peaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer.engine.passes import SLICE_BYTES
from mercer.engine.shifted import RECENT
from mercer.engine.tiles import cached_width, fitting_width, is_roomy

if TYPE_CHECKING:
    from mercer.planning.problem import Problem
    from mercer.solvers import Lapack

FLOAT, SINGLE = 8, 4  # vectors and small problems are float64 on every route, rough tiles float32
TILES_A_THREAD = 3  # a tile, one temporary of its size, and the rows it is made of
TILES_SHARE = 4  # live tiles take at most this part of the budget
SMALL = 2 * 2**20  # what Python and small arrays take on the way


def lapack_bytes(*, n: int, k: int, itemsize: int, subset: bool) -> int:
    """K, the eigenvectors and LAPACK's work space of twice that; then k vectors and their products.

    The subset driver works on one copy, and a fallback to the full driver follows only when it fails.
    """
    return (2 if subset else 4) * n * n * itemsize + 5 * FLOAT * n * k + SMALL


def primal_bytes(*, n: int, m: int, k: int, itemsize: int) -> int:
    """Features, their centred copy, and the m x m problem; then k vectors with their products."""
    return (2 * itemsize * n + 4 * FLOAT * m) * m + 6 * FLOAT * n * k + SMALL


def streamed_bytes(*, d: int, m: int) -> int:
    """Slices of rows and features, with their centred copies, and the m x m problem."""
    return 4 * SLICE_BYTES + 4096 * (d + 2) * FLOAT * 2 + 6 * FLOAT * m * m + SMALL


def ready_bytes(*, n: int, d: int, itemsize: int, in_memory: bool) -> int:
    """Rows shifted and rounded for the tile loop; those of a file are made ready slice by slice."""
    return n * (d + 2) * itemsize if in_memory else 0


def tile_bytes(*, n_threads: int, itemsize: int, d: int, width: int, in_memory: bool) -> int:
    """The live tiles of all threads, and the rows they are made of.

    A thread is at two slices of rows. Those of a file are there as they were read, as they are ready and
    weighted, and the slices read last stay for the next tile, whoever makes it.
    """
    tile, rows = width * width * itemsize, width * (d + 2) * FLOAT
    recent = 0 if in_memory else 3 * (RECENT - 1) * rows
    return n_threads * (TILES_A_THREAD * tile + 2 * 3 * rows) + recent + SMALL


def krylov_bytes(*, n: int, k: int, block: int, room: int, n_threads: int) -> int:
    """Basis, blocks on their way through a product, refinement, and what the fit keeps."""
    basis = room + block
    # In a product: the block, its projected, scaled and rounded copies with a column for the means,
    # each thread's own sum, the result and its parts inside and outside of the basis.
    product = (9 + n_threads) * (block + 1)
    # In a proof: vectors, products, their correction and the two stacked, before and after rotation.
    proof = 14 * k + (4 + n_threads) * (k + 1)
    fitted = 4 * k
    return FLOAT * n * (basis + max(product, proof) + fitted) + FLOAT * 4 * basis * basis + SMALL


# ── of a problem ────────────────────────────────────────────────────────────
def tiles_budget(problem: Problem) -> int:
    """What live tiles may take: one entry at least."""
    return max(problem.budget_bytes // TILES_SHARE, 16 * problem.n_threads)


def roomy_tiles(problem: Problem) -> bool:
    """Whether there is room for wide tiles, and use for them."""
    return is_roomy(
        n_rows=problem.n,
        budget_bytes=tiles_budget(problem),
        n_threads=problem.n_threads,
        d=problem.d,
    )


def tile_width(problem: Problem, itemsize: int) -> int:
    """The width of tiles of `itemsize` bytes an entry."""
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


def fastest_width(problem: Problem) -> int:
    """The width of the float64 tiles that are made fastest, whatever the budget."""
    roomy = roomy_tiles(problem)
    fastest = cached_width(
        FLOAT,
        problem.d,
        roomy=roomy,
        n_threads=problem.n_threads,
        cache_bytes=problem.cache_bytes,
    )
    return min(problem.n, fastest)


def live_tiles_bytes(problem: Problem) -> int:
    """Tiles that live during a product, one a thread, and their rows."""
    if problem.precomputed:
        return 0
    return tile_bytes(
        n_threads=problem.n_threads,
        itemsize=FLOAT if problem.dense else 24,  # a sparse product comes with its indices
        d=problem.d_held,
        width=fastest_width(problem),
        in_memory=problem.in_memory,
    )


def rows_bytes(problem: Problem, *, rough: bool = False) -> int:
    """The model's own rows, and those made ready for tiles: once in float64, once for rough products."""
    if problem.precomputed:
        return problem.rows_bytes
    if not problem.dense:  # float32 rows are made float64 for the proof; slices are copies
        return 3 * problem.rows_bytes
    ready = ready_rows_bytes(problem, SINGLE if rough else problem.itemsize)
    ready += ready_rows_bytes(problem, FLOAT) if rough else 0
    return problem.rows_bytes + problem.reading_bytes + ready


def ready_rows_bytes(problem: Problem, itemsize: int) -> int:
    """Rows made ready for tiles of `itemsize` bytes an entry; sparse rows are not."""
    if not problem.dense:
        return 0
    return ready_bytes(n=problem.n, d=problem.d, itemsize=itemsize, in_memory=problem.in_memory)


def whole_lapack_bytes(problem: Problem, solver: Lapack) -> int:
    """LAPACK's matrices, with the rows and tiles that K is made of."""
    n, itemsize = problem.n, problem.itemsize
    own = lapack_bytes(n=n, k=problem.k or n, itemsize=itemsize, subset=solver.subset)
    return own + rows_bytes(problem) + live_tiles_bytes(problem)
