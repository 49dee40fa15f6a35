"""Rows with their past: lagged rows of arrays, of blocks and of rows that arrive one by one.

A controller makes what a sensor shows now depend on what it showed before, and a fault may break that
relation while every single row looks normal. A lagged row (x_t, x_{t-1}, …, x_{t-l}) holds it, so that the
components of lagged rows are those of dynamic PCA (Ku, Storer & Georgakis 1995). An exponentially weighted
mean m_t = m_{t-1} + w (x_t - m_{t-1}) in place of x_t lets small changes that stay add up, as in the chart of
Lowry et al. (1992).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from mercer._core.errors import InputError, many
from mercer._core.types import Array, Flags
from mercer.data.times import read_times

# A row follows the one before when the time between them is that of sampling, give or take this share of it.
SLACK = 0.5
# A deviation in a weighted mean is also looked for as one that began so many rows before the oldest.
SETTLING = (2, 5, 15)


@dataclass(frozen=True, eq=False)
class Dynamics:
    """How a row is made of those up to it."""

    lags: int = 0  # earlier rows beside each, l; 0 leaves rows as they are
    # Whether the past is written as differences, (x_t, x_t - x_{t-1}, …, x_{t-l+1} - x_{t-l}).
    differences: bool = False
    # The weight of the newest row in the exponentially weighted mean that takes its place; None takes none.
    smoothing: float | None = None
    # The usual time between rows, in seconds or in the unit of the times; None where times are not known.
    step: float | None = None
    centre: Annotated[Array, "d"] | None = None  # where the mean starts, anew after each gap
    # How far from there a reading counts in the mean as it is; one farther out counts as that far.
    reach: Annotated[Array, "d"] | None = None
    note: str = ""  # how the number of lags was chosen, in words

    @property
    def static(self) -> bool:
        """Whether rows stay as they are."""
        return self.lags == 0 and self.smoothing is None

    def width(self, d: int) -> int:
        """Columns of a lagged row of d sensors."""
        return d * (self.lags + 1)

    def lagger(self) -> Lagger:
        """A new `Lagger`, for rows that arrive one by one."""
        return Lagger(self)

    def rows(self, x: Array, time: Any = None, follows: Flags | None = None) -> tuple[Array, Flags]:
        """The lagged rows of an array, (m, d(l + 1)), and which of its n rows they end with, (n,).

        Rows are in the order of time. One with a missing cell has no lagged row, nor have the l rows after
        it. Where the step in ``time``, numbers or dates, is not the usual one, history begins anew; a row
        whose time can't be read counts as one step after the row before. ``follows`` says which rows follow
        the one before, where that is known otherwise.
        """
        complete = np.asarray(~np.isnan(x).any(axis=1))
        if self.static:
            return (x if complete.all() else x[complete]), complete
        linked = self.links(len(x), time) if follows is None else np.asarray(follows)
        x = self._smoothed(x, complete, linked)
        whole = ages(complete, linked) >= self.lags
        at = np.flatnonzero(whole)
        return self._joined([x[at - i] for i in range(self.lags + 1)]), whole

    def links(self, n: int, time: Any = None) -> Flags:  # (n,)
        """Which rows follow the one before; the first follows none."""
        linked = np.ones(n, dtype=bool)
        clock = None if self.step is None else clock_of_rows(time, n)
        if clock is not None and self.step is not None:
            for i in np.flatnonzero(np.isnan(clock)):
                clock[i] = clock[i - 1] + self.step if i else np.nan
            steps = np.diff(clock)
            linked[1:] = follow(steps, self.step) | np.isnan(steps)  # before the first known time
        linked[:1] = False
        return linked

    def _smoothed(self, x: Array, complete: Flags, linked: Flags) -> Array:  # (n, d) -> (n, d)
        if self.smoothing is None:
            return x
        out, mean = self._within(x), None
        for i, (known, link) in enumerate(zip(complete.tolist(), linked.tolist(), strict=True)):
            mean = mean if link else None
            if known:
                out[i] = mean = self._mean(mean, out[i])
        return out

    def _within(self, x: Array) -> Array:  # (…, d) -> (…, d)
        """Readings as they count in the mean: none farther out than it reaches."""
        if self.centre is None or self.reach is None:
            return x.copy()
        return np.clip(x, self.centre - self.reach, self.centre + self.reach).astype(x.dtype)

    def _mean(self, mean: Array | None, row: Array) -> Array:  # (d,), (d,) -> (d,)
        """The weighted mean with one row more, from the centre on, which obeys the sensors' relations."""
        assert self.smoothing is not None
        if mean is None:
            mean = row if self.centre is None else self.centre.astype(row.dtype, copy=False)
        return mean + row.dtype.type(self.smoothing) * (row - mean)

    def _joined(self, past: Sequence[Array]) -> Array:  # l + 1 of (…, d) -> (…, d(l + 1))
        if self.differences:
            with np.errstate(over="ignore"):  # infinitely far apart: an alarm
                steps = [late - early for late, early in pairwise(past)]
            past = [past[0], *steps]
        return np.concatenate(past, axis=-1)

    # ── back to sensors ─────────────────────────────────────────────────────
    def folded(self, values: Array) -> Array:  # (b, d(l + 1)) -> (b, l + 1, d)
        """Values of the columns of lagged rows, by lag and sensor.

        A difference x_{t-i+1} - x_{t-i} stands at lag i, where it begins.
        """
        return values.reshape(len(values), self.lags + 1, values.shape[1] // (self.lags + 1))

    def ways(self, unit: Array) -> Array | None:  # (D,) -> (d, p, D)
        """How a deviation of each sensor shows in scaled lagged rows, by when it began; None where static.

        ``unit`` are the spreads that columns are divided by. A deviation of 1 that began i rows ago is 1 at
        lags 0 to i, in a weighted mean 1 - (1 - w)^(i - j + 1) at lag j. Each is brought to 1 at lag 0.
        """
        if self.static:
            return None
        ages = [*range(self.lags + 1), *(self.lags + n for n in SETTLING if self.smoothing)]
        since = np.maximum(np.array(ages)[:, None] - np.arange(self.lags + 1) + 1, 0)  # (p, l + 1)
        keeps = 0.0 if self.smoothing is None else 1.0 - self.smoothing
        shown = self._joined(list((1.0 - keeps**since).T[:, :, None]))  # (p, l + 1)
        d = len(unit) // (self.lags + 1)
        out = np.zeros((d, len(ages), len(unit)))
        for j in range(d):
            out[j][:, j::d] = shown / unit[j::d]
            out[j] /= out[j][:, [j]]
        return out

    def names(self, names: Sequence[Any] | None, d: int) -> list[str] | None:
        """Names of the columns of lagged rows: "flow", "flow (1 row before)", …"""
        if names is None and self.lags == 0:
            return None
        plain = [f"x{j}" for j in range(d)] if names is None else [str(name) for name in names]
        later = [f" ({many(i, 'row')} before)" for i in range(1, self.lags + 1)]
        return [name + when for when in ["", *later] for name in plain]

    def in_words(self) -> str:
        """'2 lags (chosen by …), smoothed with weight 0.2'; nothing of rows as they are."""
        parts = []
        if self.lags or self.note:
            kind = "differences over " if self.differences else ""
            note = f" ({self.note})" if self.note else ""
            parts.append(f"{kind}{many(self.lags, 'lag')}{note}")
        if self.smoothing is not None:
            parts.append(f"rows smoothed with weight {self.smoothing:g}")
        return ", ".join(parts)


STATIC = Dynamics()


@dataclass(eq=False)
class Lagger:
    """Lagged rows of rows that arrive one by one. Its state is a few rows, and pickles.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.monitoring.lags import Dynamics
    >>> lagger = Dynamics(lags=1, step=1.0).lagger()
    >>> [lagger.push(np.array([x]), time) for time, x in [(0, 5.0), (1, 6.0), (9, 7.0), (10, 8.0)]]
    [None, array([6., 5.]), None, array([8., 7.])]
    """

    dynamics: Dynamics
    past: deque[Array] = field(default_factory=deque)  # the newest first, at most l of them
    mean: Array | None = None
    time: float | None = None
    after_gap: bool = False  # whether the newest row is not one usual step after the one before

    def push(self, row: Any, time: Any = None) -> Array | None:  # (d,) -> (d(l + 1),)
        """The lagged row that ends with this one; None where a cell is missing or history is too short.

        After a step in ``time``, a number or a date, that is not the usual one, history begins anew.
        """
        row = np.asarray(row)
        self._clock(time)
        how = self.dynamics
        if np.isnan(row).any():
            self.past.clear()  # the mean goes on: one cell says little of it
            return None
        if how.smoothing is not None:
            row = self.mean = how._mean(self.mean, how._within(row))
        past = [row, *self.past]
        if how.lags:
            self.past.appendleft(row)
            if len(self.past) > how.lags:
                self.past.pop()
        return how._joined(past) if len(past) > how.lags else None

    def _clock(self, time: Any) -> None:
        now, step = seconds(time), self.dynamics.step
        self.after_gap = False
        if self.time is not None and step is not None:
            now = self.time + step if now is None else now
            self.after_gap = not follow(now - self.time, step)
        if self.after_gap:
            self.past.clear()
            self.mean = None
        self.time = now

    def state(self) -> dict[str, Any]:
        mean = None if self.mean is None else self.mean.tolist()
        return {"past": [row.tolist() for row in self.past], "mean": mean, "time": self.time}

    def restore(self, state: dict[str, Any], dtype: Any) -> None:
        """Go on from a state, with rows in the precision that they had."""
        self.past = deque(np.array(row, dtype) for row in state["past"])
        self.mean = None if state["mean"] is None else np.array(state["mean"], dtype)
        self.time = state["time"]


def ages(complete: Flags, linked: Flags) -> Array:  # (n,), (n,) -> (n,)
    """Rows of unbroken history before each row; -1 of one that is not complete."""
    at = np.arange(len(linked))
    begins = np.where(complete, np.where(linked, 0, at), at + 1)
    return np.asarray(at - np.maximum.accumulate(begins))


# ── time ────────────────────────────────────────────────────────────────────
def follow(steps: Any, usual: float) -> Any:
    """Whether rows that are these steps apart are neighbours: not late, not early, not at the same time."""
    return np.abs(steps - usual) <= SLACK * usual


def clock_of(time: Any) -> Array | None:  # (n,)
    """Times as numbers, dates in seconds; NaN for what can't be read, None where that is all of them."""
    times = np.asarray(time)
    kind = times.dtype.kind
    clock = times.astype(np.float64) if kind in "iuf" else np.full(times.shape, np.nan)
    if kind == "U":
        with suppress(ValueError):  # a column of numbers, as a file has it
            clock, kind = times.astype(np.float64), "f"
    if kind in "UO":
        clock = np.array([_number(cell) for cell in times.tolist()], dtype=np.float64)
    if kind in "UOM":
        other = np.flatnonzero(np.isnan(clock))
        dates = read_times(times[other]) if len(other) else None
        if dates is not None:
            clock[other] = (dates - np.datetime64(0, "us")) / np.timedelta64(1, "s")
    known = np.isfinite(clock)
    return np.where(known, clock, np.nan) if known.any() else None


def _number(cell: Any) -> float:
    """A time that is a number, or the text of one; NaN for all else."""
    if isinstance(cell, (int, float, str, np.number)) and not isinstance(cell, bool):
        with suppress(TypeError, ValueError, OverflowError):
            return float(cell)
    return np.nan


def seconds(time: Any) -> float | None:
    """A time as a number, dates in seconds; None for what is neither, such as the name of a batch."""
    if time is None:
        return None
    one = np.empty(1, dtype=object)  # a list in place of a time is no array of times
    one[0] = time
    clock = clock_of(one)
    return None if clock is None else float(clock[0])


def of_rows(time: Any, n: int) -> Array:  # (n,)
    """Times, one for each row; those of pandas with a zone in UTC."""
    if np.shape(time) != (n,):
        msg = f"time must have one entry for each of the {n} rows; got shape {np.shape(time)}."
        raise InputError(msg)
    dtype: Any = getattr(time, "dtype", None)
    return np.asarray(time, dtype=f"M8[{dtype.unit}]" if getattr(dtype, "tz", None) else None)


def clock_of_rows(time: Any, n: int) -> Array | None:  # (n,)
    """`clock_of` the times of n rows; None where there are none."""
    return None if time is None else clock_of(of_rows(time, n))


def usual_step(time: Any, n: int) -> float | None:
    """The median time between rows; None where times are not known, or don't go on."""
    clock = clock_of_rows(time, n)
    steps = np.empty(0) if clock is None else np.diff(clock)
    steps = steps[np.isfinite(steps)]
    step = float(np.median(steps)) if len(steps) else 0.0
    return step if np.isfinite(step) and step > 0.0 else None
