"""The ways to denoise: each tries its knobs on noisy validation digits, and the best goes on to the test."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from benchmarks.run import say
from mercer import PCA, KernelPCA
from mercer.errors import InputError, MercerWarning
from mercer.kernels import RBF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.denoising.data import Parts

LINEAR_COUNTS = (*range(1, 20), *range(20, 60, 5), *range(60, 201, 20))
NEIGHBOURS = (1, 2, 5, 10, 20, 50)


@dataclass
class Trial:
    """One setting of the knobs, and the errors it left."""

    way: str
    knobs: dict[str, float]
    fit_seconds: float
    seconds: float = 0.0  # for all validation digits, both noises
    errors: dict[str, float] | None = None  # on noisy validation digits, by noise

    def row(self) -> dict[str, Any]:
        return self.__dict__


def linear(parts: Parts) -> Iterator[tuple[dict[str, float], Any]]:
    """All counts from one fit: components are nested."""
    model = PCA().fit(parts.train)

    def with_first(k: int) -> Any:
        axes = model.components_[:k]
        return lambda x: model.mean_ + (x - model.mean_) @ axes.T @ axes

    for k in LINEAR_COUNTS:
        if k <= model.n_components_:
            yield {"k": k}, with_first(k)


def neighbours(parts: Parts) -> Iterator[tuple[dict[str, float], Any]]:
    """The mean of the nearest clean digits: no components at all, to see what they add."""
    index = NearestNeighbors().fit(parts.train)

    def of_nearest(q: int) -> Any:
        return lambda x: parts.train[index.kneighbors(x, q, return_distance=False)].mean(axis=1)

    for q in NEIGHBOURS:
        yield {"neighbours": q}, of_nearest(q)


def kernel(
    parts: Parts, way: str, counts: tuple[int, ...], widths: tuple[float, ...]
) -> Iterator[tuple[dict[str, float], Any]]:
    """RBF kernel PCA with one way back; widths in median distances of the clean digits."""
    median = RBF("median").resolve(parts.train, rng=np.random.default_rng(0)).gamma
    for width in widths:
        for k in counts:
            model = KernelPCA(k, kernel=RBF(median / width**2), preimage=way)
            try:
                model.fit(parts.train)
            except InputError as refusal:  # an exact inverse, which an RBF kernel has not
                say(f"{way}: left out. {refusal}")
                return
            yield {"k": k, "width": width}, model.reconstruct


def tried(
    name: str,
    settings: Iterator[tuple[dict[str, float], Any]],
    noisy: dict[str, np.ndarray],
    clean: np.ndarray,
) -> tuple[list[Trial], dict[str, tuple[Trial, Any]]]:
    """Every setting on the noisy validation digits, and the best one for each noise."""
    trials: list[Trial] = []
    best: dict[str, tuple[Trial, Any]] = {}
    started = time.perf_counter()
    for knobs, denoise in settings:
        fitted = time.perf_counter()
        trial = Trial(name, knobs, fitted - started)
        trial.errors = {kind: error(denoise(x), clean) for kind, x in noisy.items()}
        trial.seconds = time.perf_counter() - fitted
        trials.append(trial)
        for kind, value in trial.errors.items():
            if kind not in best or value < (best[kind][0].errors or {})[kind]:
                best[kind] = trial, denoise
        started = time.perf_counter()
    return trials, best


def error(found: np.ndarray, clean: np.ndarray) -> float:
    """Mean squared error of a pixel, of the grey range."""
    return float(np.mean((found - clean) ** 2))


def quietly(function: Any, *arguments: Any) -> Any:
    """Noisy digits lie outside of the clean ones, and every way back says so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MercerWarning)
        return function(*arguments)
