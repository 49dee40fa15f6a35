"""``python -m benchmarks.cluster --help``: fits on local workers beside the simulation, and its tables."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from functools import partial

import numpy as np
from distributed import Client, LocalCluster

from benchmarks.clock import seconds_of
from benchmarks.cluster.model import BLOCK, Cluster, Machine, Network, largest
from mercer import KernelPCA
from mercer.approximations import RPCholesky
from mercer.engine.base import Rounding, TileStore
from mercer.engine.native import NativeEngine
from mercer.engine.threads import single_threaded_blas
from mercer.kernels import RBF

D, LANDMARKS, TURNS = 50, 300, 5
LOOPBACK = Network(bandwidth=1e9, latency=5e-3, task=5e-3)  # of two processes of one machine


def calibrated() -> Machine:
    """Seconds an entry on one thread of this machine."""
    rng, kernel, engine = np.random.default_rng(0), RBF(1.0 / D), NativeEngine(1)
    few, v = rng.standard_normal((4000, D)).astype(np.float32), rng.standard_normal((4000, BLOCK))
    store = TileStore(rounding=Rounding(minus=0.3))
    with single_threaded_blas():
        rows = engine.load(few, kernel, np.dtype("f8"), width=192, store=store)
        made = seconds_of(partial(engine.gram_times, kernel, rows, v))
        used = min(
            seconds_of(partial(engine.gram_times, kernel, rows, v, rough=True)) for _ in range(3)
        )
        points = few[:LANDMARKS]
        section = min(seconds_of(partial(engine.tile, kernel, few, points)) for _ in range(3))
        a = np.ones((2000, 2000), dtype=np.float32)
        flop = min(seconds_of(partial(np.matmul, a, a)) for _ in range(3)) / (2.0 * 2000**3)
    entries = 0.5 * 4000**2
    return replace(
        Machine(),
        made=made / entries,
        used=used / entries,
        flop=flop,
        section=section / (4000 * LANDMARKS),
    )


def measured(machine: Machine, counts: list[int], n: int, n_many: int) -> None:
    """Local workers of one thread each; more of them than cores share these."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, D)).astype(np.float32)
    many = rng.standard_normal((n_many, D)).astype(np.float32)
    fits = {
        f"exact, {n} x {D}": (KernelPCA(20, kernel=RBF(1.0 / D)), x),
        f"{LANDMARKS} landmarks, {n_many} x {D}": (
            KernelPCA(20, kernel=RBF(1.0 / D), approximation=RPCholesky(LANDMARKS)),
            many,
        ),
    }
    print("| fit | workers | measured | simulated | one process, as many threads |")
    print("| :-- | --: | --: | --: | --: |")
    for workers in counts:
        lanes = min(workers, os.cpu_count() or 1)
        cluster = Cluster(workers, lanes / workers, 4e9, LOOPBACK, machine)
        simulated = [cluster.exact(n, D), cluster.low_rank(n_many, D, LANDMARKS)]
        local = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
        with local, Client(local) as client:
            for (name, (model, rows)), expected in zip(fits.items(), simulated, strict=True):
                engines = (client, NativeEngine(lanes))
                pairs = [_in_turn(model, rows, engines) for _ in range(TURNS)]
                there, here = (min(times) for times in zip(*pairs, strict=True))
                print(
                    f"| {name} | {workers} | {there:.2f} s | {expected:.2f} s | {here:.2f} s |",
                    flush=True,
                )


def _in_turn(model: KernelPCA, rows: np.ndarray, engines: tuple[object, ...]) -> list[float]:
    return [seconds_of(partial(model.set_params(engine=each).fit, rows)) for each in engines]


def tables(machine: Machine) -> None:
    """What fits into an hour, and what 10⁹ rows take."""
    print(
        "\n| workers of 16 threads | exact, 10⁶ rows | exact in an hour | 10⁹ rows, 500 landmarks |"
    )
    print("| --: | --: | --: | --: |")
    for workers in (10, 100, 1000):
        cluster = Cluster(workers, machine=machine)
        most = largest(3600.0, lambda n, c=cluster: c.exact(n, 50))
        print(
            f"| {workers} | {cluster.exact(10**6, 50):.0f} s | {most:.1e} rows | "
            f"{cluster.low_rank(10**9, 50, 500):.0f} s |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Fits on local workers, and a simulation of many.")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rows", type=int, default=15_000, help="of the exact fit")
    parser.add_argument("--many", type=int, default=150_000, help="rows of the low-rank fit")
    given = parser.parse_args()
    machine = calibrated()
    print(machine)
    measured(machine, given.workers, given.rows, given.many)
    tables(machine)


if __name__ == "__main__":
    main()
