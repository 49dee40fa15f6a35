"""
Where does a point go that is not on the curve?
===============================================

A model of a noisy spiral, and a grid of points around it. Each point is projected on the components
and taken back to the plane; an arrow leads from the point to its pre-image. PCA projects all of them
on one line.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from mercer import PCA, KernelPCA
from mercer.kernels import RBF
from mercer.preimage import FixedPoint

rng = np.random.default_rng(0)
turn = np.sqrt(rng.uniform(0.03, 1, 300)) * 3 * np.pi
X = np.column_stack([turn * np.cos(turn), turn * np.sin(turn)]) / 9 + 0.03 * rng.standard_normal(
    (300, 2)
)
side = np.linspace(-1.2, 1.2, 15)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)

models = {
    "PCA, 1 component": PCA(1).fit(X),
    "kernel PCA, 12 components": KernelPCA(
        12, kernel=RBF(gamma=8), preimage=FixedPoint(max_iter=2000)
    ).fit(X),
}

# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained", sharey=True)
off = {}
for ax, (name, model) in zip(axes, models.items(), strict=True):
    target = model.reconstruct(grid)
    ax.plot(*X.T, ".", color="0.75")
    ax.quiver(
        *grid.T, *(target - grid).T, angles="xy", scale_units="xy", scale=1, width=0.003, color="C3"
    )
    ax.plot(*target.T, ".", color="C0", markersize=5)
    ax.set(title=name, aspect="equal")
    off[name] = np.median([np.linalg.norm(X - point, axis=1).min() for point in target])
    print(f"{name}: the median arrow ends {off[name]:.3f} from the nearest point of the spiral")
