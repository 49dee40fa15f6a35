"""
What does the width of a Gaussian kernel do?
============================================

At one extreme kernel PCA is linear PCA; at the other every point is similar only to itself, and all
eigenvalues are alike. Useful widths lie between. The median rule (dashed) is a place to start, not
the best width.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from mercer import PCA, KernelPCA, plots
from mercer.errors import FlatSpectrumWarning
from mercer.kernels import RBF

X, y = make_moons(200, noise=0.06, random_state=0)
linear = PCA(1).fit_transform(X)[:, 0]
median = KernelPCA(1, kernel=RBF()).fit(X).kernel_.gamma
gammas = np.logspace(-3, 4, 22)
first, alike, needed = [], [], []
with warnings.catch_warnings():
    warnings.simplefilter("ignore", FlatSpectrumWarning)
    for gamma in gammas:
        model = KernelPCA(n_components=None, kernel=RBF(gamma)).fit(X)
        shares = model.explained_variance_ratio_
        first.append(shares[0])
        needed.append(np.searchsorted(np.cumsum(shares), 0.95) + 1)
        alike.append(abs(np.corrcoef(model.transform(X)[:, 0], linear)[0, 1]))

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
left.semilogx(gammas, first, label="share of the first component")
left.semilogx(gammas, alike, label="its correlation with that of PCA")
right.loglog(gammas, needed, color="C2", label="components for 95 % of the variance")
for ax in (left, right):
    ax.axvline(median, color="0.5", linestyle="--", label="median rule")
    ax.set_xlabel("γ")
    ax.legend(loc="upper left" if ax is right else "lower left")

# %%
# The first component as a function over the plane.

fig, axes = plt.subplots(1, 4, figsize=(12, 2.2), layout="constrained")
for ax, gamma in zip(axes, (0.01, median, 8.0, 300.0), strict=True):
    plots.contours(KernelPCA(1, kernel=RBF(gamma)).fit(X), X, labels=y, ax=ax, resolution=80)
    ax.set_title(f"γ = {gamma:.3g}")
    ax.get_legend().remove()
