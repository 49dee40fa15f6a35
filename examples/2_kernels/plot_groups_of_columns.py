"""
Columns of different kinds: one kernel for each?
================================================

Two columns lie on a ring (the hour of the day), twelve others follow one slow line (a load) under
noise. One Gaussian kernel for all fourteen columns mostly sees the noise of the twelve. A sum
of two kernels, a Gaussian one on the ring and a linear one on the others, sees both.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelPCA
from mercer.kernels import RBF, Linear

rng = np.random.default_rng(0)
hour = rng.uniform(0, 24, 300)
load = rng.standard_normal(300)
ring = np.column_stack([np.cos(2 * np.pi * hour / 24), np.sin(2 * np.pi * hour / 24)])
others = load[:, None] * rng.standard_normal(12) + 1.5 * rng.standard_normal((300, 12))
X = np.hstack([ring + 0.05 * rng.standard_normal((300, 2)), others])

kernels = {
    "one kernel for all columns": RBF(),
    "one for each group": RBF(gamma=2).on([0, 1]) + 0.01 * Linear().on(list(range(2, 14))),
}

# %%
# How well do four scores explain the hour and the load? R² of a linear fit on the scores.

fig, axes = plt.subplots(2, 2, figsize=(8.6, 6.4), layout="constrained")
explained = {}
for row, (name, kernel) in zip(axes, kernels.items(), strict=True):
    model = KernelPCA(4, kernel=kernel).fit(X)
    scores = model.transform(X)
    targets = {"hour": ring, "load": load[:, None]}
    for quantity, target in targets.items():
        fit = np.column_stack([scores, np.ones(300)])
        left = target - fit @ np.linalg.lstsq(fit, target, rcond=None)[0]
        explained[name, quantity] = 1 - left.var(axis=0).sum() / target.var(axis=0).sum()
    for ax, (quantity, colours, cmap) in zip(
        row, [("hour", hour, "twilight"), ("load", load, "viridis")], strict=True
    ):
        shaded = ax.scatter(*scores[:, :2].T, c=colours, cmap=cmap, s=10)
        fig.colorbar(shaded, ax=ax, label=quantity)
        ax.set_title(f"{name}: {explained[name, quantity]:.0%} of the {quantity}", fontsize=9)
        ax.set(xlabel="component 1", ylabel="component 2")
