"""One pass over the rows, shared out over threads: how factors, and the fits made of them, read data."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from mercer.data.rows import row_blocks
from mercer.engine.threads import n_blas_threads, parallel_map
from mercer.engine.tiles import LOCK_WIDTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mercer._core.types import Rows
    from mercer._core.watch import Watch
    from mercer.operators.sections import Sections

    Block = tuple[slice, Rows]

Result = TypeVar("Result")

# Sections of a block of rows. Smaller blocks stay in a core's cache, but each block ends in sums of m x m
# numbers: measured with m = 500, blocks of 256 rows take twice as long a row as blocks of 2048 or more.
BLOCK_BYTES = 8 * 2**20
BLOCK_ROWS = 4096
# Blocks that a thread gets at a time: more would have to be read, and held, before the first is used.
BLOCKS_A_HAND = 4

FLOAT = 8
# Arrays as large as the sections of a block that live at a time: the sections and a kernel's temporaries,
# some of which are always float64, or features, their centred copies and a float64 one for the mean.
COPIES = 3
DOUBLE_COPIES = 2


def pass_height(width: int, itemsize: int, d: int) -> int:
    """Rows of a block: what fits, but enough that an m x m sum a block costs less than its product."""
    least = max(128, width) if d <= 16 * width else 128
    return max(least, min(BLOCK_ROWS, BLOCK_BYTES // max(1, (width + d) * itemsize)))


def _row_bytes(d: int, width: int, itemsize: int) -> int:
    """What a row of a block takes."""
    # In float64 whatever the rows are: where float32 would lose the digits, a pass is made again.
    sections = (COPIES + DOUBLE_COPIES) * FLOAT * width
    # Rows are copied out of a file or a sparse matrix, and then made ready for the product.
    return sections + (BLOCKS_A_HAND * itemsize + 4 * FLOAT) * (d + 2)


def pass_shape(d: int, width: int, itemsize: int) -> tuple[int, int]:
    """Threads of a pass, and rows of a block: no more memory on many cores than on two.

    More threads have lower blocks, as long as these are worth an m x m sum, and large enough that threads
    don't wait for the interpreter.
    """
    height, most = pass_height(width, itemsize, d), n_blas_threads()
    found = min(most, 2), height
    sums, a_row = 4 * FLOAT * width * width, _row_bytes(d, width, itemsize)
    room, least = 2 * (height * a_row + sums), max(128, width)
    for n_threads in range(3, most + 1):
        lower = (room // n_threads - sums) // a_row
        if lower < least or lower * width < LOCK_WIDTH**2 * n_threads:
            break
        found = n_threads, lower
    return found


def pass_bytes(n: int, d: int, width: int, itemsize: int) -> int:
    """What a pass holds at most: blocks of rows, their sections, and m x m sums, in each thread."""
    n_threads, height = pass_shape(d, width, itemsize)
    blocks = min(n, height) * _row_bytes(d, width, itemsize)
    return n_threads * (blocks + 4 * FLOAT * width * width)


def _numbers_a_row(x: Rows) -> int:
    n, d = int(x.shape[0]), int(x.shape[1])
    return min(d, -(-2 * x.nnz // max(1, n))) if hasattr(x, "nnz") else d


def over_rows(
    x: Rows,
    sections: Sections,
    hand: Callable[[Iterable[Block]], Result],
    *,
    watch: Watch,
) -> Iterator[Result]:
    """What `hand` makes of its blocks of rows, hand by hand: an order that no timing changes.

    A watcher may look on, but not stop a pass: half of the rows are the model of no data set.
    """
    n = int(x.shape[0])
    n_threads, height = pass_shape(_numbers_a_row(x), sections.width, x.dtype.itemsize)
    n_threads = n_threads if sections.parallel else 1
    blocks = row_blocks(x, height)
    while group := list(islice(blocks, BLOCKS_A_HAND * n_threads)):
        yield from parallel_map(hand, group, n_threads=n_threads)
        watch.step(group[-1][0].stop, n, "rows", None)
