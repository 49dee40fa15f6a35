"""
Where does normal end?
======================

The squared distance of an image from the kept components is a measure of novelty (Hoffmann 2007).
Its level sets follow data of any shape; those of PCA are straight bands. Points outside the line
are novel; the line is set by the requested rate of false alarms.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from mercer import PCA, KernelPCADetector

rng = np.random.default_rng(0)
turn = rng.uniform(0.25, 1, 300) * 3 * np.pi
X = np.column_stack([turn * np.cos(turn), turn * np.sin(turn)]) / 9 + 0.03 * rng.standard_normal(
    (300, 2)
)
side = np.linspace(-1.5, 1.5, 70)
grid = np.stack(np.meshgrid(side, side), axis=-1)

shuffled = {"folds": 5, "false_alarm": 0.02}
detectors = {
    "PCA, 1 component": KernelPCADetector(model=PCA(1), **shuffled),
    "kernel PCA": KernelPCADetector(
        kernel="rbf(gamma=12)", n_components=0.95, statistic="Q", **shuffled
    ),
}

# %%
fig, axes = plt.subplots(1, 2, figsize=(9.6, 4.6), layout="constrained", sharey=True)
called_new = {}
for ax, (name, detector) in zip(axes, detectors.items(), strict=True):
    detector.fit(X)
    decision = detector.decision_function(grid.reshape(-1, 2)).reshape(70, 70)
    called_new[name] = float(np.mean(decision < 0))
    ax.contourf(
        side, side, decision < 0, levels=[-0.5, 0.5, 1.5], colors=["white", "C3"], alpha=0.25
    )
    ax.contour(side, side, decision, levels=[0], colors="C3")
    ax.plot(*X.T, ".", markersize=4)
    ax.set(title=f"{name}: {called_new[name]:.0%} of the square is new", aspect="equal")
