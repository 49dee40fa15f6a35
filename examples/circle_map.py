"""A circle is a line of dots to the eye, a plane to PCA, and a linear subspace to a quadratic map.

Points with (f1 - a)² + (f2 - b)² = r² have one degree of freedom, yet PCA finds two equal variances
and keeps both. Under φ(f1, f2) = (1, f1², f2², f1 f2, f1, f2) each of them satisfies φ(x)·u = 0 with
u = (a² + b² - r², 1, 1, 0, -2a, -2b). So the matrix of second moments of φ has the eigenvalue zero,
and its eigenvector is u: linear algebra has found the equation of the circle.

`Polynomial(2).feature_map(2)` is that φ with √2 on some columns, so that its dot products are the
kernel (x·x' + 1)². Kernel PCA with this kernel keeps 4 components of 6 columns: one is lost to the
constant, and one to the circle.

Writes circle_map.png.

    python examples/circle_map.py --out out
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from mercer import PCA, KernelPCA, plots
from mercer.kernels import Polynomial

# The columns of φ as the formula above has them, and how often mercer's map takes each: √2 where
# (x·x' + 1)² has a mixed term.
NAMES = ("1", "f1²", "f2²", "√2 f1 f2", "√2 f1", "√2 f2")
WEIGHTS = np.array([1, 1, 1, np.sqrt(2), np.sqrt(2), np.sqrt(2)])


def points_on_circle(a, b, r, n):
    angle = 2 * np.pi * np.arange(n) / n
    return np.column_stack([a + r * np.cos(angle), b + r * np.sin(angle)])  # (n, 2)


def equation_of(mapped):
    """Eigenvalues of the second moments of φ, descending, and the direction of the smallest."""
    values, vectors = np.linalg.eigh(mapped.T @ mapped / len(mapped))  # ascending
    return values[::-1], vectors[:, 0]


def variances_of(X):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        variances = PCA().fit(X).explained_variance_
    print(f"PCA keeps two variances: {variances[0]:.6f} and {variances[1]:.6f}")
    for warning in caught:
        print(f"and says: {warning.message}")
    return variances


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture")
    parser.add_argument("--centre", type=float, nargs=2, default=(1.0, -0.5), metavar=("A", "B"))
    parser.add_argument("--radius", type=float, default=2.0, metavar="R")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    (a, b), r = args.centre, args.radius
    X = points_on_circle(a, b, r, n=200)
    variances = variances_of(X)

    phi = Polynomial(2).feature_map(2)
    order = [phi.names.index(name) for name in NAMES]
    values, last = equation_of(phi(X)[:, order])
    ratio = float(abs(values[-1]) / values[0])
    found = last * WEIGHTS  # √2 f1 times v is f1 times √2 v
    found = found / found[1]  # an eigenvector has no length: let f1² have the coefficient 1
    expected = np.array([a * a + b * b - r * r, 1, 1, 0, -2 * a, -2 * b])
    print(f"\n{phi}")
    print(f"eigenvalues of its second moments: {', '.join(f'{v:.3g}' for v in values)}")
    print(f"smallest over largest, in size: {ratio:.1e}")
    print(f"\n{'column':>12}{'u':>12}{'eigenvector':>14}")
    for name, u, v in zip(NAMES, expected, found, strict=True):
        print(f"{name.removeprefix('√2 '):>12}{u:12.6f}{v:14.6f}")

    model = KernelPCA(n_components=None, kernel=Polynomial(2)).fit(X)
    kept = len(model.eigenvalues_)
    print(f"\nkernel PCA with {model.kernel_!r} keeps {kept} of {phi.dimension} dimensions")
    draw(args.out / "circle_map.png", X, values, lambda p: phi(p)[:, order] @ last[:, None])
    return {
        "variances": variances,
        "smallest_over_largest": ratio,
        "u_found": found,
        "u_expected": expected,
        "components_kept": kept,
        "dimension": phi.dimension,
    }


def draw(path, X, values, last):
    figure = Figure(figsize=(8.4, 3.9), layout="constrained", dpi=120)
    left, right = figure.subplots(1, 2)
    # Rounding may leave zero on either side of it, or on it: a logarithm wants it positive.
    share = np.maximum(np.abs(values) / values[0], 1e-18)
    left.semilogy(np.arange(1, 7), share, "o", color="#0072B2", markersize=7)
    left.axhspan(1e-19, 1e-15, color="#EEEEEE")
    left.text(1, 1e-17, "rounding", fontsize=9, color="#333333", va="center")
    left.set(xlabel="eigenvalue of the second moments of φ", ylabel="share of the largest")
    left.set(ylim=(1e-19, 10), title="five dimensions hold the circle")
    left.spines[["top", "right"]].set_visible(False)
    # One point in ten: the zero line has to be seen between them.
    plots.levels(X[::10], last, ax=right, margin=0.3)
    right.set_title("the sixth direction is zero on the circle", fontsize=11)
    left.title.set_fontsize(11)
    figure.savefig(path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
