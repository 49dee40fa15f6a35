"""
Which kernel, which width, how many components?
===============================================

Two circles, without and with their labels. Without labels the candidates are compared on held-out
rows, and the Gaussian kernel at the median width is kept unless there is clear evidence against it.
With labels, a linear classifier on the scores decides.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer.diagnostics import symptoms, widths
from mercer.kernels import RBF

X, y = make_circles(120, factor=0.3, noise=0.05, random_state=0)
new, y_new = make_circles(500, factor=0.3, noise=0.05, random_state=1)

# %%
# What the rules of thumb say, and the symptoms of bad widths.

print(widths(X))
found_symptoms = [str(s) for gamma in (1e-4, 1e4) for s in symptoms(RBF(gamma), X)]
print(*found_symptoms, sep="\n")

# %%
# Without labels, then with them.

blind = mercer.select(X, n_components=10)
print(blind.best_kernel_, blind.n_components_, "conclusive:", blind.conclusive_)
candidates = ["linear", *map(RBF, (0.1, 1.0, 10.0, 100.0))]
seeing = mercer.select(X, candidates, n_components=[2, 5], y=y)
print(seeing)

# %%


def accuracy(model):
    """Share of new points that a line on standardised scores gets right."""
    judge = make_pipeline(StandardScaler(), LogisticRegression()).fit(model.transform(X), y)
    return judge.score(model.transform(new), y_new)


accuracies = {
    "a line on the data": LogisticRegression().fit(X, y).score(new, y_new),
    "chosen without labels": accuracy(blind.best_),
    "chosen with labels": accuracy(seeing.best_),
}
fig, ax = plt.subplots(figsize=(6.4, 2), layout="constrained")
bars = ax.barh(
    list(accuracies), 100 * np.array(list(accuracies.values())), color=["0.7", "C0", "C2"]
)
ax.bar_label(bars, fmt="%.0f %%", padding=3)
ax.set(xlabel="new points that are right (%)", xlim=(0, 112))
ax.invert_yaxis()
