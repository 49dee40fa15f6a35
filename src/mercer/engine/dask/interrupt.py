"""A long task that nobody waits for any more ends soon, and not when its pass is over."""

from __future__ import annotations

import ctypes
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOK_SECONDS = 0.5


class _UnwantedError(BaseException):
    """Raised in the thread of a task that was cancelled."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Work that stops between two tiles when its task is cancelled, as after Ctrl-C at the client."""
    from distributed.worker import get_worker

    try:
        worker = get_worker()
        key = worker.get_current_task()
    except (ValueError, AttributeError, KeyError):  # no worker: a test, or the client itself
        yield
        return
    done, lock, thread = threading.Event(), threading.Lock(), threading.get_ident()
    watch = threading.Thread(target=_watch, args=(worker, key, thread, done, lock), daemon=True)
    watch.start()
    try:
        yield
    finally:
        with lock:
            done.set()


def _watch(worker: Any, key: Any, thread: int, done: threading.Event, lock: threading.Lock) -> None:
    while not done.wait(LOOK_SECONDS):
        task = worker.state.tasks.get(key)
        if task is not None and task.state != "cancelled":
            continue
        with lock:
            if not done.is_set():
                # Python raises it in that thread at its next step: tiles are drawn a few at a time.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread), ctypes.py_object(_UnwantedError)
                )
        return
