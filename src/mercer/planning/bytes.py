"""Byte arithmetic for plans: upper bounds on what each route holds at its peak, and nothing else.

Everything is named, nothing is measured here; a test holds every bound against measured peaks.
"""

from __future__ import annotations

from mercer.engine.shifted import RECENT

FLOAT = 8  # vectors and small problems are float64 on every route
TILES_A_THREAD = 3  # a tile, one temporary of its size, and the rows it is made of
# Sections of one slice of rows: large enough for the product to run at speed, small beside the model.
SLICE_BYTES = 32 * 2**20
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
