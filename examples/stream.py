"""A stream that drifts: kernel PCA in batches, in memory that does not grow, following what is new.

Rows come two hundred at a time from a cloud that moves and turns. Two models see each batch once. One
forgets (a row counts half after about 140 rows), the other does not. Printed after every tenth batch: the
landmarks a model holds, what it has missed of tr K, and how much of the latest batch's variance its four
axes tell. At the end the eigenvalues are held against those of an exact, weighted fit, which have to
lie within the certified bounds.

    python examples/stream.py
"""

import argparse

import numpy as np

from mercer import IncrementalKernelPCA
from mercer.kernels import RBF

BATCH = 200
FORGETTING = 0.995
KERNEL = RBF(gamma=0.1)


def batches(n, *, seed=0):
    """A flat cloud that moves along its first axis and turns, in batches."""
    rng = np.random.default_rng(seed)
    time = np.linspace(0.0, 1.0, n * BATCH).reshape(n, BATCH)
    for t in time:
        wide, thin = 2.0 * rng.standard_normal(BATCH), 0.5 * rng.standard_normal(BATCH)
        cos, sin = np.cos(1.5 * t), np.sin(1.5 * t)
        yield np.column_stack([20.0 * t + cos * wide - sin * thin, sin * wide + cos * thin])


def told(model, x):
    """Share of the variance of these rows, in feature space, that the axes of the model tell."""
    total = np.trace(KERNEL(x)) / len(x) - KERNEL(x).mean()
    return float(model.transform(x).var(axis=0).sum() / total)


def exact_eigenvalues(x, weights, k):
    """Of the weighted, centred kernel matrix of all rows: what the stream never forms."""
    centring = np.eye(len(x)) - weights / weights.sum()
    root = np.sqrt(weights)[:, None]
    values = np.linalg.eigvalsh(root * (centring @ KERNEL(x) @ centring.T) * root.T)
    return values[::-1][:k]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batches", type=int, default=30, help="how many of 200 rows come")
    n = parser.parse_args(argv).batches

    models = {
        "forgets": IncrementalKernelPCA(4, kernel=KERNEL, max_landmarks=60, forgetting=FORGETTING),
        "does not": IncrementalKernelPCA(4, kernel=KERNEL, max_landmarks=60),
    }
    seen = []
    print(f"{'rows':>6}  {'':9}{'landmarks':>10}{'missed':>10}{'told of the latest rows':>26}")
    for i, batch in enumerate(batches(n), start=1):
        seen.append(batch)
        for name, model in models.items():
            model.partial_fit(batch)
            if i % 10 == 0:
                print(
                    f"{model.n_samples_seen_:6}  {name:9}{len(model.landmarks_):10}"
                    f"{model.fit_.trace_error:10.1e}{told(model, batch):26.1%}"
                )

    model = models["forgets"]
    x = np.concatenate(seen)[-2000:]  # older rows weigh less than 1e-4 by now
    exact = exact_eigenvalues(x, FORGETTING ** np.arange(len(x) - 1, -1, -1.0), 4)
    print("\nlast eigenvalues, with bounds, and those of an exact fit:")
    for value, (low, high), true in zip(model.eigenvalues_, model.fit_.bounds, exact, strict=True):
        print(f"{value:10.3f}  in [{low:7.3f}, {high:7.3f}]  {true:10.3f}")
    return {
        "told": {name: told(model, batch) for name, model in models.items()},
        "landmarks": {name: len(model.landmarks_) for name, model in models.items()},
        "found": model.eigenvalues_,
        "bounds": model.fit_.bounds,
        "exact": exact,
    }


if __name__ == "__main__":
    main()
