"""
How many landmarks are enough?
==============================

An approximation by landmarks leaves out a share of the trace, and every true eigenvalue lies
between the computed one and that plus what is left out. The certificate needs no exact fit; here
there is one, to check it.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelPCA
from mercer.approximations import Nystrom, RPCholesky
from mercer.kernels import RBF

rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 5)) * [3, 2, 1, 0.5, 0.3]
X[:20] += 12.0  # a rare cluster
kernel = RBF(gamma=0.05)
exact = KernelPCA(5, kernel=kernel).fit(X).eigenvalues_
ranks = [10, 20, 40, 80, 160, 320]
fits = {
    name: [KernelPCA(5, kernel=kernel, approximation=kind(m), random_state=0).fit(X) for m in ranks]
    for name, kind in {"RPCholesky": RPCholesky, "Nyström, uniform": Nystrom}.items()
}

# %%
# Left: what is left out. Right: the bounds of the first five eigenvalues (bars) close in on the
# exact ones (lines).

fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
for (name, models), marker in zip(fits.items(), "os", strict=True):
    left.loglog(ranks, [100 * m.fit_.trace_error for m in models], marker=marker, label=name)
left.set(
    xlabel="landmarks", ylabel="share of the trace left out (%)", xticks=ranks, xticklabels=ranks
)
left.minorticks_off()
left.legend()
for j, value in enumerate(exact):
    right.axhline(value, color=f"C{j}", linewidth=0.8)
    bounds = np.array([m.fit_.bounds[j] for m in fits["RPCholesky"]])
    right.vlines(np.arange(6) + 0.12 * (j - 2), *bounds.T, color=f"C{j}", linewidth=4, alpha=0.7)
right.set(
    yscale="log",
    xlabel="landmarks of RPCholesky",
    ylabel="eigenvalue",
    xticks=range(6),
    xticklabels=ranks,
)

# %%
inside = [
    bool(np.all((m.fit_.bounds[:, 0] <= exact) & (exact <= m.fit_.bounds[:, 1])))
    for models in fits.values()
    for m in models
]
print(f"{sum(inside)} of {len(inside)} fits have all exact eigenvalues within their bounds")
