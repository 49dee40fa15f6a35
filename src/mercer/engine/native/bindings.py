"""The compiled library: where it is, which instruction set it runs on, the layout of what it is handed."""

from __future__ import annotations

import ctypes
import math
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mercer._core.errors import EngineWarning
from mercer._core.findings import warn
from mercer._core.types import Array
from mercer.engine.native.build import NAME, fingerprint

# From the widest vectors to what every processor has.
ISAS = ("avx512", "avx2", "plain")
CHOICE = "MERCER_NATIVE"  # an instruction set, or "off"
ALIGNMENT = 64  # bytes, those of the widest vector

_int, _double, _pointer = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p

# Operations, as tiles.cpp counts them.
PAIR, AFFINE, EXP, TANH, ROOT, WHOLE_POWER, POWER, POLY_EXP = range(8)
ADD, MULTIPLY, OUTER, CONSTANT, KEEP, TAKE, SMOOTH = range(8, 15)
BLOCKS = 3  # of squares that are in memory
TICKETS = 16  # that the caller draws at a time: between two such draws Python looks at signals
# What threads may be at work on, with the number of them. Ctrl-C can strike between any two lines of Python;
# then they finish a job that is not wanted any more, in memory that must not be freed before.
_RUNNING: dict[int, tuple[ctypes.c_int64, Any]] = {}
KINDS = {"dot": 0, "sqdist": 1, "l1": 2, "chi2": 3, "weights": 0}


def laid_out(names: str) -> list[tuple[str, Any]]:
    """Fields of a structure, as the library's sources have them: *pointers, .doubles and whole numbers."""
    kinds = {"*": _pointer, ".": _double}
    return [(name.lstrip("*."), kinds.get(name[0], _int)) for name in names.split()]


class Rows(ctypes.Structure):
    """Rows as they lie in memory, packed block by block as tiles need them."""

    _fields_ = laid_out("*numbers n down along single *which *origin unit")


class Leaf(ctypes.Structure):
    """A quantity of two rows, and the rows of both sides: packed, or as they are."""

    _fields_ = (
        *laid_out("kind columns *left *right *left_norms *right_norms"),
        ("left_rows", ctypes.POINTER(Rows)),
        ("right_rows", ctypes.POINTER(Rows)),
    )


class Op(ctypes.Structure):
    """An operation on the last tile of a stack of tiles, or on the last two."""

    _fields_ = laid_out("code number .a .b *left *right")


class Explained(ctypes.Structure):
    """Columns W of a factor, and where goes what they explain of rows."""

    _fields_ = laid_out("*w panels height before *weights *rows *energies offset")


class Pulls(ctypes.Structure):
    """What a tile weighs: derivatives of a quantity in its rows, and itself."""

    _fields_ = laid_out("kind columns *left *right *sums *sizes")


class Squares(ctypes.Structure):
    """A sum CᵀC over blocks of rows of C, which are tiles about their means."""

    _fields_ = (
        *laid_out(
            "*centred wide height tiles blocks *weights *means width *so_far *sums panels group"
        ),
        *laid_out("products *made *used *added merged"),
        ("rows", _int * BLOCKS),
    )


class Job(ctypes.Structure):
    """A pass over tiles."""

    _fields_ = (
        ("leaves", ctypes.POINTER(Leaf)),
        ("ops", ctypes.POINTER(Op)),
        *laid_out("n_ops depth rows columns panels symmetric group"),
        *laid_out("*v vectors *sums *other_sums *matrix stride"),
        ("squares", ctypes.POINTER(Squares)),
        ("explained", ctypes.POINTER(Explained)),
        ("pulls", ctypes.POINTER(Pulls)),
        *laid_out("*exact n_exact *rounded *codes *scales *diagonals"),
        ("minus", ctypes.c_float),
        ("from_rounded", ctypes.c_int32),
        *laid_out("*made n_tickets ticket stop *done"),
    )


class Thin(ctypes.Structure):
    """A product Y += T V of a stored matrix and a thin one."""

    _fields_ = laid_out(
        "*t m n down along *v v_stride vectors back *y y_stride y_group height length n_tickets ticket stop"
    )


class LeftOut(ctypes.Structure):
    """Penalties of a ridge, by the tridiagonal form of its kernel matrix."""

    _fields_ = laid_out(
        "*q n stride *diagonal *off *x columns *alphas penalties *pivots *below *inverse *targets *errors"
    )


class Reduction(ctypes.Structure):
    """A small symmetric matrix, on its way to a tridiagonal one."""

    _fields_ = laid_out("*a n stride *diagonal *off *q *room *rows count")


class Beside(ctypes.Structure):
    """A penalty of a ridge, and scores near those of some rows."""

    _fields_ = laid_out("*q *seen n stride *pivots *below *x columns *inverse *targets *said")


class Steps(ctypes.Structure):
    """Steps of Lanczos, as far as they are done."""

    _fields_ = laid_out(
        "*matrix n *basis fixed row *alpha *beta size end .scale .least .most .eps *w *along"
    )


class Library:
    """The functions of one instruction set."""

    def __init__(self, library: ctypes.CDLL, isa: str) -> None:
        self.isa = isa

        def function(name: str, result: Any, *arguments: Any) -> Any:
            found = getattr(library, f"mercer_{name}_{isa}")
            found.restype, found.argtypes = result, arguments
            return found

        def both(name: str, *signature: Any) -> dict[np.dtype[Any], Any]:  # by precision
            wide, narrow = (function(f"{name}{bits}", *signature) for bits in (64, 32))
            return {np.dtype(np.float64): wide, np.dtype(np.float32): narrow}

        if fingerprint() not in (None, function("sources", _int)()):
            raise AttributeError(name="sources")
        self.vector_bytes = int(function("bytes", _int)())
        self.panel = {dtype: int(panel()) for dtype, panel in both("panel", _int).items()}
        self.run = both("run", _int, ctypes.POINTER(Job), _pointer, _int)
        self.pack = both("pack", None, ctypes.POINTER(Rows), _int, _int, _pointer, _pointer)
        self.thin = both("thin", _int, ctypes.POINTER(Thin), _pointer, _int)
        self.function = both("function", None, _int, _pointer, _pointer, _int, _double)
        self.left_out = function("left_out", None, ctypes.POINTER(LeftOut))
        self.beside = function("beside", None, ctypes.POINTER(Beside))
        self.reduce = function("reduce", None, ctypes.POINTER(Reduction))
        self.turn_back = function("turn_back", None, ctypes.POINTER(Reduction))
        self.lanczos = function("lanczos", _int, ctypes.POINTER(Steps))
        self.targets = int(function("targets", _int)())
        self.started, self.ended = library.mercer_started, library.mercer_ended
        self.started.restype = _pointer
        self.started.argtypes = (_pointer, _pointer, _pointer, _int, _int, ctypes.POINTER(_int))
        self.ended.restype, self.ended.argtypes = None, (_pointer,)

    def drawn(
        self, work: Any, job: Any, scratch: Array, *, holding: Any, tickets: int = TICKETS
    ) -> None:
        """All tickets of a job, by the caller and as many threads as `scratch` has rows beside the first.

        The threads are the job's own, and end with it. ``holding`` is whatever the job points into.
        """
        n_threads, pointer, own = len(scratch), ctypes.byref(job), address(scratch[0])
        if n_threads == 1:
            while work(pointer, own, tickets) == tickets:
                pass
            return
        for key, (at_work, _) in list(_RUNNING.items()):  # what was left behind, and is over
            if at_work.value == 0:
                _RUNNING.pop(key, None)
        running = ctypes.c_int64(1)
        _RUNNING[id(running)] = running, (job, scratch, holding)
        function, rest = ctypes.cast(work, _pointer), scratch[1:]
        where = address(rest), rest.strides[0]
        team = self.started(function, pointer, *where, n_threads - 1, running)
        try:
            while work(pointer, own, tickets) == tickets:
                pass
        except BaseException:
            job.stop = 1
            raise
        finally:
            self.ended(team)
            _RUNNING.pop(id(running), None)


def address(array: Any) -> int:
    """Where the numbers of an array begin; `array.ctypes` makes an object of many lines for that."""
    found: int = array.__array_interface__["data"][0]
    return found


def aligned(shape: tuple[int, ...], dtype: Any, *, zero: bool = False) -> Any:
    """A new array that starts where a vector may."""
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    room = (np.zeros if zero else np.empty)(n_bytes + ALIGNMENT, dtype=np.uint8)
    start = -address(room) % ALIGNMENT
    return room[start : start + n_bytes].view(dtype).reshape(shape)


@lru_cache(maxsize=1)
def compiled() -> Library | None:
    """The library on the best instruction set of this processor; None where there is none."""
    wanted = os.environ.get(CHOICE, "").strip().lower()
    path = Path(__file__).with_name(NAME)
    if wanted == "off" or not path.exists():
        return None
    try:
        loaded = ctypes.CDLL(str(path))
        supported = loaded.mercer_supports
        supported.restype, supported.argtypes = _int, (ctypes.c_char_p,)
        for isa in [wanted] if wanted in ISAS else ISAS:
            if supported(isa.encode()):
                return Library(loaded, isa)
    except OSError:  # built for another system
        pass
    except AttributeError:  # built from other sources
        msg = (
            f"The compiled tiles, {NAME}, were built from other sources than those beside them, and are not "
            "used: NumPy computes instead, more slowly. Build them again with `python -m "
            "mercer.engine.native.build`, or install mercer again."
        )
        warn(msg, EngineWarning, "stale-tiles")
    return None
