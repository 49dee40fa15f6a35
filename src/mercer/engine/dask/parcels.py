"""What mercer's tasks take and give, with arrays that lie in memory as NumPy wants them.

Dask reads a message into one buffer and makes arrays that are views of it, at whatever byte they begin. NumPy
multiplies an array that is not aligned without BLAS: several times more slowly, and with sums in another
order. So the bits of a result would depend on what else was in the message.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.data.rows import aligned

if TYPE_CHECKING:
    from collections.abc import Callable

OUT_OF_BAND = 5  # the protocol of pickle from which the numbers of arrays are buffers of their own


class Parcel:
    """Something that travels: its arrays are moved, where they have to be, when it arrives."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        import cloudpickle  # functions of the user's, too

        if protocol < OUT_OF_BAND:
            return _arrived, (cloudpickle.dumps(self.thing, protocol=protocol), [])
        buffers: list[Any] = []
        data = cloudpickle.dumps(self.thing, protocol=protocol, buffer_callback=buffers.append)
        return _arrived, (data, buffers)

    def __sizeof__(self) -> int:
        from dask.sizeof import sizeof

        return int(sizeof(self.thing))


def _arrived(data: bytes, buffers: list[Any]) -> Parcel:
    return Parcel(pickle.loads(data, buffers=[_moved(each) for each in buffers]))


def _moved(buffer: Any) -> Any:
    """The same bytes, from a multiple of 8 on."""
    if not memoryview(buffer).nbytes:
        return buffer
    octets = np.frombuffer(buffer, dtype=np.uint8)
    return octets if octets.ctypes.data % np.dtype(float).alignment == 0 else octets.copy()


def run(function: Callable[..., Any], *args: Any) -> Parcel:
    """A task: what it takes out of parcels it gives back in one."""
    return Parcel(function(*map(opened, args)))


def opened(arg: Any) -> Any:
    """The content of a parcel; anything else is aligned first."""
    return arg.thing if isinstance(arg, Parcel) else aligned(arg)
