"""Deviations to try a detector with, made of normal rows: what a sensor or the process may do wrong.

Small ones tell candidates apart. Excursions, up to where nobody could overlook them, must be detected by all.
Sizes are in spreads, drawn once; every candidate of a comparison meets the same deviations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from mercer._core.types import Array, Indices

Kind: TypeAlias = Literal["bias", "drift", "several", "unrelated", "wider"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# In spreads: from hardly anything to what a person would see in the chart of the sensor itself.
SMALLEST, LARGEST = 0.3, 3.0
TOGETHER = 3  # sensors that move at once
WIDEST = 2.0  # times as far from the mean as usual, at most
FAR = (3.0, 5.0, 10.0, 30.0, 100.0)  # sizes of excursions, in spreads
# Directions of each kind that excursions take: every one, where there are no more. T² treats all axes that it
# knows alike, and Q all others, so neighbours in rank are detected alike.
DIRECTIONS = 20


@dataclass(frozen=True, eq=False)
class Deviation:
    """One thing that goes wrong, and how far."""

    kind: Kind
    columns: Indices  # (m,)
    sizes: Array  # (m,), signed, in spreads

    def __call__(self, x: Array, first: int, last: int) -> Array:  # (n, d) -> (n, d)
        """The rows with this deviation from one row to another, the latter excluded."""
        out, at, columns = x.copy(), np.arange(first, last), self.columns
        mean, spread = x[:, columns].mean(axis=0), x[:, columns].std(axis=0)
        moved = x[first:last, columns]
        if self.kind in ("bias", "several"):
            moved = moved + self.sizes * spread
        elif self.kind == "drift":
            moved = moved + np.linspace(0.0, 1.0, len(at))[:, None] * self.sizes * spread
        elif self.kind == "unrelated":  # what the sensor showed at another time: normal, alone
            moved = x[(at + len(x) // 2) % len(x)][:, columns]
        else:
            moved = mean + (moved - mean) * (1.0 + np.abs(self.sizes))
        out[first:last, columns] = moved
        return out


def deviations(x: Array, each: int, rng: np.random.Generator) -> list[Deviation]:  # (n, d)
    """As many deviations of each kind as asked for, of columns that move."""
    moving, found = np.flatnonzero(x.std(axis=0) > 0.0), []
    for kind in KINDS if len(moving) else ():
        together = min(TOGETHER, len(moving)) if kind == "several" else 1
        # Every sensor once before any is there twice.
        rounds = range(each * together // len(moving) + 1)
        order = np.concatenate([rng.permutation(moving) for _ in rounds])
        for i in range(each):
            size = np.exp(rng.uniform(np.log(SMALLEST), np.log(LARGEST)))
            size = min(size, WIDEST) if kind == "wider" else size
            signs = rng.choice([-1.0, 1.0], together)
            columns = order[i * together : (i + 1) * together]
            found.append(Deviation(kind, columns, signs * size / np.sqrt(together)))
    return found


def excursions(x: Array, rng: np.random.Generator) -> list[Deviation]:  # (n, d)
    """All sensors off together, in each of many directions and by each size of `FAR`.

    Along every principal axis the size is in spreads of the normal rows in that direction: the process goes
    farther than it ever did, in a way that it knows, which T² has to detect. Across, on axes where rows vary
    less than a column does, and for every column alone, it is in spreads of a column: relations break.
    """
    spread = x.std(axis=0)
    moving = np.flatnonzero(spread > 0.0)
    z = (x[:, moving] - x[:, moving].mean(axis=0)) / spread[moving]
    _, sizes, axes = np.linalg.svd(z / np.sqrt(len(z)), full_matrices=False)
    along, columns = sizes[:, None] * axes, np.eye(len(moving))
    kinds = (along, axes[sizes < 1.0], columns)  # each (r, d), in spreads of columns
    chosen = np.concatenate([kind[_spread_out(len(kind))] for kind in kinds])
    signs = rng.choice([-1.0, 1.0], len(chosen))
    return [
        Deviation("several", moving, sign * size * direction)
        for sign, direction in zip(signs, chosen, strict=True)
        for size in FAR
    ]


def _spread_out(r: int) -> Indices:
    """Positions of at most `DIRECTIONS` of r directions, the first and the last among them."""
    return np.unique(np.linspace(0, r - 1, min(r, DIRECTIONS)).round().astype(np.intp))
