"""
Two circles: can a line separate them?
======================================

One circle lies inside the other. PCA can only rotate the plane, so the circles stay as they are; its
two variances are nearly equal, and a warning says that ranking them means nothing. Kernel PCA with a Gaussian
kernel finds two components in which a line separates the circles, and ten from which every point can
be reconstructed.
"""

# %%
# The data, PCA, kernel PCA with two components, and the points reconstructed from ten.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles
from sklearn.linear_model import LogisticRegression

from mercer import PCA, KernelPCA, plots
from mercer.kernels import RBF

X, y = make_circles(400, factor=0.3, noise=0.05, random_state=0)
labels = np.where(y == 0, "outer circle", "inner circle")

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    linear = PCA(n_components=2).fit_transform(X)
for warning in caught:
    print(warning.message)

model = KernelPCA(n_components=10, kernel=RBF(gamma=10), preimage="ridge").fit(X)
scores = model.transform(X)
returned = model.inverse_transform(scores)

titles = ("data", "PCA", "kernel PCA, RBF γ = 10", "back from 10 components")
fig = plt.figure(figsize=(7.6, 6.4), layout="constrained")
plots.panels(X, linear, scores[:, :2], returned, labels, titles=titles, fig=fig)

# %%
# Is there such a line? The logistic regression gets every advantage: it is tested on its training
# points.


def accuracy(features):
    """Share of its own training points that a line gets right."""
    line = LogisticRegression(C=1e6, max_iter=10_000).fit(features, labels)
    return line.score(features, labels)


accuracies = {"data": accuracy(X), "PCA": accuracy(linear), "kernel PCA": accuracy(scores[:, :2])}
for name, share in accuracies.items():
    print(f"{name:11} a line is right for {share:.1%}")

# %%
# The components as functions over the plane, with their zero lines. Component 2 is a disc: its zero
# line runs between the circles. Far from all data every component is nearly constant.

fig, axes = plt.subplots(2, 3, figsize=(9.6, 6.1), layout="constrained")
plots.contours(model, X, n_components=6, labels=labels, ax=axes)
axes[0, 0].get_legend().remove()

# %%
# The evidence of the fit.

print(model.fit_)
