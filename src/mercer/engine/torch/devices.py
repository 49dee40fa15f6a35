"""The devices of a machine, as `mercer info` and workers list them."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from platform import node
from typing import Any

from mercer._core.errors import installing
from mercer._core.memory import format_bytes
from mercer.engine.torch.place import AMPERE, Place, _why_no_cuda, _why_no_mps, device_of, reason_of

FOR_NVIDIA = "they are made for NVIDIA's tensor cores"
NO_TORCH = f"torch is not installed ({installing('gpu')})"


@dataclass(frozen=True)
class Device:
    """A device, by the name that `engine` takes."""

    name: str
    model: str
    total_bytes: int
    free_bytes: int
    capability: str | None = None  # NVIDIA's
    no_halves: str | None = None  # why exact fits are not made of half floats; None where they are

    def __str__(self) -> str:
        held = f"{format_bytes(self.total_bytes)}, {format_bytes(self.free_bytes)} free"
        able = "" if self.capability is None else f", compute capability {self.capability}"
        halves = "half floats" if self.no_halves is None else f"no half floats ({self.no_halves})"
        return f"{self.name}, {self.model}, {held}{able}, {halves}"


@dataclass(frozen=True)
class There:
    """What a worker says of the device that it computes on."""

    key: str  # of the device itself, whatever its number in a process
    total_bytes: int
    free_bytes: int
    has_tensor_cores: bool


def has_torch() -> bool:
    """Whether torch is installed, without importing it."""
    return sys.modules.get("torch") is not None or find_spec("torch") is not None


def there(name: str) -> There | str:
    """The facts of a device of this process, or why there is none."""
    if not has_torch():
        return NO_TORCH
    place = Place(*device_of(name))
    try:
        if (why := place.why_missing()) is not None:
            return why
        return There(_key(place), place.total_bytes, place.free_bytes, place.has_tensor_cores)
    except Exception as error:  # a broken torch, a device that another process has for itself
        return f"torch can't use it: {reason_of(error)}"


def _key(place: Place) -> str:
    """A name of the device itself: each process numbers those that it sees in its own way."""
    own = place.name
    if place.kind == "cuda":
        known = import_module("torch").cuda.get_device_properties(place.index)
        # Without an identifier, the first of those that a process sees is its own.
        own = getattr(known, "uuid", f"{os.environ.get('CUDA_VISIBLE_DEVICES')} {own}")
    return f"{node()} {own}"


def devices() -> tuple[tuple[Device, ...], str | None]:
    """The devices that torch sees and, where there are none, why."""
    if not has_torch():
        return (), NO_TORCH
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reason is given in words
        try:
            torch = import_module("torch")
            why = _why_no_cuda(torch, 0)
            count = 0 if why is not None else torch.cuda.device_count()
            found = [_gpu(torch, index) for index in range(count)]
            if _why_no_mps(torch, 0) is None:
                place = Place("mps")
                own = place.name, "Metal", place.total_bytes, place.free_bytes
                found.append(Device(*own, no_halves=FOR_NVIDIA))
        except Exception as error:  # a torch that is broken, or older than what is asked of it
            return (), f"torch can't be used: {reason_of(error)}"
    return tuple(found), None if found else why


def _gpu(torch: Any, index: int) -> Device:
    place, known = Place("cuda", index), torch.cuda.get_device_properties(index)
    own = place.name, str(known.name), place.total_bytes, place.free_bytes
    if torch.version.hip is not None:
        return Device(*own, no_halves=FOR_NVIDIA)
    able = torch.cuda.get_device_capability(index)
    why = None
    if not place.has_tensor_cores:
        old = able < AMPERE
        why = "they need compute capability 8.0" if old else "Triton is not installed"
    return Device(*own, capability=".".join(map(str, able)), no_halves=why)
