"""
Two moons: is one number per point enough?
==========================================

Two half circles interlock. A line gets 88 % of the fifty points right. With a Gaussian kernel
a single number per point, the first score, is enough for all of them.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression

from mercer import PCA, KernelPCA, plots
from mercer.kernels import RBF

X, y = make_moons(50, random_state=0)
labels = np.where(y == 0, "upper moon", "lower moon")

linear = PCA(n_components=2).fit_transform(X)
model = KernelPCA(n_components=10, kernel=RBF(gamma=15), preimage="ridge").fit(X)
scores = model.transform(X)
returned = model.inverse_transform(scores)

titles = ("data", "PCA", "kernel PCA, RBF γ = 15", "back from 10 components")
fig = plt.figure(figsize=(7.6, 6.4), layout="constrained")
plots.panels(X, linear, scores[:, :2], returned, labels, titles=titles, fig=fig)

# %%
# The first score of every point, one row per moon: they do not overlap, and there is a gap
# around zero.

fig, ax = plt.subplots(figsize=(6.4, 2.2), layout="constrained")
plots.scores(model, X, labels, components=(0,), ax=ax, title="the first score alone")

# %%
accuracies = {
    name: LogisticRegression(C=1e6, max_iter=10_000).fit(Z, labels).score(Z, labels)
    for name, Z in {
        "both coordinates": X,
        "first score of PCA": linear[:, :1],
        "first score of kernel PCA": scores[:, :1],
    }.items()
}
for name, share in accuracies.items():
    print(f"{name:26}{share:.0%}")
