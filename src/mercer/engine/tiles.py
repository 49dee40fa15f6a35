"""A byte budget becomes slices. Knows arithmetic, never touches an array."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mercer._core.errors import MemoryBudgetError
from mercer._core.memory import format_bytes
from mercer._core.wording import Message
from mercer.data.rows import row_slices

# The place of a tile among those of the upper triangle, its rows, its columns.
TileIndex = tuple[int, slice, slice]

# A part of the tiles of a matrix: the h-th of H parts of about as many tiles each.
Part = tuple[int, int]
WHOLE: Part = (0, 1)

# A tile that stays in a core's own cache while it is made, exponentiated and multiplied: 384 wide in
# float64, 543 in float32. Measured, tiles of 8 MB take half as long again for each entry.
CACHE_BYTES = 384 * 384 * 8
# With so many columns the product of the rows is nearly all the time, and it likes wider tiles: twice the
# cached ones, and where there are many rows and much memory in float64 wider still (a pass over 20 000 rows
# of 784 columns took 4 s, not 4.5 to 5.5).
WIDE_ROWS, WIDE = 256, 640
# Between the calls on a tile a thread waits for the interpreter's lock. A tile's work grows with its area,
# the queue with the number of threads T, so tiles are at least LOCK_WIDTH·√T wide: on 16 cores a pass over
# 20 000 rows took 5.5 s in tiles of 128 on 16 threads, 2.0 s on two, and 0.23 s in tiles of 768 on 16.
LOCK_WIDTH = 192  # in float64; a float32 tile is made in half the time
# Of such tiles there are enough for one thread for each so many rows; more threads wait for the last tile.
# Tiles that are made without the lock are narrower.
ROWS_A_THREAD, FREE_ROWS_A_THREAD = 512, 192
SINGLE, PACKED = 4, 2  # bytes of a rounded entry
# Rows of a block of a pass on a device, at most: more make no product faster, and all are there at a time.
DEVICE_PASS_ROWS = 2**16
BAND = 2  # rows of tiles that take their columns together: more would keep more rows ready


def paying_threads(
    n_rows: int, most: int, *, budget_bytes: int = 2**63, locked: bool = True
) -> int:
    """The number of threads, at most `most`, that shortens a pass over the tiles of n rows.

    More of them than have tiles of `lock_width` in the budget, two float64 arrays a thread, only wait.
    """
    if not locked:
        return max(1, min(most, -(-n_rows // FREE_ROWS_A_THREAD)))
    wide_enough = math.isqrt(budget_bytes // (2 * 8 * LOCK_WIDTH**2))
    return max(1, min(most, -(-n_rows // ROWS_A_THREAD), max(2, wide_enough)))


def lock_width(itemsize: int, n_threads: int) -> int:
    """The least width of a tile that keeps T threads at work rather than waiting for the lock."""
    return math.isqrt(LOCK_WIDTH**2 * n_threads * 8 // itemsize) if n_threads > 1 else 1


def cached_width(
    itemsize: int,
    d: int,
    *,
    roomy: bool = False,
    n_threads: int = 1,
    cache_bytes: int = CACHE_BYTES,
) -> int:
    """The tile that is made fastest, of rows with d columns; `roomy`: as `is_roomy` has it."""
    cached = math.isqrt((2 if d >= WIDE_ROWS else 1) * cache_bytes // itemsize)
    return max(WIDE if roomy else cached, lock_width(itemsize, n_threads))


def is_roomy(*, n_rows: int, budget_bytes: int, n_threads: int, d: int) -> bool:
    """Whether wide tiles are many, and the rows that are ready for them take little of the budget."""
    few = d < WIDE_ROWS or spread(n_rows, n_threads) < WIDE
    return not few and (BAND + 4) * n_threads * WIDE * d * 8 <= budget_bytes // 4


def spread(n_rows: int, n_threads: int) -> int:
    """The widest tile of which there are enough to keep the threads busy, also when n is small.

    n/w rows of tiles have n²/2w² on or above the diagonal: eight a thread. One thread alone is always busy.
    """
    if n_threads == 1:
        return n_rows
    return max(64, math.ceil(n_rows / (4 * math.sqrt(n_threads))))


def n_upper(n_rows: int, width: int) -> int:
    """Number of square tiles on or above the diagonal."""
    rows = -(-n_rows // width)
    return rows * (rows + 1) // 2


def places(n_tiles: int, part: Part) -> range:
    """The places of a part among so many tiles: the parts follow each other and leave none out.

    >>> [list(places(7, (h, 3))) for h in range(3)]
    [[0, 1], [2, 3], [4, 5, 6]]
    """
    h, of = part
    return range(n_tiles * h // of, n_tiles * (h + 1) // of)


def upper_tiles(n_rows: int, width: int, part: Part = WHOLE) -> Iterator[TileIndex]:
    """Tiles on or above the diagonal, or a part of them; the rest follows by symmetry.

    In bands of a few rows of tiles, each of which uses the same columns for a while: rows that are read or
    made ready slice by slice are so once a band, not once a tile. Places count from the first of the part.
    """
    rows, place, wanted = list(row_slices(n_rows, width)), 0, places(n_upper(n_rows, width), part)
    for top in range(0, len(rows), BAND):
        for b in range(top, len(rows)):
            for a in range(top, min(top + BAND, b + 1)):
                if place in wanted:
                    yield place - wanted.start, rows[a], rows[b]
                place += 1


# Tiles that are made without the lock are cut for so many threads, however many there are: where a product is
# cut decides how its sums round, and no bit is to depend on the number of threads. Fits of 600 to 3000 rows
# take as long with tiles of 72 as of 192 on one thread and two, and 16 threads have four tiles each from 1000
# rows on.
CUT_FOR = 8


def free_width(n_rows: int, itemsize: int, *, cache_bytes: int, panel: int) -> int:
    """The width of tiles that are made without the lock: as the cache likes them, in whole panels of rows."""
    fits, enough = (
        math.isqrt(cache_bytes // itemsize) // panel,
        round(spread(n_rows, CUT_FOR) / panel),
    )
    return max(1, min(fits, enough)) * panel


def fitting_width(
    n_rows: int,
    *,
    itemsize: int,
    budget_bytes: int,
    n_threads: int = 1,
    d: int = 0,
    cache_bytes: int = CACHE_BYTES,
) -> int:
    """The width of the fastest square tiles that fit in the budget while they live: two arrays a thread."""
    # A tile and one temporary of its size live in each thread.
    width = math.isqrt(max(budget_bytes, 0) // (2 * itemsize * n_threads))
    if width < 1:
        msg = Message(
            f"A memory budget of {format_bytes(budget_bytes)} holds no kernel tile: {n_threads} "
            f"threads need {2 * itemsize * n_threads} bytes for one entry each. Raise {{memory}}."
        )
        raise MemoryBudgetError(msg)
    roomy = is_roomy(n_rows=n_rows, budget_bytes=budget_bytes, n_threads=n_threads, d=d)
    fastest = cached_width(itemsize, d, roomy=roomy, n_threads=n_threads, cache_bytes=cache_bytes)
    enough = max(spread(n_rows, n_threads), lock_width(itemsize, n_threads))
    return max(1, min(width, fastest, enough, n_rows))
