"""Which kernel, which width, how many components: two circles, without and with their labels.

Without labels the candidates are compared by how well rows with noise come back to input space. With
labels a linear classifier on the scores decides.

    python examples/choosing.py
"""

import argparse

from sklearn.datasets import make_circles
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer.diagnostics import n_components, symptoms, widths
from mercer.kernels import RBF


def accuracy(model, train, test):
    """Of a line through standardised scores, on rows that nobody has seen."""
    judge = make_pipeline(StandardScaler(), LogisticRegression())
    judge.fit(model.transform(train[0]), train[1])
    return judge.score(model.transform(test[0]), test[1])


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--components", type=int, default=10)
    args = parser.parse_args(argv)
    train = make_circles(args.rows, factor=0.3, noise=0.05, random_state=0)
    test = make_circles(500, factor=0.3, noise=0.05, random_state=1)

    print("Widths that rules of thumb give:", widths(train[0]), sep="\n", end="\n\n")
    for gamma in (1e-4, 1e4):
        for symptom in symptoms(RBF(gamma), train[0]):
            print(f"gamma={gamma:g}: {symptom}")

    print("\nWithout labels:")
    blind = mercer.select(train[0], n_components=args.components)
    print(blind, end="\n\n")
    print("With labels:")
    seeing = mercer.select(
        train[0], ["linear", *map(RBF, (0.1, 1.0, 10.0))], n_components=[2, 5], y=train[1]
    )
    print(seeing, end="\n\n")
    print(n_components(train[0], blind.best_kernel_, method="cross-validation"), end="\n\n")

    figures = {
        "a line": LogisticRegression().fit(*train).score(*test),
        "without labels": accuracy(blind.best_, train, test),
        "with labels": accuracy(seeing.best_, train, test),
    }
    for name, value in figures.items():
        print(f"{name:16}{value:.1%} right")
    return figures


if __name__ == "__main__":
    main()
