"""A cluster on this machine: rows that are made on workers, a fit that never gathers them, scores on demand.

Two workers make a noisy circle in ten dimensions, chunk by chunk. Kernel PCA with landmarks passes over the
chunks where they are; its scores are a dask array, of which only the means are computed and come back. Then
the same model is fitted by one process to the same rows, and the eigenvalues are held against each other.

    python examples/cluster.py
"""

import argparse

import dask.array as da
import numpy as np
from distributed import Client

from mercer import KernelPCA
from mercer.approximations import RPCholesky
from mercer.kernels import RBF


def circle(n, *, chunk=10_000):
    """Rows on a circle, and noise in eight more columns, as a dask array."""
    random = da.random.default_rng(0)
    angle = random.uniform(0.0, 2.0 * np.pi, n, chunks=chunk)[:, None]
    noise = 0.1 * random.standard_normal((n, 10), chunks=(chunk, 10))
    flat = da.concatenate(
        [da.cos(angle), da.sin(angle), da.zeros((n, 8), chunks=(chunk, 8))], axis=1
    )
    return (flat + noise).rechunk((chunk, 10)).persist()


def main(arguments=None):
    """Fit on workers and in one process; the largest relative difference of the eigenvalues."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    asked = parser.parse_args(arguments)
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
        rows = circle(asked.rows)
        model = KernelPCA(4, kernel=RBF(1.0), approximation=RPCholesky(100), engine=client)
        model.fit(rows)
        print(model.plan_)
        scores = model.transform(rows)  # nothing is computed yet
        print("scores", scores)
        print("their means", np.abs(scores.mean(axis=0).compute()).max().round(6))
        alone = KernelPCA(4, kernel=RBF(1.0), approximation=RPCholesky(100)).fit(rows.compute())
    apart = np.abs(model.eigenvalues_ / alone.eigenvalues_ - 1.0).max()
    print(f"eigenvalues as by one process to {apart:.1e}")
    return apart


if __name__ == "__main__":
    main()
