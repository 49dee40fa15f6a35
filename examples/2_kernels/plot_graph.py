"""
What does kernel PCA make of a network?
=======================================

The points are the nodes of a graph. The heat kernel exp(-tL), with L the graph's Laplacian, says
how much heat flows from one node to another in the time t: nodes joined by many short paths are
similar. Kernel PCA of it draws the network and separates its communities.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import expm

from mercer import KernelPCA

rng = np.random.default_rng(3)
community = np.repeat([0, 1, 2], 20)
chance = np.where(community[:, None] == community[None], 0.3, 0.015)
edges = np.triu(rng.random((60, 60)) < chance, k=1)
for node in range(1, 60):  # no node is alone
    edges[node - 1, node] |= community[node - 1] == community[node]
adjacency = (edges | edges.T).astype(float)
laplacian = np.diag(adjacency.sum(axis=1)) - adjacency
print(f"60 nodes, {edges.sum()} edges")

# %%
# All heat kernels of a graph have the same eigenvectors, those of L. The time decides how many of
# them count: a short time shows single nodes, a longer one communities, and an even longer one
# only the whole.

fig, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
angle = 2 * np.pi * rng.permutation(60) / 60
model = KernelPCA(2, kernel="precomputed").fit(expm(-1.0 * laplacian))
places = {
    "on a circle, in random order": np.column_stack([np.cos(angle), np.sin(angle)]),
    "kernel PCA": model.transform(expm(-1.0 * laplacian)),
}
for ax, (title, place) in zip(axes, places.items(), strict=False):
    for i, j in np.argwhere(edges):
        ax.plot(*place[[i, j]].T, color="0.85", linewidth=0.7, zorder=1)
    ax.scatter(*place.T, c=community, cmap="viridis", s=30, zorder=2)
    ax.set(title=title, xticks=[], yticks=[])
for time in (0.1, 0.5, 1.0, 3.0):
    shares = (
        KernelPCA(10, kernel="precomputed").fit(expm(-time * laplacian)).explained_variance_ratio_
    )
    axes[2].plot(
        np.arange(1, 11), 100 * np.cumsum(shares), "o-", markersize=4, label=f"t = {time:g}"
    )
axes[2].set(
    xlabel="components", ylabel="cumulative share (%)", ylim=(0, 104), title="the time decides"
)
axes[2].legend()
