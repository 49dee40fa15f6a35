"""How long will it take? A few tiles are made and timed, and the arithmetic of the plan does the rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mercer._core.types import Array, Indices, Rows
from mercer.data.rows import take_rows
from mercer.engine.base import Engine, TileStore
from mercer.engine.threads import lanes, single_threaded_blas
from mercer.engine.tiles import CACHE_BYTES, cached_width
from mercer.kernels.base import Kernel
from mercer.operators import Centred, StoredGram
from mercer.planning.problem import spread_over
from mercer.planning.recipe import HOST, Halved, Plan, Tiles
from mercer.solvers import BlockKrylov, Lanczos

# Timing goes on until a quarter of a second is spent on each of at most four questions.
SPENT = 0.25
PASSES = 4  # over the rows, to choose landmarks in a few rounds and to take the moments
SLOW_ROWS = 24  # of a user's function, which may take a millisecond for a pair
HALVED_ROWS = 2**15  # enough to keep a device busy
# Rows on which products are counted where the basis is short, as it is for so many times its columns.
SAMPLE_ROWS, SAMPLE_BASES = 1000, 3
PROOFS = 1  # products with the operator itself after rough ones


def forecast(plan: Plan, kernel: Kernel, x: Rows, k: int, engine: Engine[Any]) -> Plan:
    """The plan with the products and seconds to expect, from about one second of calibration."""
    # Timed on one thread, as far as it is threads that the engine is made of.
    with single_threaded_blas(), lanes(1):
        if plan.route == "low-rank":
            n_products, seconds = _low_rank(plan, kernel, x, engine)
        elif plan.route == "primal":
            n_products, seconds = 1, _primal(kernel, x)
        elif isinstance(plan.solver, BlockKrylov | Lanczos):
            n_products, seconds = _krylov(plan, kernel, x, k, engine)
        else:
            n_products, seconds = 1, _lapack(kernel, x, engine)
    return replace(plan, n_products=n_products, seconds=seconds)


def _speedup(plan: Plan, engine: Engine[Any]) -> float:
    """How many times as wide the plan runs as what was timed."""
    facts = engine.facts()
    wide = plan.n_threads if facts.workers is None else facts.workers.lanes
    return max(1.0, wide / facts.lanes)


def _krylov(plan: Plan, kernel: Kernel, x: Rows, k: int, engine: Engine[Any]) -> tuple[int, float]:
    solver, n = plan.solver, int(x.shape[0])
    assert isinstance(solver, BlockKrylov | Lanczos)
    columns = solver.width(k, n)
    if plan.approximation is None:
        n_products, proofs = _products(solver, kernel, x, k), PROOFS
    else:  # exact passes over float64 tiles, and no more of them
        n_products, proofs = plan.approximation.refine, 0
    if kernel.is_precomputed:
        return n_products, n_products * 2.0 * n * n * columns * _second_a_flop(x.dtype)
    recipe = plan.recipe
    assert recipe is not None  # of a dual problem
    if isinstance(recipe, Halved):
        rough, proof = _halved_seconds(recipe, kernel, x, columns, engine)
        return n_products + PROOFS, float(n) ** 2 * (n_products * rough + PROOFS * proof)
    proved = recipe.proof is not None
    made, used = _tile_seconds(kernel, x, recipe.dtype, columns, engine)
    first = made + used
    again = used + (1.0 - recipe.share) * made
    proof = sum(_tile_seconds(kernel, x, "f8", columns, engine)) if proved else again
    if proved and recipe.share >= 1.0:  # the first product makes all tiles, and is the exact one
        first, proofs = proof, 0
    entries = 0.5 * n * n / _speedup(plan, engine)
    seconds = entries * (first + (n_products - 1) * again)
    basis = 8.0 * n * columns * solver.room(k, n) * n_products * _second_a_flop(np.dtype("f8"))
    return n_products + proofs, seconds + proofs * entries * proof + basis


def _products(solver: BlockKrylov | Lanczos, kernel: Kernel, x: Rows, k: int) -> int:
    """Products to expect before the proof: of a typical run, or counted where the basis is short."""
    n = int(x.shape[0])
    usual = solver.products(k, n)
    if not isinstance(solver, BlockKrylov) or solver.lapack or not kernel.parallel:
        return usual
    # Each restart throws directions away, and by how much that delays convergence depends on the gaps of the
    # spectrum: in the same basis of k + 10 columns five components took 9 products of clusters and 49 of
    # Gaussian noise, so no formula in n and k is right within a factor of two. But the eigenvalues of K/n are
    # nearly those of a sample, and the same solver runs on a sample in some 20 ms.
    room, whole = solver.room(k, n), replace(solver, block=None, max_basis=None).room(k, n)
    if room >= whole or SAMPLE_BASES * room > min(n, SAMPLE_ROWS):
        return usual
    with np.errstate(over="ignore", invalid="ignore"):  # a fit would say so in words
        matrix = _among(kernel, x, spread_over(n, SAMPLE_ROWS))
    if not np.isfinite(matrix).all():
        return usual
    operator = Centred(StoredGram(matrix.astype(np.float64), 1))
    return max(1, solver(operator, k, rng=np.random.default_rng(0)).n_products - PROOFS)


def _among(kernel: Kernel, x: Rows, some: Indices) -> Array:
    """K among some of the rows."""
    if kernel.is_precomputed:
        return np.asarray(x)[np.ix_(some, some)]
    rows = take_rows(x, some)
    return kernel.tile(rows, rows)


def _tile_seconds(
    kernel: Kernel, x: Rows, dtype: str, columns: int, engine: Engine[Any]
) -> tuple[float, float]:
    """Seconds an entry: to make a tile, and to use it on both sides."""
    most = SLOW_ROWS
    if kernel.parallel:  # as wide as a device likes them: it takes microseconds to start on any
        cache = max(CACHE_BYTES, engine.facts().cache_bytes)
        most = cached_width(np.dtype(dtype).itemsize, int(x.shape[1]), cache_bytes=cache)
    width = max(1, min(int(x.shape[0]) // 2, most))
    few = take_rows(x, spread_over(int(x.shape[0]), 2 * width))
    v = np.ones((int(few.shape[0]), columns), dtype=dtype)
    own: dict[str, Any] = {"kernel": kernel, "dtype": np.dtype(dtype), "width": width}
    kept, rows = engine.load(few, store=TileStore(keep_bytes=2**62), **own), engine.load(few, **own)
    engine.gram_times(kernel, kept, v)  # from the second time on kept tiles are only used
    used = least_seconds(lambda: engine.gram_times(kernel, kept, v))
    both = least_seconds(lambda: engine.gram_times(kernel, rows, v))
    # Of two rows of tiles three tiles are made, and four products use them.
    return max(both - used, 0.0) / (3 * width**2), used / (2 * width**2)


def _halved_seconds(
    recipe: Halved, kernel: Kernel, x: Rows, columns: int, engine: Engine[Any]
) -> tuple[float, float]:
    """Seconds an entry of products of half floats: rough ones, and those that prove."""
    some = spread_over(int(x.shape[0]), HALVED_ROWS)
    gram = recipe.gram(engine, kernel, take_rows(x, some), 1)
    v = gram.placed(np.ones((gram.n, columns)))
    assert gram.rough is not None
    for each in (gram.rough, gram):
        each.matmat(v)  # compiles
    rough, proof = (least_seconds(partial(each.matmat, v)) for each in (gram.rough, gram))
    return rough / gram.n**2, proof / gram.n**2


def _second_a_flop(dtype: np.dtype[np.generic]) -> float:
    a = np.ones((512, 512), dtype=dtype)
    return least_seconds(lambda: a @ a) / (2.0 * 512**3)


def _lapack(kernel: Kernel, x: Rows, engine: Engine[Any]) -> float:
    """LAPACK's time grows with n³, from what a small problem takes, and K has to be made."""
    n, small = int(x.shape[0]), min(int(x.shape[0]), 300 if kernel.parallel else SLOW_ROWS)
    matrix, made = _among(kernel, x, np.arange(small)), 0.0
    if not kernel.is_precomputed:
        made, _ = _tile_seconds(kernel, x, x.dtype.str, 1, engine)
    return least_seconds(lambda: np.linalg.eigh(matrix)) * (n / small) ** 3 + 0.5 * n * n * made


def _primal(kernel: Kernel, x: Rows) -> float:
    n, m = int(x.shape[0]), kernel.map_dimension(int(x.shape[1])) or int(x.shape[1])
    return (2.0 * n * m * m + 10.0 * m**3) * _second_a_flop(np.dtype(x.dtype))


def _low_rank(plan: Plan, kernel: Kernel, x: Rows, engine: Engine[Any]) -> tuple[int, float]:
    """Passes over the rows: those that choose, and the one that takes the moments of the features."""
    n = int(x.shape[0])
    assert plan.approximation is not None  # the route says so
    m = plan.approximation.width(n)
    made, _ = _tile_seconds(kernel, x, x.dtype.str, 1, engine)
    flop = _second_a_flop(np.dtype(x.dtype))
    work = n * m * (made + 2.0 * m * flop) * PASSES + 2.0 * n * m * m * flop
    return PASSES, work / _speedup(plan, engine) + 10.0 * m**3 * flop


def least_seconds(work: Callable[[], object], spent: float = SPENT) -> float:
    """The least of several runs: what disturbs a run only ever makes it longer."""
    started, least = time.perf_counter(), np.inf
    while True:
        begun = time.perf_counter()
        work()
        ended = time.perf_counter()
        least = min(least, ended - begun)
        if ended - started > spent:
            return least


# ── can a GPU pay that was not asked for? Arithmetic alone: a short fit never waits for torch ──
# A process pays it once: importing torch takes some 3 s, the context of a device 1 s, compiling a pass 10 s.
START_SECONDS = 15.0
# What a core does in a second, from one of a full machine in float64 to one alone in float32: 2 to 10 · 10¹⁰.
CORE_FLOPS = 5e10
FORMULA_FLOPS = 30.0  # of an entry, once its product of rows is there: an exponential, say
# A device is taken where its forecast is this part of the processor's: it leaves out what the host does.
PAYING_SHARE = 0.5


def work(plan: Plan, n: int, d: int, k: int) -> float:
    """Floating-point operations of an exact fit that iterates over tiles; 0 for any other."""
    if not isinstance(plan.solver, BlockKrylov | Lanczos) or not isinstance(plan.recipe, Tiles):
        return 0.0
    products, columns = plan.solver.products(k, n), plan.solver.width(k, n)
    # A product uses every entry, and makes those of one side of the diagonal of which no tile is held.
    made = 1.0 + (products - 1.0) * (1.0 - plan.recipe.share)
    return float(n) ** 2 * (made * (d + 0.5 * FORMULA_FLOPS) + products * 2.0 * columns)


def may_pay(plan: Plan, n: int, d: int, k: int) -> bool:
    """Whether the processor would take longer for this fit than a device takes to start."""
    if plan.approximation is not None or plan.engine not in HOST:
        return False
    return work(plan, n, d, k) > START_SECONDS * CORE_FLOPS * plan.n_threads
