"""
What do eight kernels make of one data set?
===========================================

Two moons, and the first two components of each kernel. A linear kernel rotates the plane, the
cosine ignores lengths, polynomials bend the plane, and kernels that decrease with distance separate
the moons. Widths are those of the median rule unless stated.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression

from mercer import KernelPCA
from mercer.kernels import RBF, Cosine, Laplacian, Linear, Matern, Polynomial

X, y = make_moons(300, noise=0.06, random_state=0)
X = X - X.mean(axis=0)
kernels = {
    "linear": Linear(),
    "cosine": Cosine(),
    "polynomial, p = 2": Polynomial(2),
    "polynomial, p = 5": Polynomial(5),
    "Gaussian, median width": RBF(),
    "Gaussian, γ = 10": RBF(gamma=10),
    "Matérn, ν = 3/2": Matern(nu=1.5, length_scale=0.3),
    "Laplacian, γ = 2": Laplacian(gamma=2),
}

# %%
# Each title has the share of the variance in two components, and the share of points that a line on
# them classifies correctly.

fig, axes = plt.subplots(2, 4, figsize=(11, 5.6), layout="constrained")
accuracies = {}
for ax, (name, kernel) in zip(axes.flat, kernels.items(), strict=True):
    model = KernelPCA(2, kernel=kernel).fit(X)
    scores = model.transform(X)
    accuracies[name] = LogisticRegression(C=1e6, max_iter=10_000).fit(scores, y).score(scores, y)
    for label in (0, 1):
        ax.plot(*scores[y == label].T, ".", markersize=4)
    share = model.explained_variance_ratio_.sum()
    ax.set_title(f"{name}\n{share:.0%} of the variance, line {accuracies[name]:.0%}", fontsize=9)
    ax.set(xticks=[], yticks=[])
