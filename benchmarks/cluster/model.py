"""A pass over a cluster, task by task: who waits for whom, and for which bytes.

Nothing is fitted to measurements: seconds an entry are timed on one thread, bandwidth and latency are stated,
and the order of events is that of `mercer.engine.dask`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mercer.engine.dask.work import MANY_WORKERS

FLOAT, SINGLE = 8, 4
BLOCK = 33  # columns of a product: those of a block, and the mean
PRODUCTS = 6  # of a usual exact fit; the first makes the tiles
PASSES = 3  # over the rows, of a low-rank fit


@dataclass(frozen=True)
class Network:
    """Between any two machines, and what the scheduler takes for a task."""

    bandwidth: float = 1.25e9  # bytes a second: 10 Gb/s
    latency: float = 2e-4
    task: float = 1e-3

    def seconds(self, n_bytes: float) -> float:
        return self.latency + n_bytes / self.bandwidth


@dataclass(frozen=True)
class Machine:
    """One thread of a worker, and the client."""

    made: float = 8e-9  # seconds an entry of K: a tile made, rounded and used on both sides
    used: float = 1.9e-9  # the same of a tile that is kept
    anew: float = 5e-9  # of one that there is no room for, in float32
    flop: float = 1e-11  # of products with sections, in float32
    section: float = 3e-9  # a kernel value against a landmark
    vectors: float = (
        3e-8  # the client: a number of a block, orthogonalised against its basis, a product
    )
    add: float = 4e-10  # a number of two sums


@dataclass(frozen=True)
class Cluster:
    """So many workers of so many threads."""

    workers: int
    threads: int = 16
    memory: float = 64e9  # bytes, of a worker
    network: Network = Network()
    machine: Machine = Machine()

    # ── events ──────────────────────────────────────────────────────────────
    def arrivals(self, n_bytes: float) -> np.ndarray:
        """When each worker has what the client sends to all of them."""
        one, w = self.network.seconds(n_bytes), self.workers
        if w >= MANY_WORKERS:  # handed on: those that have it double
            return one * (1 + np.ceil(np.log2(np.arange(w) + 1)))
        return one * (1 + np.arange(w))  # one after the other, from the first

    def started(self, ready: np.ndarray) -> np.ndarray:
        """When tasks begin, which the scheduler hands out in turn."""
        return np.maximum(ready, self.network.task * (1 + np.arange(self.workers)))

    def merged(self, done: np.ndarray, n_bytes: float, seconds: float) -> float:
        """When the client has the sum of all parts, each of so many bytes; two are added in `seconds`."""
        step = self.network.task + self.network.seconds(n_bytes) + seconds
        parts = list(done)
        while len(parts) > 1:
            pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
            parts = [max(pair) + step if len(pair) > 1 else pair[0] for pair in pairs]
        return parts[0] + self.network.seconds(n_bytes)

    # ── fits ────────────────────────────────────────────────────────────────
    def product(self, n: int, an_entry: float) -> float:
        """Seconds of one product with K."""
        compute = 0.5 * n * n * an_entry / (self.workers * self.threads)
        done = self.started(self.arrivals(SINGLE * n * BLOCK)) + compute
        return self.merged(done, FLOAT * n * BLOCK, self.machine.add * n * BLOCK)

    def exact(self, n: int, d: int) -> float:
        """Seconds of an exact fit: rows to all, the first product, the others, the client between them."""
        machine = self.machine
        room = 0.5 * self.memory * self.workers  # tiles in float32, half of K
        kept = min(1.0, room / (2.0 * n * n))
        again = kept * machine.used + (1.0 - kept) * machine.anew
        rows = float(self.arrivals(SINGLE * n * d)[-1])
        products = self.product(n, machine.made) + (PRODUCTS - 1) * self.product(n, again)
        return rows + products + PRODUCTS * machine.vectors * n * BLOCK

    def low_rank(self, n: int, d: int, m: int) -> float:
        """Seconds of a fit with m landmarks, of rows that are on the workers."""
        machine = self.machine
        a_row = m * (machine.section * max(1.0, d / 50) + m * machine.flop)
        done = self.started(self.arrivals(FLOAT * m * (m + d))) + n * a_row / (
            self.workers * self.threads
        )
        a_pass = self.merged(done, FLOAT * m * m, machine.add * m * m)
        return (
            PASSES * a_pass + 30.0 * m**3 * machine.flop + 2e-8 * n
        )  # small problems, draws of candidates


def largest(seconds: float, cost: object) -> int:
    """The largest n whose cost is within so many seconds, to a tenth of an order."""
    low, high = 3.0, 13.0
    while high - low > 0.01:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cost(int(10**middle)) <= seconds else (low, middle)  # type: ignore[operator]
    return int(10 ** (math.floor(10 * low) / 10))
