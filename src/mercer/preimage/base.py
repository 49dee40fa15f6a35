"""What a pre-image method promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np

    from mercer._core.types import Array
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

    def __repr__(self) -> str:
        return f"FittedPreimage({self.method!r}; {self.quality})"


class Preimage(ABC):
    """Learns the way back from the scores of the training rows to the rows themselves."""

    @abstractmethod
    def fit(self, scores: Array, x: Array, *, rng: np.random.Generator) -> FittedPreimage:
        """Learn from scores (n, k) and rows (n, d)."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The knobs by name."""
        del deep
        return {name: getattr(self, name) for name in type(self).__dataclass_fields__}  # type: ignore[attr-defined]

    def set_params(self, **params: Any) -> Self:
        """Turn knobs by name."""
        for name, value in params.items():
            if name not in self.get_params():
                msg = f"{type(self).__name__} has no knob {name!r}. It has: {', '.join(self.get_params())}."
                raise ValueError(msg)
            setattr(self, name, value)
        return self
