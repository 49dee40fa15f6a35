"""
Are these scikit-learn's numbers?
=================================

``mercer.sklearn.KernelPCA`` has scikit-learn's parameters and attributes. It gives the same
eigenvalues and the same scores, up to the arbitrary sign of a component, and adds the evidence.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.decomposition import KernelPCA as TheirKernelPCA

from mercer.sklearn import KernelPCA

iris = load_iris()
settings = {"n_components": 6, "kernel": "rbf", "gamma": 0.25}
theirs = TheirKernelPCA(**settings).fit(iris.data)
ours = KernelPCA(**settings).fit(iris.data)

apart = np.abs(np.abs(ours.transform(iris.data)) - np.abs(theirs.transform(iris.data)))
print("eigenvalues agree:", np.allclose(ours.eigenvalues_, theirs.eigenvalues_))
print("largest difference of a score below 1e-8:", apart.max() < 1e-8)

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
x, y = theirs.transform(iris.data)[:, :2].T
left.plot(x, y, "o", color="C1", markersize=8, alpha=0.4, label="scikit-learn")
x, y = (
    ours.transform(iris.data)[:, :2]
    * np.sign(np.sum(ours.eigenvectors_ * theirs.eigenvectors_, axis=0))[:2]
).T
left.plot(x, y, ".", color="C0", markersize=4, label="mercer")
left.set(xlabel="component 1", ylabel="component 2", title="iris, RBF γ = 0.25")
left.legend()
right.semilogy(np.arange(1, 7), np.maximum(apart.max(axis=0), 1e-18), "o")
right.axhline(np.finfo(float).eps, color="0.6", linestyle="--", label="rounding of float64")
right.set(xlabel="component", ylabel="largest difference of a score", ylim=(1e-18, 1e-6))
right.legend()
