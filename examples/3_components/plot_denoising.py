"""
Noisy digits: what do five pre-images make of them?
===================================================

The models are fitted to clean digits and never see noise (Mika et al. 1999). A noisy digit is
projected on their components, which can represent only digits, and taken back to a picture. Linear
PCA does that by a product, kernel PCA by each of five methods; the exact one uses a cubic polynomial
kernel, for which there is a formula.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from mercer import PCA, KernelPCA, plots
from mercer.errors import PreimageWarning
from mercer.kernels import RBF, Polynomial

rng = np.random.default_rng(0)
X = load_digits().data[rng.permutation(1797)] / 16
clean, test = X[:400], X[400:600]
speckled = rng.random(test.shape) < 0.4
noises = {
    "Gaussian noise": test + 0.5 * rng.standard_normal(test.shape),
    "speckle": np.where(speckled, rng.integers(0, 2, test.shape), test),
}
# Noise moves a digit far from every clean one, where all values of a narrow kernel would vanish.
wide = RBF(gamma=0.02)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PreimageWarning)
    models = {"PCA": PCA(8).fit(clean)}
    for method in ("ridge", "fixed-point", "gradient", "distances"):
        models[method] = KernelPCA(16, kernel=wide, preimage=method).fit(clean)
    models["exact"] = KernelPCA(16, kernel=Polynomial(3, gamma=0.01), preimage="exact").fit(clean)

    pictures = {
        kind: {"noisy": noisy} | {name: model.reconstruct(noisy) for name, model in models.items()}
        for kind, noisy in noises.items()
    }

# %%
# Mean squared error of a pixel.

errors = {
    kind: {name: float(np.mean((made - test) ** 2)) for name, made in rows.items()}
    for kind, rows in pictures.items()
}
for kind, row in errors.items():
    print(kind, {name: round(error, 3) for name, error in row.items()})

# %%
fig = plt.figure(figsize=(12, 6), layout="constrained")
for part, (kind, rows) in zip(fig.subfigures(1, 2), pictures.items(), strict=True):
    shown = {"clean": test} | rows
    sheet = np.clip(np.concatenate([images[:8] for images in shown.values()]), 0, 1)
    axes = plots.faces(sheet, shape=(8, 8), n_columns=8, fig=part)
    for name, ax in zip(shown, axes[::8], strict=True):
        ax.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9)
    part.suptitle(kind)
