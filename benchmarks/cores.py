"""All cores of a machine, against scikit-learn on the same ones: ``python -m benchmarks.cores --help``.

    python -m benchmarks.cores fits lowrank kernels      # in turns in one process: medians and ratios
    python -m benchmarks.cores threads                   # the same fit on 1, 2, 4, … of the cores
    python -m benchmarks.cores past                      # 100 000 rows within 1 GB
    python -m benchmarks.cores passes                    # a pass over tiles, against its bound

RBF of the median width, d = 50, k = 20, float64, standard normal rows, unless a line says otherwise.
Residuals are those of `accuracy.py`, mercer's and then scikit-learn's; of other kernels than RBF, and past
memory, what mercer itself tells.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.accuracy import eigen_accuracy, rbf_tile
from benchmarks.case import Case
from benchmarks.clock import in_turns, seconds_of
from benchmarks.competitors import KERNEL_PCA, MERCER
from benchmarks.data import SEED, gaussian, kernel_gamma, load
from benchmarks.machine import core_count, facts

if TYPE_CHECKING:
    from collections.abc import Callable

ARPACK = "sklearn arpack"
ROWS = (2000, 3000, 5000, 10_000, 20_000)
LEAST, MOST = 3, 15  # turns of a line
QUIET = 0.1  # seconds before each run: threads of a BLAS go on spinning for some 30 ms, on everybody's cores
LONG = 3.0  # times its seconds: what is that slow has fewer turns than the least


def medians_of(
    jobs: dict[str, Callable[[], Any]], seconds: float
) -> tuple[dict[str, float], dict[str, Any]]:
    """Medians of each side, run by run, and the first answers."""
    answers = {who: job() for who, job in jobs.items()}  # and its code is loaded

    def more(turns: int, spent: float) -> bool:
        room = seconds if turns >= LEAST else LONG * seconds
        return turns == 0 or (turns < MOST and spent <= room)

    times = in_turns(jobs, more, pause=QUIET)
    return {who: statistics.median(spent) for who, spent in times.items()}, answers


def row(name: str, medians: dict[str, float], remark: str) -> None:
    own = medians[MERCER]
    fastest = min((who for who in medians if who != MERCER), key=medians.__getitem__, default=None)
    theirs = (
        "- | - | -"
        if fastest is None
        else (f"{medians[fastest]:.3f} | {fastest} | {medians[fastest] / own:.2f}")
    )
    click.echo(f"| {name} | {own:.3f} | {theirs} | {remark} |")


def _fit(make: Callable[[], Any], x: Any) -> Any:
    return make().fit(x)


# ── one process, in turns ───────────────────────────────────────────────────
def fits(seconds: float, words: tuple[str, ...] = ()) -> None:
    """Exact fits; ARPACK is scikit-learn's fastest solver that is right, but where k = 100."""
    cases = [Case("rbf", "gaussian", n, 50, 20) for n in ROWS]
    cases += [Case("rbf", "decaying", n, 50, 20) for n in (5000, 10_000)]
    cases += [Case("rbf", "gaussian", 5000, 50, 100), Case("rbf", "gaussian", 5000, 784, 20)]
    for case in cases:
        if words and not any(word in case.name for word in words):
            continue
        x = load(case)
        gamma = kernel_gamma(case, x)
        sides = (MERCER, ARPACK, "sklearn dense") if case.k == 100 else (MERCER, ARPACK)
        jobs = {who: partial(_fit, partial(KERNEL_PCA[who], case, gamma), x) for who in sides}
        medians, answers = medians_of(jobs, seconds)
        told = [
            eigen_accuracy(rbf_tile(gamma), x, model.eigenvalues_, model.eigenvectors_).residual
            for model in answers.values()
        ]
        row(case.name, medians, ", ".join(f"{each:.0e}" for each in told))


def lowrank(seconds: float) -> None:
    """500 landmarks, beside what a user of scikit-learn would write."""
    from sklearn.decomposition import PCA
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline

    from mercer import KernelPCA
    from mercer.approximations import Nystrom, RPCholesky
    from mercer.kernels import RBF

    for n, dtype in ((50_000, np.float64), (300_000, np.float32)):
        x = gaussian(n, 20, np.random.default_rng(SEED)).astype(dtype)
        gamma = 1.0 / 40.0  # of the median width: squared distances are about 2d

        def theirs(gamma: float = gamma) -> Any:
            return make_pipeline(Nystroem(gamma=gamma, n_components=500, random_state=0), PCA(20))

        for method in (Nystrom, RPCholesky):
            own = partial(
                KernelPCA, 20, kernel=RBF(gamma), approximation=method(500), random_state=0
            )
            jobs = {MERCER: partial(_fit, own, x), "Nystroem, PCA": partial(_fit, theirs, x)}
            medians, answers = medians_of(jobs, seconds)
            left = answers[MERCER].fit_.certificate
            row(f"{method.__name__}(500), {n} x 20 {np.dtype(dtype).name}", medians, str(left))


def kernels(seconds: float) -> None:
    """Other kernels than RBF; scikit-learn gets the matrices of those its KernelPCA does not know."""
    from sklearn.decomposition import KernelPCA as Theirs
    from sklearn.gaussian_process import kernels as gp
    from sklearn.metrics.pairwise import laplacian_kernel

    from mercer import KernelPCA
    from mercer.kernels import RBF, Laplacian, Matern, Polynomial

    n, d = 5000, 50
    x = load(Case("rbf", "gaussian", n, d, 20))
    width = float(np.sqrt(2.0 * d))
    arpack = partial(Theirs, 20, eigen_solver="arpack", random_state=0)

    def made_first(kernel: Any) -> Any:
        return arpack(kernel="precomputed").fit(kernel(x))

    sides = {
        "polynomial of degree 3": (
            Polynomial(3, gamma=1.0 / d, coef0=1.0),
            partial(_fit, partial(arpack, kernel="poly", gamma=1.0 / d, coef0=1.0), x),
        ),
        "Laplacian": (
            Laplacian(0.5 / d),
            partial(made_first, partial(laplacian_kernel, gamma=0.5 / d)),
        ),
        "Matern(1.5)": (Matern(1.5, width), partial(made_first, gp.Matern(width, nu=1.5))),
        "sum of two RBF": (
            RBF(0.5 / width**2) + RBF(2.0 / width**2),
            partial(made_first, gp.RBF(width) + gp.RBF(width / 2.0)),
        ),
    }
    for name, (kernel, theirs) in sides.items():
        own = partial(_fit, partial(KernelPCA, 20, kernel=kernel, random_state=0), x)
        medians, answers = medians_of({MERCER: own, ARPACK: theirs}, seconds)
        gap = np.max(np.abs(answers[MERCER].eigenvalues_ / answers[ARPACK].eigenvalues_ - 1.0))
        told = np.max(answers[MERCER].fit_.pairs.residuals)
        row(f"{name}, {n} x {d}", medians, f"{told:.0e} told, eigenvalues apart by {gap:.0e}")


def past(seconds: float) -> None:
    """A matrix of 40 GB within 1 GB."""
    from mercer import KernelPCA
    from mercer.kernels import RBF

    x = gaussian(100_000, 50, np.random.default_rng(SEED)).astype(np.float32)
    jobs = {
        MERCER: partial(
            _fit, partial(KernelPCA, 20, kernel=RBF(0.01), memory="1GB", random_state=0), x
        )
    }
    medians, answers = medians_of(jobs, seconds)
    pairs, plan = answers[MERCER].fit_.pairs, answers[MERCER].plan_
    row(
        "100000 x 50 float32, 1 GB",
        medians,
        f"{np.max(pairs.residuals):.0e} told, {pairs.n_products} products, plan {plan.n_bytes / 1e9:.2f} GB",
    )


def passes(seconds: float) -> None:
    """Passes over k(X, X), against their parts at the speed that each has alone on all cores.

    n²/2 entries by symmetry, each with 2d flops for its distance, one exponential and 4 flops a column, at
    the speed of BLAS in a product of large matrices and of the cheapest exponential in cache; of kept tiles
    4 bytes an entry at the speed of reading. Nothing overlaps in the bound, as it does in a pass.
    """
    from mercer.engine.base import Rounding, TileStore
    from mercer.engine.resolve import resolve_engine
    from mercer.kernels import RBF
    from mercer.operators import Gram

    d, columns = 50, 32
    for n, dtype in itertools.product((10_000, 20_000), ("float64", "float32")):
        x = gaussian(n, d, np.random.default_rng(SEED)).astype(dtype)
        v = np.random.default_rng(0).standard_normal((n, columns)).astype(dtype)
        flops, exps, reads = machine_speeds(dtype)
        entries = n**2 / 2
        thin = entries * 4 * columns / flops
        gram = Gram(resolve_engine("auto"), RBF(0.5 / d), x)
        kept = Gram(gram.engine, gram.kernel, x, TileStore(rounding=Rounding()))
        kept.matmat(v)
        assert kept.rough is not None
        jobs = {
            "made anew": partial(gram.matmat, v),
            "kept as float32": partial(kept.rough.matmat, v),
        }
        bounds = {
            "made anew": entries * 2 * d / flops + thin + entries / exps,
            "kept as float32": max(thin if dtype == "float32" else thin / 2, 4 * entries / reads),
        }
        medians, _ = medians_of(jobs, seconds)
        for what, took in medians.items():
            click.echo(
                f"| {n} x {d} {dtype}, {columns} columns, {what} | {1e3 * took:.1f} ms | "
                f"bound {1e3 * bounds[what]:.1f} ms | {took / bounds[what]:.2f} | "
                f"{flops / 1e9:.0f} GFLOP/s, {1e9 / exps:.3f} ns an exponential, {reads / 1e9:.0f} GB/s |"
            )


def machine_speeds(dtype: str) -> tuple[float, float, float]:
    """Flops, exponentials and bytes read a second, by all cores."""
    rng, lanes = np.random.default_rng(0), core_count()
    square = rng.standard_normal((4096, 4096)).astype(dtype)
    flops = 2.0 * len(square) ** 3 / best(lambda: square @ square)
    exponents = [-rng.random(16_384).astype(dtype) for _ in range(lanes)]  # in a core's own cache
    places, rounds = [np.empty_like(each) for each in exponents], 400
    long = [np.ones(2**22) for _ in range(lanes)]

    def exp(i: int) -> None:
        for _ in range(rounds):
            np.exp(exponents[i], out=places[i])

    with ThreadPoolExecutor(lanes) as pool, threadpool_limits(1):
        exps = lanes * rounds * 16_384 / best(lambda: list(pool.map(exp, range(lanes))))
        reads = 8.0 * lanes * 2**22 / best(lambda: list(pool.map(np.sum, long)))
    return flops, exps, reads


def best(work: Callable[[], Any], runs: int = 7) -> float:
    return min(seconds_of(work) for _ in range(runs))


# ── a process for each number of cores ──────────────────────────────────────
def threads(_seconds: float) -> None:
    """The same fit on 1, 2, 4, … cores, one thread of each physical core first; best of five."""
    counts = [2**i for i in range(10) if 2**i <= core_count()]
    for n in (2000, 5000, 10_000, 20_000):
        took = []
        for count in counts:
            pinned = partial(os.sched_setaffinity, 0, _cpus()[:count])
            command = [sys.executable, "-m", "benchmarks.cores", "one", "--rows", str(n)]
            done = (
                subprocess.run(  # BLAS counts the cores when it is loaded: a process for each count
                    command, preexec_fn=pinned, capture_output=True, text=True, check=True
                )
            )
            took.append(json.loads(done.stdout))
        click.echo(
            f"| {n} rows on {', '.join(map(str, counts))} cores | {' | '.join(f'{t:.3f}' for t in took)} |"
        )


def _cpus() -> list[int]:
    """Those of this process, the first thread of each physical core before the second ones."""

    def key(cpu: int) -> tuple[int, int]:
        told = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            siblings = told.read_text().strip().replace("-", ",").split(",")
        except OSError:
            return 0, cpu
        return int(int(siblings[0]) != cpu), cpu

    return sorted(os.sched_getaffinity(0), key=key)


def one(n: int) -> None:
    case = Case("rbf", "gaussian", n, 50, 20)
    x = load(case)
    make = partial(KERNEL_PCA[MERCER], case, kernel_gamma(case, x))
    make().fit(x)
    click.echo(json.dumps(best(lambda: make().fit(x), runs=5)))


PARTS = {
    "fits": fits,
    "lowrank": lowrank,
    "kernels": kernels,
    "past": past,
    "passes": passes,
    "threads": threads,
}
HEADS = {
    "passes": "mercer | bound | over it | of which",
    "threads": " s | ".join(str(2**i) for i in range(10) if 2**i <= core_count()) + " s",
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("parts", nargs=-1, required=True, type=click.Choice([*PARTS, "one"]))
@click.option("--seconds", default=8.0, show_default=True, help="For each line.")
@click.option("--case", "words", multiple=True, help="Only fits whose names have one of these.")
@click.option("--rows", default=5000, hidden=True)
def main(*, parts: tuple[str, ...], seconds: float, words: tuple[str, ...], rows: int) -> None:
    """Seconds of mercer and scikit-learn; a ratio above 1 says that mercer is faster."""
    warnings.simplefilter("ignore")
    if parts == ("one",):
        one(rows)
        return
    machine = facts(Path(__file__).parents[1])
    click.echo(
        f"{machine['cpu']}, {machine['cores']} cores, {machine['commit']}; {'; '.join(machine['blas'])}"
    )
    for part in parts:
        heads = HEADS.get(part, "mercer s | scikit-learn s | which | ratio | residuals")
        click.echo(f"\n| {part} | {heads} |\n|{' :-- |' * (2 + heads.count('|'))}")
        PARTS[part](seconds, **({"words": words} if part == "fits" else {}))


if __name__ == "__main__":
    main()
