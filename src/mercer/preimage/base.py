"""What a pre-image method promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mercer._core.knobs import Knobs

if TYPE_CHECKING:
    import numpy as np

    from mercer._core.types import Array, Indices
    from mercer.model.projection import Projection


@dataclass(frozen=True)
class Quality:
    """Root mean squared error on rows that were held out, beside that of always saying the mean."""

    error: float
    error_of_mean: float

    def __str__(self) -> str:
        return f"held-out error {self.error:.4g}, error of the mean {self.error_of_mean:.4g}"


@dataclass(frozen=True, repr=False)
class FittedPreimage:
    """A learned map from scores to input space, and how well it does."""

    method: Preimage  # with every knob a number
    projection: Projection  # scores -> rows, again an affine map of kernel sections
    quality: Quality | None

    def __call__(self, scores: Array) -> Array:  # (b, k) -> (b, d)
        """Points whose scores are near the given ones."""
        return self.projection(scores.astype(self.projection.coef.dtype, copy=False))

    @property
    def n_rows(self) -> int:
        """Rows that it was learned from."""
        return self.projection.sections.width

    def __repr__(self) -> str:
        return f"FittedPreimage({self.method!r}, learned from {self.n_rows} rows; {self.quality})"


class Preimage(Knobs, ABC):
    """Learns the way back from the scores of the training rows to the rows themselves."""

    @abstractmethod
    def fit(self, scores: Array, x: Array, *, rng: np.random.Generator) -> FittedPreimage:
        """Learn from scores (n, k) and rows (n, d)."""

    @abstractmethod
    def sample(self, n: int, *, rng: np.random.Generator) -> Indices | None:
        """Which of n rows to learn from; None for all of them."""

    @abstractmethod
    def n_bytes(self, n: int, d: int) -> int:
        """The most that learning from n rows of d numbers may hold."""
