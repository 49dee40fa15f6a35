"""What one line of the benchmark is about: a kernel, a data set and its sizes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

KERNELS = ("rbf", "poly")
DATASETS = ("gaussian", "decaying", "blobs")
FACES = "faces"


@dataclass(frozen=True)
class Case:
    """n points of a data set in d features, k components of a kernel; k is None for all."""

    kernel: str  # "rbf", "poly", or "linear" for plain PCA
    dataset: str
    n: int
    d: int
    k: int | None

    @property
    def name(self) -> str:
        components = "all" if self.k is None else str(self.k)
        return f"{self.kernel} {self.dataset} n={self.n} d={self.d} k={components}"

    @property
    def is_pca(self) -> bool:
        return self.kernel == "linear"

    def matches(self, words: str) -> bool:
        """Whether each word is a whole word of the name: "n=1000" is not "n=10000"."""
        return set(words.split()) <= set(self.name.split())

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
