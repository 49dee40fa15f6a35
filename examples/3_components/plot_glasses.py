"""
Can glasses be taken off?
=========================

The models have seen only faces without glasses. A face with glasses is projected on their components,
which can't represent glasses, and taken back to pixels. The result is the face without them; PCA and
kernel PCA differ in how much of the rims remains.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from mercer import PCA, KernelPCA, plots
from mercer.datasets import faces
from mercer.kernels import RBF

with_glasses, without = faces(30, 6, glasses=1.0), faces(30, 6)  # the same faces twice
train = np.arange(180) % 6 > 0  # the first picture of each person is held back
model = KernelPCA(40, kernel=RBF(), preimage="ridge").fit(without.X[train])
pca = PCA(40).fit(without.X[train])

# %%
worn, bare = with_glasses.X[~train], without.X[~train]
pictures = {
    "glasses": worn,
    "PCA": pca.reconstruct(worn),
    "kernel PCA": model.reconstruct(worn),
    "without": bare,
}
errors = {name: float(np.sqrt(np.mean((made - bare) ** 2))) for name, made in pictures.items()}
for name in ("glasses", "PCA", "kernel PCA"):
    print(f"{name:11} {errors[name]:5.1f} grey levels from the face without glasses")

# %%
fig = plt.figure(figsize=(8.6, 5.6), layout="constrained")
sheet = np.concatenate([images[:8] for images in pictures.values()])
axes = plots.faces(sheet, shape=without.shape, n_columns=8, fig=fig)
for name, ax in zip(pictures, axes[::8], strict=True):
    ax.set_ylabel(name)
