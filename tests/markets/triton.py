"""NumPy in place of Triton: a program at a time, pointers as places in flat arrays."""

from itertools import product
from types import SimpleNamespace

import numpy as np


class Block(np.ndarray):
    """Registers."""

    def to(self, dtype):
        return self.astype(dtype)


class Number(int):
    """A number of one program, which may be cast."""

    def to(self, dtype):
        del dtype
        return self


def arithmetic(name):
    def of_numbers(self, other):
        found = getattr(int, name)(self, int(other)) if np.ndim(other) == 0 else NotImplemented
        return found if found is NotImplemented else Number(found)

    return of_numbers


for each in ("add", "sub", "mul", "floordiv", "mod"):
    setattr(Number, f"__{each}__", arithmetic(f"__{each}__"))
    setattr(Number, f"__r{each}__", arithmetic(f"__r{each}__"))


class Pointer:
    """Places in a flat array."""

    def __init__(self, flat, at=0):
        self.flat, self.at = flat, at

    def __add__(self, more):
        return Pointer(self.flat, self.at + more)


def blocks_of(function):
    def call(*args, **kwargs):
        with np.errstate(over="ignore", divide="ignore"):
            return np.asarray(function(*args, **kwargs)).view(Block)

    return call


def dot(a, b, acc=None):
    found = np.asarray(a, dtype=np.float32) @ np.asarray(b, dtype=np.float32)
    return (found if acc is None else found + acc).view(Block)


def store(pointer, values, mask):
    at = np.broadcast_to(pointer.at, values.shape)
    keep = np.broadcast_to(mask, values.shape)
    pointer.flat[at[keep]] = values[keep]


def atomic_add(pointer, values, sem):
    assert sem == "relaxed"
    np.add.at(pointer.flat, np.broadcast_to(pointer.at, values.shape), values)


AT, GRID = [0, 0], [1, 1]  # the program that runs, and how many there are
language = SimpleNamespace(
    constexpr=object,
    float16=np.float16,
    float32=np.float32,
    int64=np.int64,
    program_id=lambda axis: Number(AT[axis]),
    num_programs=lambda axis: Number(GRID[axis]),
    atomic_add=atomic_add,
    trans=np.transpose,
    load=lambda pointer: pointer.flat[pointer.at].view(Block),
    store=store,
    dot=dot,
    minimum=np.minimum,
    maximum=np.maximum,
    **{
        name: blocks_of(getattr(np, name))
        for name in ("arange", "exp2", "log2", "sqrt", "where", "zeros", "zeros_like")
    },
)


class Launcher:
    """A function that is called as it is, or for each program of a grid."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        return self.function(*args)

    def __getitem__(self, grid):
        def launch(*args, num_warps=0, num_stages=0, **constants):
            del num_warps, num_stages
            given = [Pointer(np.ravel(a)) if hasattr(a, "shape") else a for a in args]
            given = [Number(a) if type(a) is int else a for a in given]
            GRID[:] = grid
            for AT[:] in product(*map(range, grid)):
                self.function(*given, **constants)

        return launch


triton = SimpleNamespace(jit=Launcher, language=language)


def in_place_of_triton(monkeypatch):
    """Texts that import Triton get NumPy, and what they make is not remembered beyond a test."""
    import sys
    from functools import lru_cache

    from mercer.engine.torch import fused

    anew = lru_cache(maxsize=32)(fused.compiled_passes.__wrapped__)
    monkeypatch.setattr(fused, "compiled_passes", anew)
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setitem(sys.modules, "triton.language", language)
