"""One product with the kernel matrix, every tile made anew, against what the machine could do.

A pass makes n²/2 entries by symmetry. Each takes 2(d + 2) flops (a dot product over d features and two
columns for the norms), one exponential, and 4 flops a column of the block, since it is used on both sides
of the diagonal. Twice the time of these parts, each at the full speed of its own, is the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from benchmarks.clock import seconds_of
from benchmarks.measure import timed_fits
from benchmarks.scale.data import load, width

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.scale.case import Case, Options

COLUMNS = 32
SQUARE = 2048  # of the matrices whose product is BLAS at full speed
TILE = 256  # stays in a core's own cache, whatever the precision
WARM_UP_ROWS = 600
TILES_BYTES = 10**9
AT_LEAST_SECONDS = 1.0


def bound_seconds(
    n: int, d: int, columns: int, *, peak_flops: float, exp_seconds: float, n_threads: int
) -> float:
    """Twice the flops and exponentials of a pass, at full speed on all threads."""
    entries = n**2 / 2
    flops = entries * (2 * (d + 2) + 4 * columns)
    return 2.0 * (flops / peak_flops + entries * exp_seconds) / n_threads


def measure(
    case: Case, who: str, options: Options, *, folder: str | None, repeat: int
) -> dict[str, Any]:
    from mercer.engine.threads import n_blas_threads

    del who, options  # one operator, and nothing to choose
    x = load(case, folder)
    gamma, n_threads = width(case, x), n_blas_threads()
    speeds = {
        "peak_flops": peak_flops(case.dtype),
        "exp_seconds": exp_seconds(x, gamma),
        "n_threads": n_threads,
    }
    a_product(x[:WARM_UP_ROWS], gamma, n_threads).fit(x)
    _, times = timed_fits(lambda: a_product(x, gamma, n_threads), x, repeat)
    bound = bound_seconds(case.n, case.d, COLUMNS, **speeds)
    return {**times, **speeds, "gamma": gamma, "bound": bound, "columns": COLUMNS}


@dataclass
class Product:
    """K v in the shape of a fit, which is what the stopwatch knows."""

    gram: Any
    v: np.ndarray

    def fit(self, _x: np.ndarray) -> None:
        self.gram.matmat(self.v)


def a_product(x: np.ndarray, gamma: float, n_threads: int) -> Product:
    from mercer.engine.numpy import NumpyEngine
    from mercer.engine.tiles import fitting_width
    from mercer.kernels import RBF
    from mercer.operators import Gram

    width = fitting_width(
        len(x), itemsize=x.itemsize, budget_bytes=TILES_BYTES, n_threads=n_threads
    )
    gram = Gram(NumpyEngine(n_threads), RBF(gamma), x, width=width)
    v = np.random.default_rng(0).standard_normal((len(x), COLUMNS)).astype(x.dtype)
    return Product(gram, v)


def peak_flops(dtype: str) -> float:
    """Flops a second of one core, in a product of two large matrices."""
    a = np.random.default_rng(0).standard_normal((SQUARE, SQUARE)).astype(dtype)
    return 2.0 * SQUARE**3 / least_seconds(lambda: a @ a)


def exp_seconds(x: np.ndarray, gamma: float) -> float:
    """Seconds an exponential takes on one core, at the exponents of these points."""
    exponents = (-gamma * cdist(x[:TILE], x[-TILE:], "sqeuclidean")).astype(x.dtype)
    tile = np.empty_like(exponents)
    return least_seconds(lambda: np.exp(exponents, out=tile)) / exponents.size


def least_seconds(work: Callable[[], object]) -> float:
    """The best of several runs on one thread: what disturbs a run only ever makes it longer."""
    seconds: list[float] = []
    with threadpool_limits(1):
        work()
        while sum(seconds) < AT_LEAST_SECONDS or len(seconds) < 3:
            seconds.append(seconds_of(work))
    return min(seconds)
