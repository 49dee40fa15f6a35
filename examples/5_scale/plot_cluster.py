"""
Does a cluster find what one process finds?
===========================================

Two workers make a noisy circle in ten dimensions, chunk by chunk. Kernel PCA with landmarks passes
over the chunks where they are; its scores are a dask array, of which only a part is fetched. Then
one process fits the same model to the same rows. Here the workers are threads of this process; with
``Client("scheduler:8786")`` they are those of a cluster.
"""

# %%
import importlib.util

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelPCA
from mercer.approximations import RPCholesky
from mercer.kernels import RBF

if importlib.util.find_spec("distributed") is None:
    msg = 'This example needs dask: pip install "mercer[dask]".'
    raise SystemExit(msg)

import dask.array as da
from distributed import Client

random = da.random.default_rng(0)
angle = random.uniform(0.0, 2.0 * np.pi, 20_000, chunks=5_000)[:, None]
flat = da.concatenate(
    [da.cos(angle), da.sin(angle), da.zeros((20_000, 8), chunks=(5_000, 8))], axis=1
)
rows = (flat + 0.1 * random.standard_normal((20_000, 10), chunks=(5_000, 10))).rechunk((5_000, 10))

# %%
settings = {"kernel": RBF(1.0), "approximation": RPCholesky(100)}
with Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as client:
    rows = rows.persist()
    model = KernelPCA(4, engine=client, **settings).fit(rows)
    lazy = model.transform(rows)  # nothing is computed yet
    scores = lazy[:2000].compute()
    alone = KernelPCA(4, **settings).fit(rows.compute())
print(model.plan_)
apart = float(np.abs(model.eigenvalues_ / alone.eigenvalues_ - 1.0).max())
print("eigenvalues as by one process:", apart < 1e-10)

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot(*scores[:, :2].T, ".", markersize=2)
left.set(xlabel="component 1", ylabel="component 2", title="2000 of 20 000 scores", aspect="equal")
width = 0.38
right.bar(np.arange(1, 5) - width / 2, model.eigenvalues_, width, label="two workers")
right.bar(np.arange(1, 5) + width / 2, alone.eigenvalues_, width, label="one process")
right.set(xlabel="component", ylabel="eigenvalue", xticks=range(1, 5))
right.legend()
