"""Is the ridge that chooses for itself as good as scikit-learn's at the best penalty, which nobody knows?

scikit-learn's `KernelPCA` is fitted once for each kernel and number of components; the regression of its
`fit_inverse_transform` (the input kernel, with its gamma, on the scores, no mean) is then solved for every
penalty, as `KernelRidge` does it. Its best penalty is the one with the least error on the held-out rows
themselves, which no user could choose; mercer's choices see training rows only.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import KernelPCA as Reference
from sklearn.metrics.pairwise import pairwise_kernels

from mercer import KernelPCA
from mercer.kernels import RBF, Kernel, Polynomial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.preimage.data import Split

ALPHAS = np.logspace(-9, 2, 12)
DEFAULT = 1.0
COMPONENTS = (2, 10, 60)


def error(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - wanted) ** 2)))


def kernels(rows: np.ndarray) -> Iterator[tuple[str, dict[str, Any], Kernel]]:
    """The same kernel for either side: a label, scikit-learn's arguments, mercer's object."""
    median = float(RBF().resolve(rows, rng=np.random.default_rng(0)).gamma)  # type: ignore[arg-type]
    for label, factor in (("wide", 0.25), ("median", 1.0), ("narrow", 4.0)):
        gamma = factor * median
        yield f"rbf, {label}", {"kernel": "rbf", "gamma": gamma}, RBF(gamma)
    gamma = 1.0 / rows.shape[1]
    yield "cubic", {"kernel": "poly", "degree": 3, "gamma": gamma, "coef0": 1}, Polynomial(3, gamma)


def theirs(knobs: dict[str, Any], k: int, fit: np.ndarray, held: np.ndarray) -> list[float]:
    """scikit-learn's error for each penalty, from one decomposition of its latent kernel matrix."""
    model = Reference(k, **knobs).fit(fit)
    scores, new = model.transform(fit), model.transform(held)
    knobs = {"metric": knobs["kernel"], **{a: b for a, b in knobs.items() if a != "kernel"}}
    values, vectors = np.linalg.eigh(pairwise_kernels(scores, **knobs))
    left, right = pairwise_kernels(new, scores, **knobs) @ vectors, vectors.T @ fit
    scaled = (right / (np.maximum(values, 0.0) + alpha)[:, None] for alpha in ALPHAS)
    return [error(left @ each, held) for each in scaled]


def measured(name: str, data: Split) -> Iterator[dict[str, Any]]:
    fit, held = data
    for label, knobs, kernel in kernels(fit):
        most = KernelPCA(max(COMPONENTS), kernel=kernel).fit(fit).n_components_
        for k in sorted(
            {min(k, most) for k in COMPONENTS}
        ):  # two columns have nine cubic monomials
            start = time.perf_counter()
            model = KernelPCA(k, kernel=kernel, preimage="ridge").fit(fit)
            seconds = time.perf_counter() - start
            all_of_theirs = theirs(knobs, k, fit, held)
            yield {
                "question": "ridge",
                "data": name,
                "kernel": label,
                "k": k,
                "error": error(model.reconstruct(held), held),
                "best": min(all_of_theirs),
                "best_alpha": float(ALPHAS[int(np.argmin(all_of_theirs))]),
                "default": all_of_theirs[int(np.flatnonzero(ALPHAS == DEFAULT)[0])],
                "of_mean": error(fit.mean(axis=0), held),
                "seconds": seconds,
            }
