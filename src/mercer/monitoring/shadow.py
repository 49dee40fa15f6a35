"""Two models on the same rows: the one that counts, and one in its shadow that may take its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mercer._core.errors import many
from mercer.monitoring.events import Event, Verdict
from mercer.monitoring.judge import LiveStream, RowByRow

SIDES = ("old", "new")
PAIRS = ("only", "alarms", "unjudged")  # what is counted of either model
LATEST = 10  # events of one model alone that are kept in words


@dataclass(frozen=True)
class ShadowReport:
    """What the model in the shadow would have changed. Print it."""

    rows: int  # that both models could judge
    both: int  # of these, alarms of both models, and of one alone
    only_old: int
    only_new: int
    events_old: int
    events_new: int
    alarms_old: int = 0  # on whatever rows
    alarms_new: int = 0
    unjudged_old: int = 0  # rows that this model could not judge, and the other could
    unjudged_new: int = 0
    events_only_old: int = 0  # events that share no row with one of the other
    events_only_new: int = 0
    latest_only_old: tuple[str, ...] = ()  # the last ten of these, in words
    latest_only_new: tuple[str, ...] = ()

    @property
    def agreement(self) -> float:
        """The share of the rows that both could judge on which both say the same; NaN without such rows."""
        return 1.0 - (self.only_old + self.only_new) / self.rows if self.rows else float("nan")

    def in_words(self, old: str, new: str) -> str:
        """The report, with these names for the model that counts and the one in its shadow."""
        text = (
            f"{self.rows} rows that both could judge: {old} has {self.alarms_old} alarms in "
            f"{many(self.events_old, 'event')}, {new} {self.alarms_new} in {self.events_new}"
        )
        text += f"; they agree on {100 * self.agreement:.1f} % of the rows." if self.rows else "."
        for name, unjudged in ((old, self.unjudged_old), (new, self.unjudged_new)):
            if unjudged:
                text += f" {name} could not judge {many(unjudged, 'row')}, for want of readings."
        alarms = "Alarms", self.only_old, self.only_new
        for what, one, other in (alarms, ("Events", self.events_only_old, self.events_only_new)):
            if one or other:
                text += f" {what} of {old} alone: {one}, of {new} alone: {other}."
        return text

    def __str__(self) -> str:
        return self.in_words("the old model", "the new model")


# ── events beside each other ────────────────────────────────────────────────
@dataclass
class _Span:
    """An event by its rows."""

    first: int
    last: int
    told: str  # in words
    settled: bool = False  # whether it was counted as one of both models, or of one alone

    @classmethod
    def of(cls, event: Event, shift: int) -> _Span:
        return cls(event.first + shift, event.last + shift, str(event))

    def meets(self, others: Iterable[_Span]) -> bool:
        return any(self.first <= other.last and other.first <= self.last for other in others)


@dataclass
class _Side:
    """The events of one model, as far as they may still meet one of the other."""

    open: _Span | None = None  # the event that lasts
    over: list[_Span] = field(default_factory=list)
    events: int = 0
    alone: int = 0
    latest: list[str] = field(default_factory=list)

    def lasting(self, now: int) -> list[_Span]:
        """The event that lasts, as if it were over with the last row."""
        return [] if self.open is None else [replace(self.open, last=now - 1)]

    def settle(self, span: _Span, *, alone: bool) -> None:
        span.settled = True
        if alone:
            self.alone += 1
            self.latest = [*self.latest, span.told][-LATEST:]


class Agreement:
    """Counts where two models agree, row by row and event by event, in bounded memory.

    An event of one model is its own when it shares no row with an event of the other. That is settled only
    when no event of the other can begin so early any more: a rule of 3 of 5 raises an event some rows after
    its first alarm.
    """

    def __init__(self, *, whole: bool = False) -> None:
        self._whole = whole  # whether only complete rows count, as in the report on a file
        self._counts: Counter[str] = Counter()
        self._sides = (_Side(), _Side())
        self._row = 0  # of either stream, counted from the first row that both have judged

    def add(self, one: Verdict, other: Verdict) -> None:
        """The verdicts of both models on the next row."""
        mine, theirs = (v.alarm and (v.judged or not self._whole) for v in (one, other))
        # A row that lacks cells and is an alarm whatever they are is judged too.
        known = one.judged or mine, other.judged or theirs
        found = {"alarms_old": mine, "alarms_new": theirs}
        if all(known):
            found |= {"rows": True, "both": mine and theirs}
            found |= {"only_old": mine and not theirs, "only_new": theirs and not mine}
        elif any(known):
            found["unjudged_new" if known[0] else "unjudged_old"] = True
        for name, count in found.items():
            self._counts[name] += int(count)
        for side, verdict in zip(self._sides, (one, other), strict=True):
            shift = self._row - verdict.row  # a stream may have begun before the other
            if verdict.began is not None:
                side.events, side.open = side.events + 1, _Span.of(verdict.began, shift)
            if verdict.ended is not None:
                side.over.append(_Span.of(verdict.ended, shift))
                side.open = None
        self._row += 1

    def settle(self, *streams: LiveStream) -> None:
        """Count the events whose match can't change any more. The streams have judged the rows so far."""
        # No event that begins from now on has an earlier first row.
        horizon = [
            self._row - (stream.rows - stream.earliest) if side.open is None else side.open.first
            for side, stream in zip(self._sides, streams, strict=True)
        ]
        for at, side in enumerate(self._sides):
            other = self._sides[1 - at]
            for span in side.over:
                met = span.meets(other.over)
                if not span.settled and (met or span.last < horizon[1 - at]):
                    side.settle(span, alone=not met)
        for at, side in enumerate(self._sides):
            waiting = [span.first for span in self._sides[1 - at].over if not span.settled]
            least = min([horizon[1 - at], *waiting])
            side.over = [span for span in side.over if not span.settled or span.last >= least]

    def report(self) -> ShadowReport:
        """The counts so far; an event that is not settled yet counts by what is known now."""
        found: dict[str, Any] = {name: self._counts[name] for name in ("rows", "both")}
        for at, name in enumerate(SIDES):
            side, other = self._sides[at], self._sides[1 - at]
            others = [*other.over, *other.lasting(self._row)]
            unsettled = [span for span in side.over if not span.settled] + side.lasting(self._row)
            alone = [span.told for span in unsettled if not span.meets(others)]
            for what in PAIRS:
                found[f"{what}_{name}"] = self._counts[f"{what}_{name}"]
            found[f"events_{name}"] = side.events
            found[f"events_only_{name}"] = side.alone + len(alone)
            found[f"latest_only_{name}"] = tuple([*side.latest, *alone][-LATEST:])
        return ShadowReport(**found)

    # ── state ───────────────────────────────────────────────────────────────
    def state(self) -> dict[str, Any]:
        sides = [asdict(side) for side in self._sides]
        return {"counts": dict(self._counts), "sides": sides, "row": self._row}

    @classmethod
    def of(cls, state: dict[str, Any], *, swapped: bool = False) -> Agreement:
        """Go on from a state, with the models the other way round where they were swapped."""
        found = cls()
        found._counts, found._row = Counter(state["counts"]), int(state["row"])
        sides = [_side_of(side) for side in state["sides"]]
        if swapped:
            sides.reverse()
            for what in PAIRS:
                old, new, counts = f"{what}_old", f"{what}_new", found._counts
                counts[old], counts[new] = counts[new], counts[old]
        found._sides = (sides[0], sides[1])
        return found


def _side_of(state: dict[str, Any]) -> _Side:
    lasts, over = state["open"], [_Span(**span) for span in state["over"]]
    return _Side(**(state | {"open": None if lasts is None else _Span(**lasts), "over": over}))


class ShadowStream(RowByRow):
    """Judges rows by two streams. Verdicts are those of the first; the second is watched.

    Parameters
    ----------
    old, new : LiveStream
        Of two detectors of the same variables.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCADetector
    >>> from mercer.monitoring.shadow import ShadowStream
    >>> rows = np.random.default_rng(0).standard_normal((300, 2))
    >>> old, new = KernelPCADetector().fit(rows), KernelPCADetector().fit(rows + 1.0)
    >>> both = ShadowStream(old.stream(), new.stream())
    >>> both.push([5.0, 5.0]).alarm, both.report().agreement
    (True, 1.0)
    """

    def __init__(self, old: LiveStream, new: LiveStream) -> None:
        self.old, self.new = old, new
        self._agreement = Agreement()

    def push_many(self, rows: Any, times: Any = None) -> list[Verdict]:
        """Judge the next rows by both streams; all else is that of `LiveStream.push_many`."""
        found = self.old.push_many(rows, times)
        for one, other in zip(found, self.new.push_many(rows, times), strict=True):
            self._agreement.add(one, other)
        self._agreement.settle(self.old, self.new)
        return found

    def report(self) -> ShadowReport:
        """What would have changed so far."""
        return self._agreement.report()

    def swapped(self) -> ShadowStream:
        """The streams the other way round: the new model counts, and the old one is watched."""
        other = ShadowStream(self.new, self.old)
        other._agreement = Agreement.of(self._agreement.state(), swapped=True)
        return other
