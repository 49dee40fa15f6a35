"""Known events: what faults looked like that people have named, and which of them a new one is like."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from mercer.monitoring.alarms import shares

if TYPE_CHECKING:
    from mercer._core.types import Array

# An event at most this far from a known one is like it. Blame that is the same but for a fifth of it lies at
# √(1 - √0.8) = 0.33.
LIKE = 0.35


@dataclass(frozen=True)
class Nearest:
    """The known event that is nearest, and how far: 0 for the same blame, 1 for no variable in common."""

    name: str
    distance: float

    @property
    def alike(self) -> bool:
        """Whether it is near enough to be taken for the same."""
        return self.distance <= LIKE

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"name": self.name, "distance": self.distance, "alike": self.alike}

    def __str__(self) -> str:
        how = "like" if self.alike else "unlike any known, nearest"
        return f"{how} {self.name!r} (distance {self.distance:.2f})"


@dataclass(frozen=True, eq=False, repr=False)
class KnownEvents:
    """Named signatures of events.

    A signature is the mean over alarms of ±√share, the shares of all variables and the sign of each one's
    deviation. Each alarm's is a unit vector, whose distances are Hellinger's, with signs.
    """

    names: tuple[str, ...]
    signatures: Annotated[Array, "e d"]

    @classmethod
    def none(cls, d: int) -> KnownEvents:
        """No events, of d variables."""
        return cls((), np.empty((0, d)))

    def learned(self, name: str, signature: Array) -> KnownEvents:
        """With one more, or with another signature for a name that is known."""
        kept = [i for i, known in enumerate(self.names) if known != name]
        names = (*(self.names[i] for i in kept), name)
        return KnownEvents(names, np.vstack([self.signatures[kept], signature]))

    def nearest(self, signature: Array) -> Nearest | None:
        """The known event that is nearest; None where none is known, or nothing was explained."""
        if not self.names or not np.any(signature):
            return None
        found = [signature_distance(signature, own) for own in self.signatures]
        at = int(np.argmin(found))
        return Nearest(self.names[at], found[at])

    def __repr__(self) -> str:
        return f"KnownEvents({', '.join(self.names)})"


def signature(contributions: Array, deviations: Array) -> Array:  # (b, d), (b, d) -> (b, d)
    """±√share of each variable: a unit vector for each row in which anything raises the statistic."""
    return np.sign(deviations) * np.sqrt(shares(contributions))


def signature_distance(a: Array, b: Array) -> float:  # (d,), (d,)
    """√(1 - cosine): 0 for the same direction, 1 for no variable in common, √2 for the opposite."""
    sizes = float(np.linalg.norm(a) * np.linalg.norm(b))
    return sqrt(max(1.0 - float(a @ b) / sizes, 0.0)) if sizes > 0.0 else 1.0
