"""
Can linear algebra find the equation of a circle?
=================================================

Points with (f₁ - a)² + (f₂ - b)² = r² have one degree of freedom, yet PCA finds two equal variances
and keeps both. Under φ(f₁, f₂) = (1, f₁, f₂, f₁², f₁f₂, f₂²) each of them satisfies φ(x)·u = 0 with
u = (a² + b² - r², -2a, -2b, 1, 0, 1). So the matrix of second moments of φ has the eigenvalue zero,
and its eigenvector is u.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelPCA, plots
from mercer.kernels import Polynomial

a, b, r = 1.0, -0.5, 2.0
angle = 2 * np.pi * np.arange(200) / 200
X = np.column_stack([a + r * np.cos(angle), b + r * np.sin(angle)])

phi = Polynomial(degree=2).feature_map(2)
print(phi)
mapped = phi(X)
values, vectors = np.linalg.eigh(mapped.T @ mapped / len(X))  # ascending
values, last = values[::-1], vectors[:, 0]

# %%
# Some columns of ``phi`` have a coefficient √2, so a monomial's weight is the eigenvector's entry
# times that coefficient. The length of an eigenvector is arbitrary: scale it so that f₁² has the
# weight 1.

u = last * phi.coefficients
u = u / u[phi.names.index("f1²")]
expected = np.array([a * a + b * b - r * r, -2 * a, -2 * b, 1, 0, 1])
for name, found, known in zip(phi.names, u, expected, strict=True):
    print(f"{name.removeprefix('√2 '):6}{found + 0.0:9.4f}{known:9.4f}")

# %%
# Left: five of the six eigenvalues are of ordinary size, and one is rounding. Right: the direction
# of that one as a function over the plane. Its zero line is the circle (one point in ten is drawn).

fig, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.9), layout="constrained")
left.semilogy(np.arange(1, 7), np.maximum(np.abs(values) / values[0], 1e-18), "o", markersize=7)
left.axhspan(1e-19, 1e-15, color="0.93")
left.text(1, 1e-17, "rounding", va="center")
left.set(xlabel="eigenvalue of the second moments of φ", ylabel="share of the largest")
left.set(ylim=(1e-19, 10), title="five dimensions hold the circle")
plots.levels(X[::10], lambda points: phi(points) @ last[:, None], ax=right, margin=0.3)
right.set_title("the sixth direction is zero on the circle")

# %%
# Kernel PCA with (x·x' + 1)² keeps four components of six columns: one is lost to the constant, one
# to the circle.

model = KernelPCA(n_components=None, kernel=Polynomial(degree=2)).fit(X)
print(model.n_components_, "components of", phi.dimension, "columns")
