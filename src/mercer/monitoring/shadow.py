"""Two models on the same rows: the one that counts, and one in its shadow that may take its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer.monitoring.judge import LiveStream
    from mercer.monitoring.verdict import Verdict


@dataclass(frozen=True)
class ShadowReport:
    """What the model in the shadow would have changed. Print it.

    Attributes
    ----------
    rows : int
        Rows that both have judged.
    both, only_old, only_new : int
        Alarms of both, and of one alone.
    events_old, events_new : int
    """

    rows: int
    both: int
    only_old: int
    only_new: int
    events_old: int
    events_new: int

    @property
    def agreement(self) -> float:
        """The share of rows on which both say the same."""
        return 1.0 - (self.only_old + self.only_new) / self.rows if self.rows else 1.0

    def __str__(self) -> str:
        old, new = self.both + self.only_old, self.both + self.only_new
        before = f"{old} alarms in {self.events_old} events now"
        after = f"{new} in {self.events_new} with the new model"
        agree = f"they agree on {100 * self.agreement:.1f} % of the rows"
        changed = f"{self.only_old} alarms would go, {self.only_new} be new"
        return f"{self.rows} rows: {before}, {after}; {agree} ({changed})."


class ShadowStream:
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
        self._counts = {"rows": 0, "both": 0, "only_old": 0, "only_new": 0}

    def push(self, row: Any, time: Any = None) -> Verdict:
        """Judge the next row, as `LiveStream.push`.

        Parameters
        ----------
        row : array-like of shape (d,)
        time : optional

        Returns
        -------
        verdict : Verdict
        """
        return self.push_many([row], None if time is None else [time])[0]

    def push_many(self, rows: Any, times: Any = None) -> list[Verdict]:
        """Judge the next rows, as `LiveStream.push_many`.

        Parameters
        ----------
        rows : array-like of shape (b, d)
        times : sequence of b times, optional

        Returns
        -------
        verdicts : list of Verdict
        """
        found = self.old.push_many(rows, times)
        for one, other in zip(found, self.new.push_many(rows, times), strict=True):
            if one.judged and other.judged:
                self._counts["rows"] += 1
                self._counts["both"] += int(one.alarm and other.alarm)
                self._counts["only_old"] += int(one.alarm and not other.alarm)
                self._counts["only_new"] += int(other.alarm and not one.alarm)
        return found

    def report(self) -> ShadowReport:
        """What would have changed so far.

        Returns
        -------
        report : ShadowReport
        """
        events = (self.old.counts["events"], self.new.counts["events"])
        return ShadowReport(**self._counts, events_old=events[0], events_new=events[1])

    def swapped(self) -> ShadowStream:
        """The other way round: the new model counts, and the old one is watched, to go back to if need be."""
        other = ShadowStream(self.new, self.old)
        counts = self._counts
        other._counts = counts | {"only_old": counts["only_new"], "only_new": counts["only_old"]}
        return other
