"""Python threads over tiles, with BLAS held to one thread in each of them."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, copy_context
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from mercer._core.types import Rows
from mercer.data.rows import row_slices

TURN_SECONDS = 0.2
NAME = "mercer-tiles"  # of threads that stay
# Numbers up to which OpenBLAS sums squares on the calling thread, in less time than NumPy finds a maximum.
LONE_DOT = 10_000

Task = TypeVar("Task")
Result = TypeVar("Result")


@lru_cache(maxsize=1)
def _allowed() -> int:
    """Cores that the quota of a container (cgroup) and LOKY_MAX_CPU_COUNT leave to this process."""
    import joblib  # scikit-learn has it loaded by the time a model is fitted

    return int(joblib.cpu_count())


def cpu_count() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), _allowed())
    return _allowed()


@lru_cache(maxsize=1)  # looking through the loaded libraries takes milliseconds
def _blas_libraries() -> list[Any]:
    libraries = ThreadpoolController().lib_controllers
    return [each for each in libraries if each.user_api == "blas"]


class Hold(ABC):
    """A setting of the whole process: the first to enter sets it, the last to leave puts it back.

    Two fits on two Python threads that each saved and restored it by themselves could leave it set for good.
    """

    def __init__(self) -> None:
        self._lock, self._holders = threading.Lock(), 0
        self._undo: list[Callable[[], object]] = []  # what puts back what was there, the last first

    @abstractmethod
    def begin(self) -> None:
        """Set it, and append to `_undo` what puts back what was there."""

    def _end(self) -> None:
        while self._undo:
            self._undo.pop()()

    def __enter__(self) -> None:
        with self._lock:
            if self._holders == 0:
                self.begin()
            self._holders += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:  # in a process that was forked meanwhile there is no holder
            self._holders = max(0, self._holders - 1)
            if self._holders == 0:
                self._end()

    def forget(self) -> None:
        """Start afresh in a forked process, where a lock that another thread held is never released."""
        self._lock, self._holders = threading.Lock(), 0
        self._end()


class _BlasHold(Hold):
    """BLAS on one thread."""

    usual: int | None = None  # threads of BLAS before the limit; None while there is none

    def begin(self) -> None:
        libraries = [(each, each.num_threads) for each in _blas_libraries()]
        self.usual = _within_cores([count for _, count in libraries])
        self._undo.append(partial(setattr, self, "usual", None))  # when the limits are gone
        for each, count in libraries:
            if count != 1:
                self._undo.append(partial(_set_threads, each, count))
                _set_threads(each, 1)


def _set_threads(library: Any, count: int) -> None:
    """Set the threads of a library, on whatever thread this is.

    Since threadpoolctl 3.8 only the thread that was first to set a limit can set others, as limits are the
    process's and threads could undo each other's; any other sets it without effect and without a word. A
    hold is the process's already, and one thread may begin what another ends.
    """
    library.set_num_threads(count)
    clear = getattr(library, "clear_controlling_thread", None)
    if clear is None:
        return
    if library.num_threads != count:
        clear(force=True)
        library.set_num_threads(count)
    clear()  # a limit of the user's own, or of scikit-learn's, is not to find the way barred


_HOLD = _BlasHold()
_LANES: ContextVar[int] = ContextVar("lanes", default=0)  # 0: not decided


def single_threaded_blas() -> AbstractContextManager[None]:
    """BLAS runs on the calling thread alone: the parallelism is ours, over rows and tiles."""
    return _HOLD


# Up to so many rows a dense problem is solved on one thread between two passes. BLAS's own threads would save
# a third of its time, and go on spinning while those of the next pass want their cores: with two of them 500
# landmarks took 8 ms less to factorise, and the pass after it 100 ms more.
BETWEEN_ROWS = 1000


def blas_between_passes(m: int) -> AbstractContextManager[None]:
    """For problems of m x m that stand before, between or behind passes on threads."""
    return single_threaded_blas() if m <= BETWEEN_ROWS else nullcontext()


def n_blas_threads(asked: int | None = None) -> int:
    """The threads BLAS may use: the limit a user or joblib has set holds for tiles too, ours does not.

    Within `lanes` it is the number given there; otherwise the one that was `asked` for, where there is one.
    """
    usual = _LANES.get() or asked or _HOLD.usual
    return usual or _within_cores([each.num_threads for each in _blas_libraries()])


class lanes:  # a context manager, and as a generator it would take three times as long
    """A fit decides once how wide it runs: whatever asks within it gets that number."""

    def __init__(self, n_threads: int) -> None:
        self._n_threads = n_threads

    def __enter__(self) -> None:
        self._token = _LANES.set(self._n_threads)

    def __exit__(self, *error: object) -> None:
        _LANES.reset(self._token)


def _within_cores(counts: list[int]) -> int:
    """The most threads of any library, but no more than there are cores; as many where there is none."""
    most = max(counts, default=0)
    if most == 1:
        return 1
    cores = cpu_count()
    return max(1, min(cores, most or cores))


class _Stopped(Exception):
    """Another thread failed, or the caller was interrupted: the result of this one is not wanted."""


def _until(stop: threading.Event, tasks: list[Task]) -> Iterator[Task]:
    # Raises rather than ends: a share that was cut short must not look like one that was finished.
    for task in tasks:
        if stop.is_set():
            raise _Stopped
        yield task


def parallel_map(
    work: Callable[[Iterable[Task]], Result], tasks: Iterable[Task], *, n_threads: int
) -> list[Result]:
    """`work` on one share of the tasks per thread: thread t has the tasks t, t + T, t + 2T and so on.

    The shares do not depend on timing, so sums over them are the same in every run. When one thread
    fails, or the caller is interrupted (Ctrl-C), the others stop before their next task: a share may
    take minutes. Parallel work within a share runs on the thread of that share alone.
    """
    tasks = list(tasks)
    n_threads = min(n_threads, len(tasks))
    if n_threads <= 1:
        return [work(tasks)] if tasks else []
    shares = [tasks[t::n_threads] for t in range(n_threads)]
    stop = threading.Event()

    def run(share: list[Task]) -> Result:
        _LANES.set(1)  # in the thread's own context
        try:
            return work(_until(stop, share))
        except BaseException:
            stop.set()
            raise

    with single_threaded_blas():
        futures = on_threads([partial(run, share) for share in shares], stop.set)
    # A thread that was stopped is not the one that failed; when none failed, none was stopped.
    return [done.result() for done in futures if not isinstance(done.exception(), _Stopped)]


def parallel_each(
    work: Callable[[Task], Result], tasks: Iterable[Task], *, n_threads: int
) -> list[Result]:
    """`work` of each task, in their order, by the threads of `parallel_map`."""
    shares = parallel_map(lambda share: [*map(work, share)], tasks, n_threads=n_threads)
    of = len(shares)
    return [shares[k % of][k // of] for k in range(sum(map(len, shares)))]


COPIED_ALONE = 2**26  # bytes


def copied(x: Rows) -> Rows:  # (n, d)
    """A copy, on all threads: the system hands out new memory page by page, three gigabytes a second."""
    if not isinstance(x, np.ndarray) or x.nbytes < COPIED_ALONE or not x.flags.c_contiguous:
        return x.copy()
    out, n_threads = np.empty_like(x), n_blas_threads()
    slices = row_slices(len(x), -(-len(x) // n_threads))
    parallel_each(lambda i: np.copyto(out[i], x[i]), slices, n_threads=n_threads)
    return out


def on_threads(
    jobs: Sequence[Callable[[], Result]], stop: Callable[[], object]
) -> list[Future[Result]]:
    """The jobs, each on a thread, when all have ended; after Ctrl-C, which `stop`s them, too.

    On such a thread itself they run in turn. Where all threads are taken, by other fits or by work that waits
    for this, the caller runs those that have not begun.
    """
    if threading.current_thread().name.startswith(NAME):
        return [_ended(job) for job in jobs]
    pool, futures = _pool(), list[Future[Result]]()
    try:
        # Each in a copy of the caller's context: its np.errstate holds there too.
        futures.extend(pool.submit(copy_context().run, job) for job in jobs)
        # In turns: where nothing interrupts a wait (Windows, some consoles), Ctrl-C comes between two.
        while wait(futures, timeout=TURN_SECONDS).not_done:
            for i, job in enumerate(jobs):
                if futures[i].cancel():
                    futures[i] = _ended(partial(copy_context().run, job))
    except BaseException:
        stop()
        wait(futures)
        raise
    return futures


def _ended(job: Callable[[], Result]) -> Future[Result]:
    found: Future[Result] = Future()
    try:
        found.set_result(job())
    except Exception as error:  # raised again by `result`, as for any other future
        found.set_exception(error)
    return found


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """Threads for the life of the process: on 16 cores, starting them took as long as a pass of 5000 rows."""
    return ThreadPoolExecutor(max(8, os.cpu_count() or 1), thread_name_prefix=NAME)


def _forked() -> None:
    """A child has no threads but the one that forked, and does not hold BLAS."""
    _pool.cache_clear()
    _HOLD.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
