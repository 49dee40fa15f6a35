"""
How much time does memory save?
===============================

An exact fit keeps as many tiles of the kernel matrix as memory allows and computes the others again for
every product. The plan says before the fit how many it keeps, and refuses a budget that is too small. The
answer is the same for every budget.
"""

# %%
# 5000 rows of 200 columns; the kernel matrix in float64 would take 200 MB. Processor time is that of the
# better of two fits.

import time

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelPCA
from mercer.kernels import RBF

X = np.random.default_rng(0).standard_normal((5000, 200), dtype=np.float32)
X *= 0.97 ** np.arange(200, dtype=np.float32)
budgets = [35, 45, 55, 70, 100, 200]
plans, seconds, eigenvalues = [], [], []
for budget in budgets:
    model = KernelPCA(10, kernel=RBF(gamma=0.01), memory=f"{budget}MB")
    times = []
    for _ in range(2):
        start = time.process_time()
        model.fit(X)
        times.append(time.process_time() - start)
    seconds.append(min(times))
    plans.append(model.plan_)
    eigenvalues.append(model.eigenvalues_)

# %%
# Kept tiles may be rounded to 16 bits, so that all of them fit in less memory; the residuals include
# the rounding.

fig, axes = plt.subplots(1, 3, figsize=(11, 3.3), layout="constrained")
held = [100 * plan.recipe.store.n_held / plan.recipe.store.n_tiles for plan in plans]
for ax, values, label in zip(
    axes,
    (held, [plan.n_bytes / 1e6 for plan in plans], seconds),
    ("tiles of K held (%)", "planned memory (MB)", "processor seconds of a fit"),
    strict=True,
):
    ax.plot(budgets, values, "o-")
    ax.set(xscale="log", xlabel="memory that is allowed (MB)", ylabel=label, ylim=(0, None))
    ax.set(xticks=budgets, xticklabels=budgets)
    ax.minorticks_off()

# %%
print("same eigenvalues:", all(np.allclose(v, eigenvalues[-1], rtol=1e-5) for v in eigenvalues))
print(plans[0])
