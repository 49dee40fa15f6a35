"""A job of the library on threads of its own, which end with it."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.engine.native.bindings import Library

TICKETS = 16  # that the caller draws at a time: between two such draws Python looks at signals
# What threads may be at work on. Ctrl-C can strike between any two lines of Python; then they finish a job
# that nobody waits for, in memory that must not be freed.
_RUNNING: dict[int, Any] = {}


def drawn(native: Library, work: Any, job: Any, scratch: Array, *, holding: Any) -> None:
    """All tickets of a job, by the caller and as many threads as `scratch` has rows beside the first.

    ``holding`` is whatever the job points into.
    """
    n_threads, pointer = len(scratch), ctypes.byref(job)
    own = scratch[0].ctypes.data
    if n_threads == 1:
        while work(pointer, own, TICKETS) == TICKETS:
            pass
        return
    _RUNNING[id(job)] = job, scratch, holding
    address = ctypes.cast(work, ctypes.c_void_p)
    rest = scratch[1:]
    team = native.started(address, pointer, rest.ctypes.data, rest.strides[0], n_threads - 1)
    try:
        while work(pointer, own, TICKETS) == TICKETS:
            pass
    except BaseException:
        job.stop = 1
        raise
    finally:
        native.ended(team)
        del _RUNNING[id(job)]
