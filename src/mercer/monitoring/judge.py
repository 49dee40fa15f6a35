"""Rows judged as they arrive: verdicts that are those of a file to the bit, marks, events, and a state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from mercer._core.errors import InputError, refuse
from mercer._core.types import Array
from mercer.monitoring.alarm_rule import AlarmRule
from mercer.monitoring.alarms import gains, leading, least_index, shares
from mercer.monitoring.clock import FIRST_ROWS, OUT_OF_TURN, Clock, warn_pace
from mercer.monitoring.contributions import Baselines, has_slopes
from mercer.monitoring.drift import Drift, DriftReport
from mercer.monitoring.events import Event, Verdict, plain_time
from mercer.monitoring.lags import Lagger
from mercer.monitoring.library import KnownEvents
from mercer.monitoring.sensors import Sensors, Watch
from mercer.monitoring.tracker import Judged, Tracker

STATE_VERSION = 2


class Judging(Protocol):
    """What a stream asks a fitted detector."""

    gauge: Any
    rule: Any
    limits: Any
    kernel: Any
    offset: float
    dtype: Any
    calibration: Any

    def scaled(self, rows: Array) -> Array: ...
    def index(self, found: Any) -> Array: ...
    def own(self, values: Array) -> Array: ...


class RowByRow(ABC):
    """A stream that judges blocks of rows, and so single ones."""

    @abstractmethod
    def push_many(self, rows: Any, times: Any = None) -> list[Verdict]:
        """Judge the next rows."""

    def push(self, row: Any, time: Any = None) -> Verdict:
        """Judge the next row.

        Parameters
        ----------
        row : array-like of shape (d,)
            NaN, or None, where a reading is missing.
        time : number, date or text, optional
            When it was taken; its count otherwise.

        Returns
        -------
        verdict : Verdict
        """
        return self.push_many([row], None if time is None else [time])[0]


class LiveStream(RowByRow):
    """Judges rows when they arrive. `KernelPCADetector.stream` makes one.

    Its memory does not grow with the rows, and nothing that a row may hold ends it.

    Attributes
    ----------
    rows : int
        Rows so far.
    counts : dict of str to int
        Rows that were alarms, not judged, late, repeated, after a clock that was put back or without a time;
        those of a detector that looks back that followed a gap ("gaps"), and complete ones with too few rows
        before them ("short"); events; readings that were missing, frozen or out of range.
    """

    def __init__(
        self,
        judge: Judging,
        baselines: Baselines,
        *,
        names: Sequence[str],
        rule: AlarmRule,
        top: int,
        sensors: Sensors | None,
        known: KnownEvents,
        lagger: Lagger | None = None,
        ways: Array | None = None,  # those of `gains`
    ) -> None:
        self._judge, self._baselines = judge, baselines
        self._lagger, self._ways = lagger, ways
        self.names, self.rule = tuple(names), rule
        self._top = min(top, len(self.names)) if has_slopes(judge.kernel) else 0
        self.limit = -judge.offset
        self._watch, self._clock = Watch(sensors, len(self.names)), Clock()
        self._tracker = Tracker(rule, self.names, self._gains, known)
        calibration = judge.calibration
        usual = None if calibration is None else float(np.mean(np.minimum(calibration.index, 1.0)))
        self._drift = Drift(self.names, usual, baselines.middle, baselines.spread)
        self.rows = 0
        self._counts: Counter[str] = Counter()
        # The parts with a memory, by their names in a state.
        self._parts: dict[str, Any] = {"watch": self._watch, "clock": self._clock}
        self._parts |= {"tracker": self._tracker, "drift": self._drift}

    # ── rows ────────────────────────────────────────────────────────────────
    def push_many(self, rows: Any, times: Any = None, *, clock: Any = None) -> list[Verdict]:
        """Judge the next rows: the same verdicts as of one after the other, to the bit.

        Parameters
        ----------
        rows : array-like of shape (b, d)
        times : sequence of b times, optional
            None for a row whose time is not known: it is named by its count.
        clock : sequence of b numbers or dates, optional
            When the rows were taken, where ``times`` are names that don't say so by themselves.

        Returns
        -------
        verdicts : list of Verdict
        """
        x = self._read(rows)  # (b, d)
        # Without times rows follow each other, whatever step the detector knows.
        named = [None] * len(x) if times is None else list(times)
        known = named if clock is None else list(clock)
        if {len(named), len(known)} != {len(x)}:
            got = f"{len(named)}" if clock is None else f"{len(named)}, and a clock of {len(known)}"
            msg = f"times must have one entry for each of the {len(x)} rows; got {got}."
            raise InputError(msg)
        stamps = [self.rows + i if time is None else time for i, time in enumerate(named)]
        marks = {kind: flags for kind, flags in self._watch(x).items() if flags.any()}
        clocks = [self._clock(time, expected=clock is not None) for time in known]
        lagged, place, gaps = self._lagged(x, known, clocks)  # (m, D), (b,), (b,)
        scaled = self._judge.scaled(lagged) if len(lagged) else lagged
        found = self._judge.gauge.steady(scaled)
        index = self._judge.index(found)
        out = []
        for i, (time, late) in enumerate(zip(stamps, clocks, strict=True)):
            at, seen = int(place[i]), None
            if at >= 0:
                seen = (float(found.t2[at]), float(found.q[at]), float(index[at]), scaled[at])
            marked = tuple((k, self.names[j]) for k in marks for j in marks[k][i].nonzero()[0])
            marked += ((late, ""),) if late else ()
            if self._lagger is not None:
                short = at < 0 and not np.isnan(x[i]).any()  # too few rows before it
                self._counts.update(gaps=bool(gaps[i]), short=bool(short))
                if self.rows + 1 == FIRST_ROWS:
                    warn_pace(self._lagger.dynamics, self._counts["gaps"], time)
                marked += (("gap", ""),) if gaps[i] else ()
            out.append(self._verdict(x[i], time, seen, marked))
        return out

    def close(self) -> list[Event]:
        """End the event that lasts, since there are no more rows, and give it."""
        return self._tracker.close()

    # ── what is known ───────────────────────────────────────────────────────
    @property
    def current(self) -> Event | None:
        """The event that lasts."""
        return self._tracker.current

    @property
    def earliest(self) -> int:
        """No event that begins after the rows so far has an earlier first row."""
        return self._tracker.earliest(self.rows)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows, alarms, events, and marks of each kind there were."""
        sensors = {kind: int(found.sum()) for kind, found in self._watch.counts.items()}
        found = {name: self._counts[name] for name in ("alarms", "unjudged", "gaps", "short")}
        events = {"events": self._tracker.count}
        return {"rows": self.rows} | found | events | self._clock.counts | sensors

    def sensor_counts(self) -> dict[str, dict[str, int]]:
        """Rows in which each sensor was missing, frozen or out of range, of those that ever were."""
        found = self._watch.counts.items()
        return {
            name: {kind: int(n[j]) for kind, n in found if n[j]}
            for j, name in enumerate(self.names)
            if any(n[j] for _, n in found)
        }

    def drift(self) -> DriftReport:
        """Whether the process has left slowly what the model knows."""
        return self._drift.report()

    def seen_normal(self, ratio: float, scaled: Array) -> None:
        """Let a row count for `drift` that was judged elsewhere: its index over the limit, and itself."""
        self._drift.add(ratio, scaled)

    def shelve(self, rows: int, variable: str | None = None) -> None:
        """Record events, and don't announce them, for so many rows.

        Parameters
        ----------
        rows : int
        variable : str, optional
            Only events that begin with this one.
        """
        if variable is not None and variable not in self.names:
            refuse("variable", variable, f"one of {', '.join(self.names)}", repr(variable))
        self._tracker.shelve(self.rows, int(rows), variable or "")

    # ── state ───────────────────────────────────────────────────────────────
    def state(self) -> dict[str, Any]:
        """Everything but the model, as JSON can hold it; `restore` goes on from there."""
        return {
            "version": STATE_VERSION,
            "names": list(self.names),
            "limits": self._marks_of_model(),
            "rows": self.rows,
            "counts": dict(self._counts),
            "past": None if self._lagger is None else self._lagger.state(),
            **{name: part.state() for name, part in self._parts.items()},
        }

    def knows(self, state: dict[str, Any]) -> bool:
        """Whether a state is one of a stream of the same model.

        Parameters
        ----------
        state : dict
        """
        same = (STATE_VERSION, list(self.names), self._marks_of_model())
        return (state.get("version"), state.get("names"), state.get("limits")) == same

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state, as if the stream had never stopped.

        Parameters
        ----------
        state : dict
            Of a stream of the same model.
        """
        if not self.knows(state):
            msg = (
                "state must be that of a stream of the same model; its version, variables or limits differ. "
                "Begin a new state, or use the model that wrote it."
            )
            raise InputError(msg)
        for name, part in self._parts.items():
            part.restore(state[name])
        self.rows, self._counts = state["rows"], Counter(state["counts"])
        if self._lagger is not None:
            self._lagger.restore(state["past"], self._judge.dtype)

    def _marks_of_model(self) -> list[float]:
        """The limits of the model, which no two fits share."""
        limits = self._judge.limits
        return [float(limits.t2), float(limits.q), self.limit]

    # ── how ─────────────────────────────────────────────────────────────────
    def _read(self, rows: Any) -> Array:  # (b, d), NaN where cells are missing
        """Rows as a file of them would be read: in the precision of the fit, no number infinite."""
        try:
            x = np.asarray(rows, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            x = np.array([[_number(cell) for cell in row] for row in rows], dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != len(self.names):
            must_be = f"rows of {len(self.names)} readings, {', '.join(self.names[:5])}, …"
            refuse("row", x.shape, must_be, f"shape {x.shape}")
        with np.errstate(over="ignore"):
            x = x.astype(self._judge.dtype)
        return x if np.isfinite(x).all() else np.nan_to_num(x, nan=np.nan)

    def _lagged(self, x: Array, stamps: list[Any], clocks: list[str]) -> tuple[Array, Any, Any]:
        """The rows that can be judged, (m, D), the place of each among them, or -1, and which follow gaps."""
        found: list[Array] = []
        place, gaps = np.full(len(x), -1), np.zeros(len(x), dtype=bool)
        if self._lagger is None:
            judged = ~np.isnan(x).any(axis=1)
            place[judged] = np.arange(judged.sum())
            return x[judged], place, gaps
        for i, (row, time) in enumerate(zip(x, stamps, strict=True)):
            if clocks[i] in OUT_OF_TURN:
                continue
            lagged = self._lagger.push(row, time)
            gaps[i] = self._lagger.after_gap
            if lagged is not None:
                place[i] = len(found)
                found.append(lagged)
        width = self._baselines.rows.shape[1]
        return np.array(found) if found else np.empty((0, width), x.dtype), place, gaps

    def _verdict(
        self, row: Array, time: Any, found: Any, marks: tuple[tuple[str, str], ...]
    ) -> Verdict:
        judged, nan = found is not None, float("nan")
        t2, q, index, scaled = found or (nan, nan, nan, None)
        at_least = index if judged else self._at_least(row)
        # An index that is no number is not normal; of a row that lacks cells it says that nothing is known.
        alarm = not at_least <= self.limit if judged else at_least > self.limit
        ratio = at_least / self.limit
        shown = self._explained(scaled) if alarm and judged and self._top else (None, None)
        top = () if shown[0] is None else leading(shares(shown[0]), self.names, self._top)
        kept = scaled if alarm else None
        seen = Judged(self.rows, plain_time(time), alarm, judged, ratio, kept, *shown)
        kind = "drift" if self._drift.rising else "fault"
        if any(mark in OUT_OF_TURN for mark, _ in marks):  # it stays outside of the alarm rule
            state, began, ended = self._tracker.standing, None, None
        else:
            state, began, ended = self._tracker(seen, kind)
        if judged and state != "raised":
            self._drift.add(ratio, scaled)  # type: ignore[arg-type]  # judged rows have one
        self._counts["alarms"] += int(alarm)
        self._counts["unjudged"] += int(not judged)
        self.rows += 1
        values = (seen.row, time, t2, q, index, self.limit, alarm, judged, at_least)
        return Verdict(*values, tuple(top), marks, state, self._tracker.number, began, ended)

    def _at_least(self, row: Array) -> float:
        """The least index of a row with missing cells; NaN of lagged rows, of which nothing is known."""
        if self._lagger is not None:
            return float("nan")
        judge, absent = self._judge, np.isnan(row)
        filled = judge.scaled(np.where(absent, 0.0, row)[None].astype(row.dtype))[0]
        cells = np.where(absent, np.nan, filled)

        return least_index(
            lambda x: judge.index(judge.gauge.steady(x)), self._baselines, cells, self.limit
        )

    def _gains(self, x: Array) -> Array:  # (b, D) -> (b, d)
        judge, base = self._judge, self._baselines
        measure = base.measure(lambda y: judge.index(judge.gauge(y)))
        return gains(measure, base, x, self._ways)

    def _explained(self, scaled: Any) -> tuple[Array, Array]:  # (D,) -> (d,), (d,)
        """Contributions to the index of a row, and how far each variable lies from normal."""
        judge, base, one = self._judge, self._baselines, scaled[None]
        by = judge.rule.statistic
        found, _ = base.explain_within_reach(judge.gauge, judge.limits, one, by)
        off = one - base(one)
        d = len(self.names)  # columns of lagged rows are summed for each sensor
        return judge.own(found).reshape(-1, d).sum(axis=0), off[0, :d]


def _number(cell: Any) -> float:
    """A reading; NaN for what is not a number, such as the "Bad" of a historian."""
    try:
        return float(cell)
    except OverflowError:  # an integer beyond all floats
        return np.inf if cell > 0 else -np.inf
    except (TypeError, ValueError):
        return np.nan
