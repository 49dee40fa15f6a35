"""Long work tells how far it is: the seam between what computes and whoever wants to know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

# Arrays by name, and what JSON can hold: numbers, texts, truth values, None, lists and dicts of them
# (the state of a bit generator is such a dict).
State: TypeAlias = dict[str, Any]


class Watch(Protocol):
    """Somebody who looks on: a line on the terminal, a callback, a checkpoint."""

    def step(self, done: int, expected: int | None, what: str, residual: float | None) -> bool:
        """`done` of about `expected` steps ("products", "rows") are made; the worst residual so far.

        True when somebody asks to stop here. Who has something to hand over stops and says so in the
        status of the result; who has nothing yet goes on.
        """
        ...

    def resume(self) -> State | None:
        """The state in which an earlier run was cut off; None to start from the beginning."""
        ...

    def keep(self, state: Callable[[], State]) -> None:
        """Offer the state after a step.

        `state` is called when somebody wants to write it down, and only before `keep` returns: its
        arrays may be views of those the work goes on to change.
        """
        ...


class Blind:
    """Nobody looks on."""

    def step(self, done: int, expected: int | None, what: str, residual: float | None) -> bool:
        """Nobody asks to stop."""
        del done, expected, what, residual
        return False

    def resume(self) -> State | None:
        """Nothing to resume."""
        return None

    def keep(self, state: Callable[[], State]) -> None:
        """Nothing is kept."""


BLIND = Blind()


class Steps:
    """Looks on for somebody else, but resumes and keeps nothing: for work in several stages.

    Remembers whether he asked to `stop`: at the last step of a stage its work is done, that of others not.
    """

    def __init__(self, watch: Watch, before: int) -> None:
        self._watch, self._before, self.stop = watch, before, False

    def step(self, done: int, expected: int | None, what: str, residual: float | None) -> bool:
        """The steps of this stage, on top of those made before."""
        total = None if expected is None else self._before + expected
        asked = self._watch.step(self._before + done, total, what, residual)
        self.stop = self.stop or asked
        return asked

    def resume(self) -> State | None:
        """Nothing to resume."""
        return None

    def keep(self, state: Callable[[], State]) -> None:
        """Nothing is kept."""
