"""What sensors do by themselves: cells that are missing, readings that stand still or leave all range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from mercer._core.types import Array, Flags, Indices, Rows
from mercer.engine.base import Engine
from mercer.engine.moments import BLOCK_ROWS

# A sensor is frozen when it repeats itself for longer than this many times the longest such stretch of the
# training rows, and no less than FEWEST rows. An analyser that reports every tenth row is not frozen between.
TIMES, FEWEST = 3.0, 10
KINDS = ("missing", "frozen", "range")


@dataclass(frozen=True, repr=False)
class Sensors:
    """What each sensor did in the training rows."""

    low: Annotated[Array, "d"]
    high: Annotated[Array, "d"]
    still: Annotated[Array, "d"]  # rows of the longest stretch of equal readings

    @classmethod
    def of(cls, engine: Engine[Any], rows: Rows) -> Sensors:  # (n, d)
        """The ranges and the longest stretches of these rows, wherever they are."""
        seen = engine.fold(rows, _Stretches.of, height=BLOCK_ROWS)
        return cls(seen.low, seen.high, seen.longest.astype(np.float64))

    def followed(self, rows: Array, memory: int) -> Sensors:  # (n, d)
        """Sensors after n rows more, with each of which what was before loses 1/memory of its weight."""
        latest = rows[-memory:]
        seen = _Stretches.of(latest, slice(0, len(latest)))
        old = (1.0 - 1.0 / memory) ** len(rows)
        low, high = np.minimum(self.low, seen.low), np.maximum(self.high, seen.high)
        return Sensors(
            old * low + (1.0 - old) * seen.low,
            old * high + (1.0 - old) * seen.high,
            np.maximum(old * self.still, seen.longest),
        )

    @property
    def patience(self) -> Array:  # (d,)
        """Equal readings after which a sensor is frozen; never for one that always stood still."""
        rows = np.maximum(TIMES * self.still, FEWEST)
        return np.where(self.high > self.low, rows, np.inf)

    def outside(self, rows: Array) -> Flags:  # (b, d) -> (b, d)
        """Readings beyond the training range by more than its width; NaN is in any range."""
        width = self.high - self.low
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray((rows < self.low - width) | (rows > self.high + width))


@dataclass(frozen=True, repr=False)
class _Stretches:
    """Ranges and stretches of equal readings in neighbouring rows: parts that merge."""

    low: Array
    high: Array
    longest: Indices
    head: Indices  # rows at the beginning that are all the same
    tail: Indices  # and at the end
    first: Array
    last: Array
    n: int

    @classmethod
    def of(cls, rows: Array, place: slice) -> _Stretches:
        del place
        n = len(rows)
        length = np.ones(rows.shape[1], dtype=np.intp)
        longest, head = length.copy(), np.zeros(rows.shape[1], dtype=np.intp)
        for i, same in enumerate(rows[1:] == rows[:-1], start=1):
            head[(head == 0) & ~same] = i
            length = np.where(same, length + 1, 1)
            np.maximum(longest, length, out=longest)
        head[head == 0] = n
        edges = rows[0].astype(np.float64), rows[-1].astype(np.float64)
        low, high = (f(rows, axis=0).astype(np.float64) for f in (np.min, np.max))
        return cls(low, high, longest, head, length, *edges, n)

    def merged(self, other: _Stretches) -> _Stretches:
        joins = self.last == other.first
        across = np.where(joins, self.tail + other.head, 0)
        return _Stretches(
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            np.maximum(np.maximum(self.longest, other.longest), across),
            np.where(joins & (self.head == self.n), self.n + other.head, self.head),
            np.where(joins & (other.tail == other.n), other.n + self.tail, other.tail),
            self.first,
            other.last,
            self.n + other.n,
        )


class Watch:
    """Which cells are missing, frozen or out of range as rows of d sensors arrive, and how many.

    Of a model that is older than `Sensors`, missing cells alone are marked.
    """

    def __init__(self, sensors: Sensors | None, d: int) -> None:
        self._sensors = sensors
        self._patience = None if sensors is None else sensors.patience
        self._last = np.full(d, np.nan)
        self._length = np.zeros(d, dtype=np.intp)
        self.counts = {kind: np.zeros(d, dtype=np.intp) for kind in KINDS}  # rows of each sensor

    def __call__(self, rows: Array) -> dict[str, Flags]:  # (b, d) -> (b, d) each
        """The marks of the next rows. A missing cell neither ends nor lengthens a stretch."""
        missing = np.isnan(rows)
        found = {"missing": missing}
        if self._sensors is not None:
            found["frozen"] = self._frozen(rows, missing)
            found["range"] = self._sensors.outside(rows)
        for kind, flags in found.items():
            if flags.any():
                self.counts[kind] += flags.sum(axis=0)
        return found

    def _frozen(self, rows: Array, missing: Flags) -> Flags:
        assert self._sensors is not None
        out, gaps = np.zeros(rows.shape, dtype=bool), np.asarray(missing.any(axis=1))
        for i, row in enumerate(rows):
            grown = (row == self._last) * self._length + 1
            if gaps[i]:
                absent = missing[i]
                grown = np.where(absent, self._length, grown)
                row = np.where(absent, self._last, row)  # noqa: PLW2901 - as it is seen
            self._length, self._last = grown, row
            out[i] = grown > self._patience
        return out & ~missing if gaps.any() else out

    # ── state ───────────────────────────────────────────────────────────────
    def state(self) -> dict[str, Any]:
        last = [None if np.isnan(value) else float(value) for value in self._last]
        counts = {kind: found.tolist() for kind, found in self.counts.items()}
        return {"last": last, "length": self._length.tolist(), "counts": counts}

    def restore(self, state: dict[str, Any]) -> None:
        self._last = np.array([np.nan if v is None else v for v in state["last"]], dtype=np.float64)
        self._length = np.array(state["length"], dtype=np.intp)
        self.counts = {kind: np.array(n, dtype=np.intp) for kind, n in state["counts"].items()}


def in_words(marks: Sequence[tuple[str, str]]) -> str:
    """'frozen: level; missing: flow, heat'."""
    kinds = dict.fromkeys(kind for kind, _ in marks)
    parts = [(kind, ", ".join(name for k, name in marks if k == kind and name)) for kind in kinds]
    return "; ".join(f"{kind}: {names}" if names else kind for kind, names in parts)
