"""One pass over the rows, on threads: parts that merge (`fold`), or a result for each row (`map_rows`).

This is what `NumpyEngine.fold` and `map` run. Rows are an array, a CSR matrix or a `RowSource`. A step gets
a block of rows, returns a value and changes nothing. What else it needs it holds, as a frozen dataclass, a
bound method of one or a `functools.partial` of a function: it pickles, and may run in another process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import reduce
from itertools import islice
from typing import Any

import numpy as np

from mercer._core.observer import SILENT, Observer
from mercer._core.types import Array, Rows
from mercer.data.rows import RowSource, row_blocks, row_slices
from mercer.engine.base import S
from mercer.engine.threads import n_blas_threads, parallel_each, single_threaded_blas
from mercer.engine.tiles import LOCK_WIDTH

Block = tuple[slice, Rows]


def fold(
    x: Rows,
    step: Callable[[Rows, slice], S],
    *,
    height: int,
    n_threads: int = 1,
    run: int = 1,
    observer: Observer = SILENT,
) -> S:
    """``step(rows, place)`` of all blocks of at most `height` rows, merged in the order of the rows.

    Each thread merges a run of up to `run` consecutive blocks, and the runs are merged in their order: no
    timing changes a bit, and a thread holds one value beside the one that it makes.
    """

    def merged_run(blocks: list[Block]) -> S:
        return reduce(merged, (step(rows, i) for i, rows in blocks))

    n, blocks = int(x.shape[0]), row_blocks(x, height)
    # Blocks of an array are views: longer runs hold no more, and threads wait for each other less often.
    if run > 1 and n_threads > 1 and isinstance(x, np.ndarray):
        run = max(run, min(VIEWS_A_RUN, -(-n // (height * n_threads))))
    found: S | None = None
    # BLAS's own threads, woken by a merge, would spin beside those of the next runs.
    with single_threaded_blas() if n_threads > 1 else nullcontext():
        while group := list(islice(blocks, run * n_threads)):
            runs = [group[i] for i in row_slices(len(group), -(-len(group) // n_threads))]
            for part in parallel_each(merged_run, runs, n_threads=n_threads):
                found = part if found is None else found.merged(part)
            observer.step(group[-1][0].stop, n, "rows", None)
    assert found is not None  # there are rows
    return found


def merged(left: S, right: S) -> S:
    """The sum over both."""
    return left.merged(right)


def map_rows(
    x: Rows,
    step: Callable[..., Any],
    *beside: Array | None,
    height: int,
    n_threads: int = 1,
    dtype: Any = None,
) -> Array:
    """``step(rows, *beside)`` of all rows, an array of n rows.

    `beside` are arrays with a row for each row of x (or None, for none), cut at the same places. The threads
    share ``n_threads * height`` rows of a source evenly; of rows in memory each has its own slices, and waits
    for no other.
    """
    n, lock = int(x.shape[0]), threading.Lock()
    out: list[Array] = []
    in_memory = not isinstance(x, RowSource)
    for i, block in [(slice(0, n), x)] if in_memory else row_blocks(x, height * n_threads):

        def fill(j: slice, start: int = i.start, block: Rows = block) -> None:
            place = slice(start + j.start, start + j.stop)
            rows = block[j] if dtype is None else block[j].astype(dtype, copy=False)
            values = step(rows, *[None if each is None else each[place] for each in beside])
            with lock:
                if not out:  # the first values show what all are like
                    out.append(np.empty((n, *values.shape[1:]), dtype=values.dtype))
            out[0][place] = values

        b = int(block.shape[0])
        width = max(1, min(height, -(-b // n_threads)))
        parallel_each(fill, [*row_slices(b, width)] or [slice(0, 0)], n_threads=n_threads)
    return out[0]


# ── how high a block of features is ─────────────────────────────────────────
# Sections of a block of rows. Smaller blocks stay in a core's cache, but each block ends in sums of m x m
# numbers: measured with m = 500, blocks of 256 rows take twice as long a row as blocks of 2048 or more.
BLOCK_BYTES = 8 * 2**20
BLOCK_ROWS = 4096
# Blocks of a run: more would have to be read, and held, before the first is used. Of an array in memory they
# are views; an observer is called after each round of runs.
BLOCKS_A_RUN, VIEWS_A_RUN = 4, 8

FLOAT = 8
# Arrays as large as the sections of a block that live at a time: the sections and a kernel's temporaries,
# some of which are always float64, or features, their centred copies and a float64 one for the mean.
COPIES = 3
DOUBLE_COPIES = 2


def numbers_a_row(x: Rows) -> int:
    """d, or of a sparse matrix about twice what is stored of a row."""
    n, d = int(x.shape[0]), int(x.shape[1])
    return min(d, -(-2 * x.nnz // max(1, n))) if hasattr(x, "nnz") else d


def pass_height(width: int, itemsize: int, d: int) -> int:
    """Rows of a block: what fits, but enough that an m x m sum a block costs less than its product."""
    least = max(128, width) if d <= 16 * width else 128
    return max(least, min(BLOCK_ROWS, BLOCK_BYTES // max(1, (width + d) * itemsize)))


def _row_bytes(d: int, width: int, itemsize: int) -> int:
    # In float64 whatever the rows are: where float32 would lose the digits, a pass is made again.
    sections = (COPIES + DOUBLE_COPIES) * FLOAT * width
    # Rows are copied out of a file or a sparse matrix, and then made ready for the product.
    return sections + (BLOCKS_A_RUN * itemsize + 4 * FLOAT) * (d + 2)


def pass_shape(d: int, width: int, itemsize: int, most: int) -> tuple[int, int]:
    """Threads of a pass, `most` at most, and rows of a block: no more memory on many cores than on two.

    More threads have lower blocks, as long as these are worth an m x m sum, and large enough that threads
    don't wait for the interpreter.
    """
    height = pass_height(width, itemsize, d)
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
    n_threads, height = pass_shape(d, width, itemsize, n_blas_threads())
    blocks = min(n, height) * _row_bytes(d, width, itemsize)
    return n_threads * (blocks + 4 * FLOAT * width * width)


# ── how many rows are mapped at a time ──────────────────────────────────────
# Numbers made of one slice of rows: enough for the product to run at speed, few beside the model.
SLICE_BYTES = 32 * 2**20
# The least work of a thread: ten rows against 10 000 points took 81 ms on 16 threads, 7 on two.
ROWS_A_THREAD, ENTRIES_A_THREAD = 64, 2**18
# A slice has so many rows, however many threads share `SLICE_BYTES`: with 61 rows in each of 16 slices the
# threads waited for the interpreter (5000 rows against 5000 points: 152 ms, and 42 with 256 rows).
SLICE_ROWS = 256


def map_shape(n: int, width: int, row_bytes: int, most: int) -> tuple[int, int]:
    """Threads, `most` at most, and rows of a slice: of each, `width` numbers are made, in `row_bytes`."""
    n_threads = max(1, min(most, n // ROWS_A_THREAD, n * width // ENTRIES_A_THREAD))
    rows = max(1, SLICE_BYTES // max(1, row_bytes))
    return n_threads, min(BLOCK_ROWS, max(rows // n_threads, min(rows, SLICE_ROWS)))
