"""Two moons that grip each other: the first component of kernel PCA alone tells them apart.

A line gets 88 % of the fifty points right. With a Gaussian kernel a single number a point, the first
score, is enough for all of them.

Writes moons.png (four panels) and moons_first.png (the first score of every point).

    python examples/moons.py --out out
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression

from mercer import PCA, KernelPCA, plots
from mercer.kernels import RBF

GAMMA = 15
BACK = 10  # components for the way back


def accuracy(features, labels):
    """Share of its own training points that a line gets right: is there such a line?"""
    line = LogisticRegression(C=1e6, max_iter=10_000).fit(features, labels)
    return line.score(features, labels)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the pictures")
    out = parser.parse_args(argv).out
    out.mkdir(parents=True, exist_ok=True)

    X, y = make_moons(50, random_state=0)
    labels = np.where(y == 0, "upper moon", "lower moon")
    linear = PCA(n_components=2).fit_transform(X)
    model = KernelPCA(n_components=2, kernel=RBF(gamma=GAMMA)).fit(X)
    scores = model.transform(X)
    back = KernelPCA(n_components=BACK, kernel=RBF(gamma=GAMMA), preimage="ridge").fit(X)
    returned = back.inverse_transform(back.transform(X))

    figures = {
        "accuracy_before": accuracy(X, labels),
        "accuracy_first_pca": accuracy(linear[:, :1], labels),
        "accuracy_first": accuracy(scores[:, :1], labels),
        "accuracy_after": accuracy(scores, labels),
        "variance_kept": float(model.explained_variance_ratio_.sum()),
        "largest_residual": float(model.residuals_.max()),
        "return_error": float(np.sqrt(np.mean((returned - X) ** 2))),
    }
    print(model.fit_, end="\n\n")
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):24}{value:.4g}")

    titles = ("data", "PCA", f"kernel PCA, RBF γ = {GAMMA}", f"back from {BACK} components")
    figure = Figure(figsize=(7.6, 6.4), layout="constrained", dpi=120)
    plots.panels(X, linear, scores, returned, labels, titles=titles, fig=figure)
    save(figure, out / "moons.png")

    figure = Figure(figsize=(6.4, 2.2), layout="constrained", dpi=120)
    title = "the first score alone"
    plots.scores(model, X, labels, components=(0,), ax=figure.subplots(), title=title)
    save(figure, out / "moons_first.png")
    return figures


def save(figure, path):
    figure.savefig(path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
