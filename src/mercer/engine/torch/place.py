"""Devices: how they are named, which are there, what they can hold. torch is imported when it is asked."""

from __future__ import annotations

import math
import os
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from importlib.util import find_spec
from platform import node
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError, MemoryBudgetError, installing
from mercer._core.memory import format_bytes, lately_available_bytes
from mercer._core.types import Array
from mercer.data.frames import need
from mercer.engine.base import FLOAT32, FLOAT64
from mercer.engine.threads import Hold
from mercer.engine.tiles import DEVICE_PASS_ROWS
from mercer.engine.torch.sending import Ring, is_staged, ring_of

if TYPE_CHECKING:
    from torch import Tensor


_NAME = re.compile(r"(?:torch:)?(?P<kind>cuda|mps)(?::(?P<index>\d{1,3}))?|torch:(?P<cpu>cpu)")
FORMS = "'cuda', 'cuda:1', 'cuda:0,cuda:1', 'cuda:all', 'mps' or 'torch:cpu'"
ALL = "cuda:all"

# Shares of a device's free memory. Rows that stay there leave room for the tiles of a pass; kept tiles come
# last, and leave room for what torch's allocator wastes.
ROWS_SHARE, TILE_SHARE, KEPT_SHARE = 2, 16, 2
# Tiles side by side while a formula is computed: its stack, a mask or a copy, and what a product reads.
BESIDE = 3
# The widest float64 tile. A device starts an operation in some 10 µs, so each has much to do; the processor
# has them in its shared cache.
WIDEST = {"cuda": 8192, "mps": 4096, "cpu": 1024}
AMPERE = 8, 0  # compute capability
LEAST = 64  # a tile is never narrower, however little memory there is
REASON = 160  # characters of an error of torch that a message repeats
FOR_NVIDIA = "they are made for NVIDIA's tensor cores"
NO_TORCH = f"torch is not installed ({installing('gpu')})"


def device_of(name: str) -> tuple[str, int]:
    """The kind of device and its number.

    >>> device_of("cuda"), device_of("CUDA:1"), device_of("torch:cpu")
    (('cuda', 0), ('cuda', 1), ('cpu', 0))
    """
    found = _NAME.fullmatch(name.strip().lower())
    if found is None:
        msg = f"engine={name!r} names no device: use {FORMS}."
        raise InputError(msg)
    return found["kind"] or found["cpu"], int(found["index"] or 0)


def devices_of(name: str) -> tuple[str, ...]:
    """The devices of a name, one or several of a kind; `ALL` is those that torch sees, or the first.

    >>> devices_of("cuda"), devices_of("cuda:0, cuda:1")
    (('cuda',), ('cuda:0', 'cuda:1'))
    """
    if name.strip().lower().removeprefix("torch:") == ALL:
        torch = need("torch", extra="gpu")
        count = 0 if _why_no_cuda(torch, 0) is not None else torch.cuda.device_count()
        return tuple(f"cuda:{index}" for index in range(max(1, count)))
    names = tuple(each.strip() for each in name.split(","))
    if len(names) > 1 and not all(_NAME.fullmatch(each.lower()) for each in names):
        msg = f"engine={name!r} must be names of devices with commas between them, such as {FORMS}."
        raise InputError(msg)
    kinds = {device_of(each)[0] for each in names}
    if len(kinds) > 1:
        msg = f"engine={name!r} must name devices of one kind; got {' and '.join(sorted(kinds))}."
        raise InputError(msg)
    return names


def tile_width(n_bytes: int, itemsize: int, *, depth: int, widest: int) -> int:
    """The width of square tiles of which `depth` and what is beside them take a share of the memory.

    >>> tile_width(16 * 4 * 8 * 1000**2, 8, depth=1, widest=8192)
    1000
    """
    entries = n_bytes // (TILE_SHARE * itemsize * (depth + BESIDE))
    return max(LEAST, min(widest, math.isqrt(max(entries, 0))))


def kept_tiles(n_tiles: int, tile_bytes: int, *, asked_bytes: int, free_bytes: int) -> int:
    """How many tiles are kept: what was asked for, as far as the device has room.

    >>> [kept_tiles(100, 10, asked_bytes=500, free_bytes=free) for free in (2000, 400)]
    [50, 20]
    """
    return max(0, min(n_tiles, min(asked_bytes, free_bytes // KEPT_SHARE) // tile_bytes))


def reason_of(error: BaseException) -> str:
    """What torch says of a device, shortened to its first sentence.

    >>> reason_of(RuntimeError("The driver is too old (found version 11040). Please update it: see …"))
    'the driver is too old (found version 11040)'
    """
    first = re.split(r"(?<=[.!])\s|\n", f"{error}".strip(), maxsplit=1)[0].rstrip(".!")
    first = first if len(first) <= REASON else f"{first[:REASON]}…"
    return first[:1].lower() + first[1:] or type(error).__name__


@dataclass(frozen=True)
class Place:
    """A device that is there: `Place.named` looks."""

    kind: str
    index: int = 0

    @classmethod
    def named(cls, name: str) -> Place:
        """The device of a name; raises, in one sentence, where there is none."""
        place = cls(*device_of(name))
        why = place.why_missing()
        if why is not None:
            msg = f"engine={name!r} has no device: {why}. engine='auto' computes on the processor."
            raise InputError(msg)
        return place

    def why_missing(self) -> str | None:
        """Why torch, which is needed, has no such device here; None where it has."""
        torch = need("torch", extra="gpu")
        looks = {"cuda": _why_no_cuda, "mps": _why_no_mps, "cpu": lambda *_: None}[self.kind]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the reason is given in words
            return looks(torch, self.index)

    @property
    def name(self) -> str:
        return {"cuda": f"cuda:{self.index}", "mps": "mps", "cpu": "torch:cpu"}[self.kind]

    @cached_property
    def device(self) -> Any:
        import torch

        return torch.device(f"cuda:{self.index}" if self.kind == "cuda" else self.kind)

    @property
    def has_double(self) -> bool:
        return self.kind != "mps"

    @property
    def has_tensor_cores(self) -> bool:
        """Whether half floats are multiplied there far faster than others, and Triton is there to say so."""
        if self.kind != "cuda" or find_spec("triton") is None:
            return False
        import torch

        return torch.version.hip is None and torch.cuda.get_device_capability(self.index) >= AMPERE

    @property
    def sums(self) -> np.dtype[Any]:
        """The precision of sums over tiles."""
        return FLOAT64 if self.has_double else FLOAT32

    @property
    def free_bytes(self) -> int:
        """Memory that can be taken on the device now, that which torch holds ready included."""
        import torch

        if self.kind == "cuda":
            free, _ = torch.cuda.mem_get_info(self.index)
            held = torch.cuda.memory_reserved(self.index)
            return int(free + held - torch.cuda.memory_allocated(self.index))
        if self.kind == "mps":
            most = torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
            return int(max(most, 1))
        return lately_available_bytes()

    @property
    def total_bytes(self) -> int:
        """All memory of the device; that of the processor is never short for a tile."""
        import torch

        if self.kind == "cuda":
            return int(torch.cuda.mem_get_info(self.index)[1])
        return int(torch.mps.recommended_max_memory()) if self.kind == "mps" else 2**63

    def width(self, dtype: np.dtype[Any], depth: int = 1) -> int:
        """The width of a tile that is not planned, by all memory: no bit depends on what else runs there."""
        widest = WIDEST[self.kind] * 8 // dtype.itemsize
        return tile_width(self.total_bytes, dtype.itemsize, depth=depth, widest=widest)

    def height(self, width: int, depth: int = 1) -> int:
        """Rows of a block of which `width` numbers are made, and `depth` such arrays beside each other."""
        return min(DEVICE_PASS_ROWS, max(LEAST, self.width(FLOAT64, depth) ** 2 // max(1, width)))

    def tensor(self, array: Array, dtype: np.dtype[Any] | None = None) -> Tensor:
        """A copy on the device, aligned as torch has it: no bit depends on where an array lay.

        Vectors that are there already are copied only into another precision.
        """
        import torch

        if not isinstance(array, np.ndarray):
            there: Tensor = array.tensor
            return there if dtype is None else there.to(getattr(torch, dtype.name))
        array = np.ascontiguousarray(array, dtype=dtype or array.dtype.newbyteorder("="))
        return torch.tensor(array, device=self.device)

    @property
    def ring(self) -> Ring | None:
        """The buffers that rows are sent through, where that pays: memory is pinned for CUDA alone."""
        return ring_of(self.index) if self.kind == "cuda" else None

    def begin(self, array: Array, dtype: np.dtype[Any]) -> Callable[[], Tensor]:
        """A call that gives the same as `tensor`; a large array is on its way before it.

        The thread that computes has to call it: the copy is for what that starts afterwards.
        """
        ring = self.ring if is_staged(array.size * dtype.itemsize) else None
        if ring is None or not ring.takes(array.shape, dtype):
            return partial(self.tensor, array, dtype)
        return ring.begin(array, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
        import torch

        return torch.zeros(shape, dtype=getattr(torch, dtype.name), device=self.device)

    def let_go(self) -> None:
        """Give back what torch's allocator holds ready."""
        import torch

        if self.kind == "cuda":
            torch.cuda.empty_cache()
        elif self.kind == "mps":
            torch.mps.empty_cache()

    def too_little(self, width: int) -> MemoryBudgetError:
        """The error that not even tiles of this width fit."""
        msg = (
            f"{self.name} ran out of memory at tiles of {width} x {width} numbers; "
            f"{format_bytes(self.free_bytes)} are free there. End what else runs on it, or use engine='auto'."
        )
        return MemoryBudgetError(msg)


def out_of_memory(error: BaseException) -> bool:
    """Whether torch had no memory: its class has moved between versions, the processor's has none."""
    return type(error).__name__ == "OutOfMemoryError" or (
        isinstance(error, RuntimeError) and "not enough memory" in str(error)
    )


class _IeeeProducts(Hold):
    """Products of float32 in float32, whatever the caller allows elsewhere (TF32, bfloat16)."""

    def begin(self) -> None:
        import torch

        backends = torch.backends
        if not hasattr(backends.cuda.matmul, "fp32_precision"):  # before torch 2.9
            usual = torch.get_float32_matmul_precision()
            self._undo.append(partial(torch.set_float32_matmul_precision, usual))
            torch.set_float32_matmul_precision("highest")
            return
        for owner in (backends.cuda.matmul, backends.mkldnn.matmul):
            self._undo.append(partial(setattr, owner, "fp32_precision", owner.fp32_precision))
            owner.fp32_precision = "ieee"


IEEE_PRODUCTS = _IeeeProducts()


def _why_no_cuda(torch: Any, index: int) -> str | None:
    version = getattr(torch, "version", None)
    if getattr(version, "cuda", None) is None and getattr(version, "hip", None) is None:
        return f"torch {torch.__version__} is a build without CUDA; install one that has it"
    try:
        torch.cuda.init()
        count = torch.cuda.device_count()
    except (RuntimeError, AssertionError) as error:  # no driver, one that is too old, no device
        return reason_of(error)
    if index >= count:
        there = "none is" if not count else "only cuda:0 is" if count == 1 else f"{count} are"
        return f"of the GPUs that torch sees, {there} there"
    return None


def _why_no_mps(torch: Any, index: int) -> str | None:
    mps = getattr(torch.backends, "mps", None)
    if mps is None or not mps.is_built():
        return f"torch {torch.__version__} is built without Metal"
    if index or not mps.is_available():
        return "Metal has one device, 'mps', on Macs with macOS 12.3 or later"
    return None


# ── the devices of a machine, as `mercer info` and workers list them ────────
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
        why = "they need compute capability 8.0" if able < AMPERE else "Triton is not installed"
    return Device(*own, capability=".".join(map(str, able)), no_halves=why)
