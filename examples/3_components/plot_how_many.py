"""
How many components hold 95 % of the variance?
==============================================

The share of a component is its eigenvalue over the total. The total is the trace of the centred
kernel matrix, which needs no eigenvalue. Divided by the sum of the computed eigenvalues instead,
the shares of every model would add up to 100 %.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from mercer import KernelPCA, plots
from mercer.kernels import RBF

X = load_digits().data[:500] / 16
kernel = RBF(gamma=0.05)
whole = KernelPCA(n_components=0.95, kernel=kernel).fit(X)
few = KernelPCA(n_components=20, kernel=kernel).fit(X)
print(
    f"95 % takes {whole.n_components_} components of 499; 20 hold {few.explained_variance_ratio_.sum():.1%}"
)

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
plots.spectrum(whole, ax=left)
left.set_title("95 % of the true total")
flattering = np.cumsum(few.eigenvalues_) / few.eigenvalues_.sum()
count = np.arange(1, 21)
right.plot(count, 100 * flattering, "o--", color="C3", label="of the 20 that were computed")
right.plot(count, 100 * np.cumsum(few.explained_variance_ratio_), "o-", label="of the true total")
right.axhline(95, color="0.5", linestyle=":")
right.set(
    xlabel="component", ylabel="cumulative share (%)", ylim=(0, 104), title="two ways to count"
)
right.locator_params(axis="x", integer=True)
right.legend(loc="lower right")

# %%
# The trace by hand: Σ k(x, x) - 1ᵀK1/n.

K = kernel(X)
trace = np.trace(K) - K.sum() / len(K)
print("same total:", np.isclose(few.eigenvalues_[0] / few.explained_variance_ratio_[0], trace))
