"""Without data: a seeded search for a counterexample to "this is a kernel"."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from mercer._core.errors import InputError, KernelError
from mercer.diagnostics.witness import KernelValues, Trial

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mercer._core.types import Array
    from mercer.kernels import Kernel

DIMENSIONS = (1, 2, 3, 5)
MORE_DIMENSIONS = (8, 16, 32, 64, 128)
SCALES = (1.0, 10.0, 0.1, 100.0, 0.01)
LATTICE_SIDES = {1: 40, 2: 9, 3: 4}
CLIMB_STEPS = 60


def data_sets(dimensions: tuple[int, ...], *, rng: np.random.Generator) -> Iterator[Array]:
    """Point sets of many shapes and scales, simple ones first, each also without its signs."""
    for scale in SCALES:
        for d in dimensions:
            for x in _shapes(d, rng=rng):
                yield scale * x
                yield scale * np.abs(x)


def _shapes(d: int, *, rng: np.random.Generator, n: int = 12) -> Iterator[Array]:
    steps = np.linspace(-2.0, 2.0, 9)
    yield np.array([np.zeros(d), np.ones(d), -np.ones(d)])
    yield steps[:, None] if d == 1 else rng.choice([-1.0, 0.0, 1.0], size=(n, d))
    yield rng.normal(size=(n, d))
    centres = rng.normal(size=(4, d))
    yield np.repeat(centres, 3, axis=0) + 1e-3 * rng.normal(size=(n, d))  # near-duplicates
    yield rng.normal(size=d) + steps[:, None] * rng.normal(size=d)  # a line
    angles = np.linspace(0.0, 2.0 * np.pi, n, endpoint=False)
    circle = np.zeros((n, d))
    circle[:, 0] = np.cos(angles)
    circle[:, 1 % d] = np.sin(angles)
    yield circle


def lattices(dimensions: Iterable[int]) -> Iterator[Array]:
    """Larger regular sets: the finer and wider, the closer to a Fourier transform (Bochner)."""
    for spacing in 2.0 ** np.arange(-4, 4):
        for d in dimensions:
            if d in LATTICE_SIDES:
                yield spacing * np.indices((LATTICE_SIDES[d],) * d).reshape(d, -1).T


class Search:
    """Tries a kernel on one data set after the other, and counts."""

    def __init__(self, kernel: Kernel, *, rng: np.random.Generator) -> None:
        self.kernel = kernel
        self.judged = kernel  # as resolved on the latest data set
        self.rng = rng
        self.usable: list[Array] = []
        self.n_points = 0
        self.n_data_sets = 0
        self.error: Exception | None = None

    def look(self, x: Array) -> Trial | None:
        """The trial on x; None where the kernel is not defined on such points."""
        try:
            with np.errstate(all="ignore"):
                self.judged = self.kernel.resolve(x, rng=self.rng)
                trial = Trial.of(KernelValues(self.judged, x), np.arange(len(x)), rng=self.rng)
        except Exception as error:  # a function may fail in any way off its domain
            if not isinstance(self.error, KernelError):  # the kernel's own complaint says most
                self.error = error
            return None
        self.n_data_sets += 1
        self.n_points += len(x)
        return trial

    def sweep(self, data_sets: Iterable[Array]) -> Trial | None:
        """The first data set with a witness."""
        for x in data_sets:
            trial = self.look(x)
            if trial is not None:
                self.usable.append(x)
                if trial.witness is not None:
                    return trial
        return None

    @property
    def dimensions(self) -> list[int]:
        """Numbers of features that the kernel takes."""
        return sorted({x.shape[1] for x in self.usable})

    def climb(self) -> Trial | None:
        """Random steps that push λ_min/λ_max down, from several starts."""
        fold = np.positive if any(np.any(x < 0) for x in self.usable) else np.abs
        for d, m, scale in itertools.product(self.dimensions[:3], (4, 7), (0.5, 2.0, 8.0)):
            x, best, step = np.zeros((m, d)), np.inf, scale
            for _ in range(CLIMB_STEPS):
                moved = fold(x + step * self.rng.normal(size=x.shape))
                trial = self.look(moved)
                if trial is not None and trial.witness is not None:
                    return trial
                if trial is not None and trial.depth < best:
                    x, best, step = moved, trial.depth, 1.5 * step  # longer while it pays
                elif best < np.inf:
                    step *= 0.85
        return None

    def undefined(self) -> InputError:
        """Why no data set could be used: the kernel's own complaint, or a call for X."""
        if isinstance(self.error, KernelError):
            return self.error
        msg = (
            f"{self.kernel!r} could not be evaluated on any data set of the search, with 1 to "
            f"{MORE_DIMENSIONS[-1]} features; one attempt ended in {type(self.error).__name__}: "
            f"{str(self.error).rstrip('.')}. Pass rows that it is defined on as X."
        )
        return InputError(msg)
