"""Two circles, one inside the other: no line separates them, until kernel PCA has bent the plane.

PCA can only turn the plane, so the circles stay as they are; it also warns that its two variances
are alike, so that ranking them says nothing. Kernel PCA with a Gaussian kernel finds two components
in which a line separates the circles, and ten from which every point finds its way back.

Writes circles.png (four panels), levels.png (components as functions over the plane) and
spectrum.png (how the variance is shared out).

    python examples/circles.py --out out
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import make_circles
from sklearn.linear_model import LogisticRegression

from mercer import PCA, KernelPCA, plots
from mercer.kernels import RBF

GAMMA = 10
BACK = 10  # two components cannot tell the points of the outer circle apart; ten can


def accuracy(features, labels):
    """Share of its own training points that a line gets right: is there such a line?"""
    line = LogisticRegression(C=1e6, max_iter=10_000).fit(features, labels)
    return line.score(features, labels)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the pictures")
    out = parser.parse_args(argv).out
    out.mkdir(parents=True, exist_ok=True)

    X, y = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    labels = np.where(y == 0, "outer circle", "inner circle")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        linear = PCA(n_components=2).fit_transform(X)
    for warning in caught:
        print(f"PCA says: {warning.message}\n")

    model = KernelPCA(n_components=2, kernel=RBF(gamma=GAMMA)).fit(X)
    scores = model.transform(X)
    back = KernelPCA(n_components=BACK, kernel=RBF(gamma=GAMMA), preimage="ridge").fit(X)
    returned = back.inverse_transform(back.transform(X))

    figures = {
        "accuracy_before": accuracy(X, labels),
        "accuracy_pca": accuracy(linear, labels),
        "accuracy_after": accuracy(scores, labels),
        "variance_kept": float(model.explained_variance_ratio_.sum()),
        "largest_residual": float(model.residuals_.max()),
        "return_error": float(np.sqrt(np.mean((returned - X) ** 2))),
        "return_error_held_out": back.preimage_.quality.error,
    }
    print(model.fit_, end="\n\n")
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):24}{value:.4g}")

    draw(out, X, labels, linear=linear, scores=scores, returned=returned, back=back)
    return figures


def draw(out, X, labels, *, linear, scores, returned, back):
    titles = ("data", "PCA", f"kernel PCA, RBF γ = {GAMMA}", f"back from {BACK} components")
    figure = Figure(figsize=(7.6, 6.4), layout="constrained", dpi=120)
    plots.panels(X, linear, scores, returned, labels, titles=titles, fig=figure)
    save(figure, out / "circles.png")

    figure = Figure(figsize=(9.6, 6.1), layout="constrained", dpi=105)
    axes = figure.subplots(2, 3)
    plots.contours(back, X, n_components=6, labels=labels, ax=axes)
    axes[0, 0].get_legend().remove()  # six panels share one, below
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    save(figure, out / "levels.png")

    whole = KernelPCA(n_components=40, kernel=RBF(gamma=GAMMA)).fit(X)
    figure = Figure(figsize=(6.4, 4.0), layout="constrained", dpi=120)
    plots.spectrum(whole, ax=figure.subplots())
    save(figure, out / "spectrum.png")


def save(figure, path):
    figure.savefig(path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
