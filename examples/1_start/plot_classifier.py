"""
What does a linear classifier gain?
===================================

The same logistic regression is trained on the raw features and on kernel PCA scores, in a pipeline
whose ``kernel__gamma`` a grid search chooses by cross-validation on the training part alone. On the
circles and the moons the line gains what it lacked; on digits, 64 pixels that a linear classifier
already handles well, the gain is small.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, make_circles, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import Pipeline

from mercer import KernelPCA
from mercer.kernels import RBF

digits = load_digits()
data_sets = {  # rows and labels, number of components, widths to try
    "circles": (
        make_circles(400, factor=0.5, noise=0.1, random_state=0),
        10,
        np.logspace(-1, 2, 6),
    ),
    "moons": (make_moons(400, noise=0.15, random_state=0), 10, np.logspace(-1, 2, 6)),
    "digits": ((digits.data[:250] / 16, digits.target[:250]), 30, np.logspace(-2.5, 0, 5)),
}

# %%
# Accuracy on points that neither the components nor the line have seen.

found = {}
for name, ((X, y), k, gammas) in data_sets.items():
    train, test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    line = LogisticRegression(C=10, max_iter=10_000)
    steps = [
        ("kpca", KernelPCA(k, kernel=RBF())),
        ("line", LogisticRegression(C=10, max_iter=10_000)),
    ]
    search = GridSearchCV(Pipeline(steps), {"kpca__kernel__gamma": gammas}, cv=3).fit(
        train, y_train
    )
    found[name] = {
        "validated raw": cross_val_score(line, train, y_train, cv=3).mean(),
        "validated": search.cv_results_["mean_test_score"],
        "before": line.fit(train, y_train).score(test, y_test),
        "after": search.score(test, y_test),
    }
    print(f"{name:8} raw {found[name]['before']:.1%}, scores {found[name]['after']:.1%}")

# %%
# A width that is too large or too small loses what another one gains.

fig, axes = plt.subplots(1, 3, figsize=(9.6, 3.2), layout="constrained", sharey=True)
for ax, (name, (_, _, gammas)) in zip(axes, data_sets.items(), strict=True):
    ax.semilogx(gammas, 100 * found[name]["validated"], "o-", label="kernel PCA scores")
    ax.axhline(100 * found[name]["validated raw"], color="C1", linestyle="--", label="raw features")
    ax.set(title=name, xlabel="γ of the RBF kernel")
axes[0].set_ylabel("validated accuracy (%)")
axes[0].legend(loc="lower left")
