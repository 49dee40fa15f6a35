"""Rows on their way to a GPU: through buffers of pinned memory, the next block while one is computed on.

A device reads pinned memory by itself, at the full speed of the bus, while both processors go on. The
caller's memory is not pinned, which would change what is not ours and take as long as a copy. So a block
passes through two buffers in slabs, one filled while the other is read, on a stream of its own. What the
device computes waits for the block; neither the host nor the stream waits for what the device computes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextvars import copy_context
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np

from mercer._core.types import Array
from mercer.data.rows import row_slices
from mercer.engine.threads import TURN_SECONDS, n_blas_threads, on_threads

if TYPE_CHECKING:
    from torch import Tensor


SLOT_BYTES, SLOTS = 2**26, 2
# What this process holds at most for sending: the buffers, and a block of a file that is read ahead.
STAGING_BYTES = (SLOTS + 1) * SLOT_BYTES
# Fewer are copied as they are: to copy them takes less time than to send them ahead.
LEAST_BYTES = 2**20
# Threads that fill a buffer: one copies at a third of the speed of the bus.
COPYING, ALONE_BYTES = 4, 2**23
UNUSED = 2  # blocks on the device before it has come to them: more would only take its memory

Block = TypeVar("Block")
Begun = TypeVar("Begun")


def staging_bytes(n_bytes: int) -> int:
    """What this process holds while so many bytes of rows are sent."""
    return STAGING_BYTES if is_staged(n_bytes) else 0


def is_staged(n_bytes: int) -> bool:
    """Whether so many bytes are worth a buffer; nothing is pinned for fewer."""
    return n_bytes >= LEAST_BYTES


class Ring:
    """Buffers that take turns, for all threads that send."""

    def __init__(self, line: CudaLine) -> None:
        self._line, self._turn, self._lock = line, 0, threading.Lock()
        self.slot_bytes = min(len(slot.staged) for slot in line.slots)

    def takes(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
        """Whether a buffer holds a row of such an array."""
        return 0 < int(np.prod(shape[1:])) * dtype.itemsize <= self.slot_bytes

    def begin(self, array: Array, dtype: np.dtype[Any]) -> Callable[[], Any]:
        """Begin to send a copy in this precision; the call that is returned gives it."""
        with self._lock:
            there = self._line.empty(array.shape, dtype)
        row_bytes = int(np.prod(array.shape[1:])) * dtype.itemsize
        for i in row_slices(len(array), self.slot_bytes // row_bytes):
            self._send(array[i], there[i], dtype)
        return partial(self._line.arrived, there, self._line.mark())

    def _send(self, slab: Array, to: Any, dtype: np.dtype[Any]) -> None:
        with self._lock:
            slot = self._line.slots[self._turn]
            self._turn = (self._turn + 1) % len(self._line.slots)
            slot.wait()
            # In the order of C and of this processor, whatever the caller's rows are like.
            _copy(slab, slot.staged[: slab.size * dtype.itemsize].view(dtype).reshape(slab.shape))
            slot.send(to)


def _copy(rows: Array, to: Array) -> None:
    """On some threads. BLAS is not held to one thread meanwhile: the caller may be at a product."""
    threads = COPYING if to.nbytes > ALONE_BYTES else 1
    height = -(-len(rows) // max(1, min(threads, n_blas_threads())))
    slices = row_slices(len(rows), height)
    jobs = [partial(np.copyto, to[i], rows[i], casting="unsafe") for i in slices]
    if len(jobs) == 1:
        jobs[0]()
        return
    for done in on_threads(jobs, lambda: None):
        done.result()


# ── CUDA ────────────────────────────────────────────────────────────────────
class PinnedSlot:
    """A buffer that the device reads: pinned memory, and the stream that it is read on."""

    def __init__(self, stream: Any) -> None:
        import torch

        self._held = torch.empty(SLOT_BYTES, dtype=torch.uint8, pin_memory=True)
        self.staged = self._held.numpy()  # (SLOT_BYTES,) uint8, on the host
        self._stream, self._left = stream, torch.cuda.Event()

    def wait(self) -> None:
        """Until what was last sent has left; at once where nothing was."""
        self._left.synchronize()

    def send(self, to: Tensor) -> None:
        """Begin to copy as many of the first bytes as fill `to`."""
        import torch

        held = self._held[: to.numel() * to.element_size()].view(to.dtype).view(to.shape)
        with torch.cuda.stream(self._stream):
            to.copy_(held, non_blocking=True)
            self._left.record(self._stream)


class CudaLine:
    """The way to a GPU: buffers, and a stream beside those that compute."""

    def __init__(self, index: int) -> None:
        import torch

        self._stream = torch.cuda.Stream(device=index)
        with torch.cuda.device(index):  # or the first device would get a context, too
            self.slots = tuple(PinnedSlot(self._stream) for _ in range(SLOTS))
        # Marks of the streams that compute: blocks before are used.
        self._used: deque[Any] = deque()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
        """Room on the device, of this stream: torch gives it to no other before that is done with it.

        Nothing else waits for the device: a fast host would fill its memory with blocks.
        """
        import torch

        while len(self._used) > UNUSED:
            self._used.popleft().synchronize()
        with torch.cuda.stream(self._stream):
            return torch.empty(shape, dtype=getattr(torch, dtype.name), device=self._stream.device)

    def mark(self) -> Any:
        """An event behind all that has been sent so far."""
        return self._stream.record_event()

    def arrived(self, there: Tensor, mark: Any) -> Tensor:
        """The block, for what the calling thread starts from now on: its stream waits for the mark."""
        import torch

        stream = torch.cuda.current_stream(there.device)
        self._used.append(stream.record_event())
        stream.wait_event(mark)
        there.record_stream(stream)
        return there


@cache
def ring_of(index: int) -> Ring | None:
    """The buffers of a GPU, for the life of the process; None where no memory may be pinned."""
    try:
        return Ring(CudaLine(index))
    except RuntimeError:  # a limit of a container: rows are sent as before, to the same bits
        return None


# ── the next block meanwhile ────────────────────────────────────────────────
END = object()
READER = "mercer-reader"  # the name of the thread


class _Job(Generic[Begun]):
    """Work on a thread that ends with it: none is left waiting for a caller that has gone."""

    def __init__(self, work: Callable[[], Begun]) -> None:
        self._found: Future[Begun] = Future()
        # In a copy of the caller's context: its np.errstate holds there too.
        run = partial(copy_context().run, self._run, work)
        self._thread = threading.Thread(target=run, name=READER)
        self._thread.start()

    def _run(self, work: Callable[[], Begun]) -> None:
        try:
            self._found.set_result(work())
        except BaseException as error:  # raised where the result is asked for
            self._found.set_exception(error)

    def result(self) -> Begun:
        """What it has found, or its error. In turns: Ctrl-C comes between two where nothing else lets it."""
        while wait([self._found], timeout=TURN_SECONDS).not_done:
            pass
        return self._found.result()

    def join(self) -> None:
        """Until it has ended, whatever it has found."""
        self._thread.join()


def ahead(blocks: Iterator[Block], begin: Callable[[Block], Begun]) -> Iterator[Begun]:
    """``begin`` of all blocks in their order, of the next one while the caller has the last: two at most.

    An error in reading is raised when its block is asked for, after all blocks before it.

    >>> list(ahead(iter("abc"), str.upper))
    ['A', 'B', 'C']
    """

    def step() -> Any:
        for block in blocks:
            return begin(block)
        return END

    job = _Job(step)
    try:
        while (found := job.result()) is not END:
            job = _Job(step)
            yield cast("Begun", found)
            del found  # the caller's alone from here on
    finally:
        job.join()
        if hasattr(blocks, "close"):
            blocks.close()
