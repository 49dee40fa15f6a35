"""The queue of requests: one worker for fits, the newest request of a tab before its older ones, stops."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from mercer._core.errors import MercerError, StoppedError
from mercer._core.observer import WANTED, holding
from mercer.app.outcome import Observer

T = TypeVar("T")
WAITING = 64  # requests in all that may wait or run; more are sent away
FITTING, HELPING = "mercer-fit", "mercer-help"  # names of threads
CLIENTS = 256  # tabs whose newest generation is remembered


class SupersededError(MercerError):
    """A newer request of the same tab has taken the place of this one."""


class BusyError(MercerError):
    """Too many requests wait already."""


@dataclass(eq=False)
class Job(Observer):
    """A request under way: what it does, how far it is, and whether an answer is still wanted."""

    client: str
    slot: str = ""
    generation: int = 0
    cancelled: threading.Event = field(default_factory=threading.Event)
    reason: type[MercerError] = StoppedError
    stage: str = "waiting"
    done: int = 0
    expected: int | None = None
    what: str = ""
    residual: float | None = None
    begun: float = field(default_factory=time.monotonic)

    def cancel(self, reason: type[MercerError]) -> None:
        """Ask it to end."""
        if not self.cancelled.is_set():
            self.reason = reason
            self.cancelled.set()

    def check(self) -> None:
        """Raise where the answer is no longer wanted."""
        if self.cancelled.is_set():
            msg = "This request was stopped."
            raise self.reason(msg)

    def began(self, stage: str) -> None:
        self.check()
        self.stage = stage

    def step(self, done: int, expected: int | None, what: str, residual: float | None) -> bool:
        self.done, self.expected, self.what, self.residual = done, expected, what, residual
        return self.cancelled.is_set()

    @property
    def progress(self) -> dict[str, Any]:
        """How far it is."""
        parts = ("stage", "done", "expected", "what", "residual")
        seconds = time.monotonic() - self.begun
        return {"running": True, **{p: getattr(self, p) for p in parts}, "seconds": seconds}


class Crew:
    """Threads that do one task after another. A program that ends does not wait for them.

    Those of a `ThreadPoolExecutor` are joined at exit: Ctrl-C would wait for whatever a library reads.
    """

    def __init__(self, n_threads: int, name: str) -> None:
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock, self._closed = threading.Lock(), False
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}_{i}", daemon=True)
            for i in range(n_threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Do it when a thread is free; once the crew is closed, none will be."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                future.cancel()
            else:
                self._tasks.put((future, work))
        return future

    def close(self) -> None:
        """Begin nothing more; what has begun ends by itself."""
        with self._lock:
            self._closed = True
        with suppress(Empty):
            while (task := self._tasks.get_nowait()) is not None:
                task[0].cancel()
        for _ in self._threads:
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, work = task
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)
            del task, future, work  # a thread that waits holds no answer


class Desk:
    """Takes requests and gives them to the one worker, or to a few helpers where no fit is needed."""

    def __init__(self, helpers: int = 3) -> None:
        self._lock = threading.Lock()
        self._newest: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._jobs: list[Job] = []
        self._worker, self._helpers = Crew(1, FITTING), Crew(helpers, HELPING)

    def submit(self, job: Job, work: Callable[[Job], T], *, fits: bool) -> Future[T]:
        """Do it when its turn has come; a newer request of the same tab and slot takes its place."""
        with self._lock:
            if len(self._jobs) >= WAITING:
                msg = f"{WAITING} requests wait already. Wait for their answers, and ask again."
                raise BusyError(msg)
            self._supersede(job)
            self._jobs.append(job)
        crew = self._worker if fits else self._helpers
        future = crew.submit(partial(self._done, job, work))
        # What never begins must not be counted either.
        future.add_done_callback(lambda _: self._forget(job))
        return future

    def _supersede(self, job: Job) -> None:
        if job.generation <= 0:
            return
        key = job.client, job.slot
        if job.generation < self._newest.get(key, 0):
            job.cancel(SupersededError)
            return
        self._newest[key] = job.generation
        self._newest.move_to_end(key)
        while len(self._newest) > CLIENTS:
            self._newest.popitem(last=False)
        for other in self._jobs:
            if (other.client, other.slot) == key and 0 < other.generation < job.generation:
                other.cancel(SupersededError)

    def _done(self, job: Job, work: Callable[[Job], T]) -> T:
        job.check()
        job.begun = time.monotonic()
        with holding(WANTED, job.check):
            result = work(job)
        if job.reason is SupersededError:
            job.check()  # what a stopped fit has found is worth showing; this is not
        return result

    def _forget(self, job: Job) -> None:
        with self._lock:
            if job in self._jobs:
                self._jobs.remove(job)

    def alone(self, work: Callable[[], T]) -> T:
        """Do a fit on behalf of a request: the one worker does it, and a helper waits for it."""
        if threading.current_thread().name.startswith(FITTING):
            return work()
        as_wanted = partial(copy_context().run, work)  # as long as the answer is
        return self._worker.submit(as_wanted).result()

    def stop(self, client: str, asking: Job | None = None) -> int:
        """Stop whatever a tab waits for, except for the answer to `asking`; how many requests that were."""
        with self._lock:
            own = [job for job in self._jobs if job.client == client and job is not asking]
        for job in own:
            job.cancel(StoppedError)
        return len(own)

    def progress(self, client: str) -> dict[str, Any]:
        """How far the request of a tab is that has waited longest."""
        with self._lock:
            own = [job for job in self._jobs if job.client == client and job.generation > 0]
        running = [job for job in own if job.stage != "waiting"]
        found = next(iter(running or own), None)
        return {"running": False} if found is None else found.progress

    @property
    def is_busy(self) -> bool:
        """Whether work has begun, or waits, that has not ended."""
        with self._lock:
            return bool(self._jobs)

    def close(self) -> None:
        """End all work without waiting for it."""
        with self._lock:
            for job in self._jobs:
                job.cancel(StoppedError)
        for crew in (self._worker, self._helpers):
            crew.close()
