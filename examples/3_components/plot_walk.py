"""
What lies along a component?
============================

Walk from the mean along one component, by standard deviations, and take each step back to input
space. For PCA the walk is a straight line through the mean picture; for kernel PCA it is curved and
stays nearer to real pictures.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from mercer import PCA, KernelPCA, plots
from mercer.kernels import RBF

digits = load_digits()
X = digits.data[digits.target == 3] / 16
steps = np.linspace(-2.5, 2.5, 9)
models = {
    "PCA": PCA(4).fit(X),
    "kernel PCA": KernelPCA(4, kernel=RBF(gamma=0.1), preimage="fixed-point").fit(X),
}


def walk(model, component):
    """Pictures from -2.5 to 2.5 standard deviations along a component."""
    scores = np.zeros((len(steps), 4))
    scores[:, component] = steps * model.transform(X)[:, component].std()
    return model.inverse_transform(scores)


# %%
# Threes, along components 1, 2 and 3; the mean is in the middle of each row.

walks = {name: [walk(model, j) for j in range(3)] for name, model in models.items()}
fig = plt.figure(figsize=(12, 3.6), layout="constrained")
for part, (name, pictures) in zip(fig.subfigures(1, 2), walks.items(), strict=True):
    sheet = np.clip(np.concatenate(pictures), 0, 1)
    axes = plots.faces(sheet, shape=(8, 8), n_columns=len(steps), fig=part)
    for j, ax in enumerate(axes[:: len(steps)]):
        ax.set_ylabel(f"component {j + 1}", fontsize=9)
    part.suptitle(name)

# %%
# How far is each step from the nearest real three, and from their mean?

distances = {}
for name, pictures in walks.items():
    nearest = [np.linalg.norm(X - p, axis=1).min() for p in np.concatenate(pictures)]
    distances[name] = np.mean(nearest)
    moved = np.mean([np.linalg.norm(w[0] - w[-1]) for w in pictures])
    print(f"{name:11} {distances[name]:.2f} from the nearest three, {moved:.2f} from end to end")
