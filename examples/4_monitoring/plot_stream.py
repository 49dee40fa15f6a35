"""
A stream that drifts: should a model forget?
============================================

Rows arrive two hundred at a time from a cloud that moves and turns. Two models see each batch once,
in constant memory. One forgets (the weight of a row halves about every 140 rows), the other does
not. How much of the latest batch's variance do their four axes hold?
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import eigh

from mercer import IncrementalKernelPCA
from mercer.kernels import RBF

kernel = RBF(gamma=0.1)
rng = np.random.default_rng(0)


def batch(t):
    """200 rows of a flat cloud that moves along its first axis and turns, at the times t."""
    wide, thin = 2.0 * rng.standard_normal(200), 0.5 * rng.standard_normal(200)
    cos, sin = np.cos(1.5 * t), np.sin(1.5 * t)
    return np.column_stack([20.0 * t + cos * wide - sin * thin, sin * wide + cos * thin])


batches = [batch(t) for t in np.linspace(0.0, 1.0, 6000).reshape(30, 200)]
models = {
    "forgets": IncrementalKernelPCA(4, kernel=kernel, max_landmarks=60, forgetting=0.995),
    "does not": IncrementalKernelPCA(4, kernel=kernel, max_landmarks=60),
}


def held(model, rows):
    """Share of the variance of these rows, in feature space, that the axes of the model hold."""
    total = np.trace(kernel(rows)) / len(rows) - kernel(rows).mean()
    return float(model.transform(rows).var(axis=0).sum() / total)


shares = {name: [held(m.partial_fit(rows), rows) for rows in batches] for name, m in models.items()}

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for rows, shade in zip(batches[::6], np.linspace(0.2, 0.9, 5), strict=True):
    left.plot(*rows.T, ".", color=plt.cm.viridis(shade), markersize=3)
left.plot(*models["forgets"].landmarks_.T, "r+", label="landmarks of the model that forgets")
left.set(title="every sixth batch", aspect="equal")
left.legend(fontsize=8)
for name, values in shares.items():
    right.plot(200 * np.arange(1, 31), 100 * np.array(values), label=name)
right.set(xlabel="rows seen", ylabel="variance of the latest batch (%)", ylim=(0, 100))
right.legend()

# %%
# The eigenvalues of the model that forgets, beside those of an exact, weighted fit, which must lie
# within the certified bounds.

x = np.concatenate(batches)[-2000:]  # older rows weigh less than 1e-4 by now
weights = 0.995 ** np.arange(len(x) - 1, -1, -1.0)
centring = np.eye(len(x)) - weights / weights.sum()
root = np.sqrt(weights)[:, None]
weighted = root * (centring @ kernel(x) @ centring.T) * root.T
exact = eigh(weighted, eigvals_only=True, subset_by_index=[len(x) - 4, len(x) - 1])[::-1]
bounds = models["forgets"].fit_.bounds
for value, (low, high), true in zip(models["forgets"].eigenvalues_, bounds, exact, strict=True):
    print(f"{value:8.3f}  in [{low:7.3f}, {high:7.3f}]  exact {true:8.3f}")
