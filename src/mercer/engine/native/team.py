"""A job of the library on threads of its own, which end with it."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from mercer.engine.native.bindings import address

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.engine.native.bindings import Library

TICKETS = 16  # that the caller draws at a time: between two such draws Python looks at signals
# What threads may be at work on, with the number of them. Ctrl-C can strike between any two lines of Python;
# then they finish a job that nobody waits for, in memory that must not be freed before.
_RUNNING: dict[int, tuple[ctypes.c_int64, Any]] = {}


def drawn(
    native: Library, work: Any, job: Any, scratch: Array, *, holding: Any, tickets: int = TICKETS
) -> None:
    """All tickets of a job, by the caller and as many threads as `scratch` has rows beside the first.

    ``holding`` is whatever the job points into.
    """
    n_threads, pointer = len(scratch), ctypes.byref(job)
    own = address(scratch[0])
    if n_threads == 1:
        while work(pointer, own, tickets) == tickets:
            pass
        return
    _sweep()
    running = ctypes.c_int64(1)
    _RUNNING[id(running)] = running, (job, scratch, holding)
    function = ctypes.cast(work, ctypes.c_void_p)
    rest = scratch[1:]
    where = address(rest), rest.strides[0]
    team = native.started(function, pointer, *where, n_threads - 1, running)
    try:
        while work(pointer, own, tickets) == tickets:
            pass
    except BaseException:
        job.stop = 1
        raise
    finally:
        native.ended(team)
        _RUNNING.pop(id(running), None)


def _sweep() -> None:
    """Forget what was left behind, as soon as nobody is at work on it."""
    for key, (running, _) in list(_RUNNING.items()):
        if running.value == 0:
            _RUNNING.pop(key, None)
