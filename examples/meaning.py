"""What the components mean: which measurements of a wine move which score, and which way.

Kernel PCA of 178 wines with 13 measurements each, standardised. The slopes of a score tell which
measurements it looks at; times a standard deviation they can be compared. Printed in words and as a table,
drawn as arrows on the scores, and, for the two measurements that matter most to the first component, as level
sets with the others held at their medians.

Writes meaning_arrows.png and meaning_levels.png.

    python examples/meaning.py --out out
"""

import argparse
from pathlib import Path

from matplotlib.figure import Figure
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from mercer import KernelPCA, plots
from mercer.diagnostics import importance
from mercer.kernels import RBF


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the pictures")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    wine = load_wine()
    names = [
        name.replace("_", " ").replace("od280/od315 of diluted wines", "od280/od315")
        for name in wine.feature_names
    ]
    X = StandardScaler().fit_transform(wine.data)
    cultivar = [f"cultivar {c + 1}" for c in wine.target]

    model = KernelPCA(2, kernel=RBF()).fit(X)
    found = importance(model, X, names=names)
    print(found)
    print()
    print(found.table)
    draw(args.out, model, X, found, cultivar)
    return {"shares": found.shares, "top": [found.top(0), found.top(1)]}


def draw(out, model, X, found, cultivar):
    figure = Figure(figsize=(6.6, 4.8), layout="constrained", dpi=110)
    plots.arrows(model, X, cultivar, names=found.names, ax=figure.subplots())
    save(figure, out / "meaning_arrows.png")

    figure = Figure(figsize=(10.0, 4.4), layout="constrained", dpi=110)
    axes = figure.subplots(1, 2)
    for component, ax in enumerate(axes):
        plots.contours(
            model,
            X,
            component=component,
            variables=found.top(component, count=2),
            names=found.names,
            labels=cultivar,
            ax=ax,
        )
    save(figure, out / "meaning_levels.png")


def save(figure, path):
    figure.savefig(path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
