"""What libraries make, made in a hurry: a fit of fifty rows takes ten times as long as NumPy mixes a seed."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def changed(value: T, **fields: Any) -> T:
    """What `dataclasses.replace` makes of a dataclass that has nothing to do after its fields are set.

    Fields are copied together, not set one by one: a frozen dataclass of twelve takes 8 µs for that.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: int
    ...     y: int
    >>> changed(Point(1, 2), y=3)
    Point(x=1, y=3)
    """
    copy = object.__new__(type(value))
    vars(copy).update(vars(value), **fields)
    return copy


def seeded(seed: int) -> np.random.Generator:
    """What `numpy.random.default_rng` makes of a seed, number by number.

    Examples
    --------
    >>> import numpy as np
    >>> bool(seeded(7).random() == np.random.default_rng(7).random())
    True
    """
    words: Any = _Seed(seed)  # as good as a `SeedSequence`
    return np.random.Generator(np.random.PCG64(words))


class _Seed(np.random.bit_generator.ISpawnableSeedSequence):
    """A seed whose words were mixed before, the first time that it was used."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        return _words(self.seed, n_words, np.dtype(dtype)).copy()

    def spawn(self, n_children: int) -> Any:
        return self._sequence.spawn(n_children)

    @cached_property
    def _sequence(self) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.seed)


@lru_cache(maxsize=64)
def _words(seed: int, n_words: int, dtype: np.dtype[Any]) -> Any:
    return np.random.SeedSequence(seed).generate_state(n_words, dtype)
