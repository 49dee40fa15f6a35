"""
A ring in space, with a ball in its middle: what does PCA see?
==============================================================

The ring has one degree of freedom and lies in a tilted plane. PCA finds the plane, which is a good
start, but there the ring is still a ring, and no line separates it from the ball. In the first
components of kernel PCA a line does.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from mercer import PCA, KernelPCA
from mercer.kernels import RBF

rng = np.random.default_rng(0)
angle = rng.uniform(0, 2 * np.pi, 200)
ring = np.column_stack([np.cos(angle), np.sin(angle), 0.4 * np.cos(angle)])
X = np.vstack([ring + 0.03 * rng.standard_normal((200, 3)), 0.15 * rng.standard_normal((200, 3))])
on_ring = np.arange(400) < 200

pca = PCA(2).fit(X)
model = KernelPCA(3, kernel=RBF(gamma=2)).fit(X)
views = {"PCA": pca.transform(X), "kernel PCA": model.transform(X)[:, [0, 2]]}

# %%
fig = plt.figure(figsize=(10.5, 3.6), layout="constrained")
space = fig.add_subplot(1, 3, 1, projection="3d")
for rows, colour in [(on_ring, "C0"), (~on_ring, "C1")]:
    space.plot(*X[rows].T, "o", color=colour, markersize=3)
space.set(title="data", aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1], zticks=[-0.4, 0, 0.4])
accuracies = {}
for place, (name, scores) in enumerate(views.items(), start=2):
    ax = fig.add_subplot(1, 3, place)
    for rows, colour in [(on_ring, "C0"), (~on_ring, "C1")]:
        ax.plot(*scores[rows].T, "o", color=colour, markersize=3)
    line = LogisticRegression(C=1e6, max_iter=10_000).fit(scores, on_ring)
    accuracies[name] = line.score(scores, on_ring)
    ax.set(title=f"{name}: a line is right for {accuracies[name]:.0%}", xlabel="component 1")
    ax.set_ylabel("component 2" if name == "PCA" else "component 3")

# %%
# PCA's third variance is nearly zero, since the ring lies in a plane; the first two do not show
# the hole.

print("PCA, shares of the variance:       ", PCA(3).fit(X).explained_variance_ratio_.round(3))
print("kernel PCA, shares of the variance:", model.explained_variance_ratio_.round(3))
