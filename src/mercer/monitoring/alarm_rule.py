"""When alarms of single rows are an alarm for people: n of m, delays, a deadband, shelving."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mercer._core.errors import ParameterError
from mercer._core.params import Constraint, Number, Whole, require

PARAMETERS: dict[str, Constraint] = {
    "n": Whole(1),
    "m": Whole(1),
    "delay": Whole(0),
    "clear": Whole(1),
    "deadband": Number(0, 1, ends="[)"),
    "shelve": Whole(0),
}


@dataclass(frozen=True)
class AlarmRule:
    """When an event begins, when it is over, and when it is not announced.

    At 1 % false alarms and a row a second, single rows make 864 alarms in a day of normal operation. People
    need fewer, and each for a reason.

    Parameters
    ----------
    n, m : int, default=3, 5
        An event begins when n of the last m judged rows are above the limit.
    delay : int, default=0
        Rows for which that has to stay so before the event is raised.
    clear : int, default=3
        An event is over when so many judged rows in a row are below the limit, less the deadband.
    deadband : float, default=0
        In [0, 1), a share of the limit: a row counts as back to normal below ``(1 - deadband) * limit``.
    shelve : int, default=0
        Rows after an event in which another that begins with the same variable is shelved: recorded, and not
        announced.

    Examples
    --------
    >>> rule = AlarmRule(n=2, m=3)
    >>> rule.states([0.2, 1.4, 0.9, 1.3, 0.5, 0.4, 0.3])
    ['normal', 'pending', 'pending', 'raised', 'raised', 'raised', 'normal']
    """

    n: int = 3
    m: int = 5
    delay: int = 0
    clear: int = 3
    deadband: float = 0.0
    shelve: int = 0

    def __post_init__(self) -> None:
        for name, allowed in PARAMETERS.items():
            require(name, getattr(self, name), allowed)
        if self.n > self.m:
            must_be = f"at most m={self.m}, the rows that are looked at"
            raise ParameterError.about(parameter="n", value=self.n, must_be=must_be)

    def states(self, index: Iterable[float], limit: float = 1.0) -> list[str]:
        """The state of each row by its index: "normal", "pending" or "raised"."""
        switch = Switch(self)
        return [switch(bool(value > limit), float(value) / limit) for value in index]


class Switch:
    """An alarm rule with its memory: the last m rows, and how long it has been so."""

    def __init__(self, rule: AlarmRule) -> None:
        self.rule = rule
        self._seen: deque[bool] = deque(maxlen=rule.m)
        self._above = 0  # rows for which n of m have been above
        self._normal = 0  # rows in a row that are back to normal
        self.raised = False

    def __call__(self, alarm: bool, index: float) -> str:
        """The state after the next judged row; ``index`` in units of its limit."""
        rule = self.rule
        self._seen.append(alarm)
        self._above = self._above + 1 if sum(self._seen) >= rule.n else 0
        back = not alarm and not index >= 1.0 - rule.deadband
        self._normal = self._normal + 1 if back else 0
        if not self.raised and self._above > rule.delay:
            self.raised = True
        if self.raised and self._normal >= rule.clear:
            self.raised, self._above = False, 0
            self._seen.clear()
        if self.raised:
            return "raised"
        return "pending" if any(self._seen) else "normal"

    def state(self) -> dict[str, Any]:
        counts = {"above": self._above, "normal": self._normal, "raised": self.raised}
        return {"seen": list(self._seen), **counts}

    def restore(self, state: dict[str, Any]) -> None:
        self._seen = deque(state["seen"], maxlen=self.rule.m)
        self._above, self._normal, self.raised = state["above"], state["normal"], state["raised"]
