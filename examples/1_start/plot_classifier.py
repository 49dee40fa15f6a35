"""
What does a linear classifier gain?
===================================

The same logistic regression is trained on the raw features and on kernel PCA scores, in a pipeline
whose width and penalty a grid search chooses by cross-validation on the training part alone. On the
circles and the moons the gain is large; on digits, whose 64 pixels a linear classifier already
handles well, it is small.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, make_circles, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
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
# Accuracy on points that neither the components nor the line have seen. Scores are whitened, since
# one penalty cannot suit both the first score and the thirtieth, which is a thousand times smaller.
# Its strength ``C`` is searched for raw features and for scores.

found = {}
strengths = [0.01, 0.1, 1.0, 10.0]
for name, ((X, y), k, gammas) in data_sets.items():
    train, test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    line = LogisticRegression(max_iter=10_000)
    raw = GridSearchCV(line, {"C": strengths}, cv=3).fit(train, y_train)
    chain = Pipeline([("kpca", KernelPCA(k, kernel=RBF(), whiten=True)), ("line", line)])
    grid = {"kpca__kernel__gamma": gammas, "line__C": strengths}
    search = GridSearchCV(chain, grid, cv=3).fit(train, y_train)
    accuracies = search.cv_results_["mean_test_score"].reshape(len(gammas), len(strengths))
    found[name] = {
        "validated raw": raw.best_score_,
        "validated": accuracies.max(axis=1),  # of each width, with its best C
        "before": raw.score(test, y_test),
        "after": search.score(test, y_test),
    }
    print(f"{name:8} raw {found[name]['before']:.1%}, scores {found[name]['after']:.1%}")

# %%
# A bad width loses what a good one gains.

fig, axes = plt.subplots(1, 3, figsize=(9.6, 3.2), layout="constrained", sharey=True)
for ax, (name, (_, _, gammas)) in zip(axes, data_sets.items(), strict=True):
    ax.semilogx(gammas, 100 * found[name]["validated"], "o-", label="kernel PCA scores")
    ax.axhline(100 * found[name]["validated raw"], color="C1", linestyle="--", label="raw features")
    ax.set(title=name, xlabel="γ of the RBF kernel")
axes[0].set_ylabel("validated accuracy (%)")
axes[0].legend(loc="lower left")
