"""Long work reports how far it is: the seam between what computes and what shows or keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

# Arrays by name, and what JSON can hold: numbers, texts, truth values, None, lists and dicts of them
# (the state of a bit generator is such a dict).
State: TypeAlias = dict[str, Any]


class Observer:
    """Follows a fit: a line on the terminal, a callback, a checkpoint.

    This one follows nothing, requests no stop and keeps nothing.
    """

    def step(self, done: int, expected: int | None, what: str, residual: float | None) -> bool:
        """`done` of about `expected` steps ("products", "rows") are made; the worst residual so far.

        Return True to request a stop. A solver that has a result returns it with `Status.STOPPED`; one
        that has none continues.
        """
        del done, expected, what, residual
        return False

    def resume(self) -> State | None:
        """The state in which an earlier run was cut off; None to start from the beginning."""
        return None

    def keep(self, state: Callable[[], State]) -> None:
        """Offer the state after a step.

        `state` is called where it is to be written down, and only before `keep` returns: its
        arrays may be views of those the work goes on to change.
        """
        del state


SILENT = Observer()  # what a fit has where none was given
_current: ContextVar[Observer] = ContextVar("observer", default=SILENT)


@contextmanager
def observed_by(observer: Observer) -> Iterator[None]:
    """Let `observer` follow, and stop, the fits of the block: those of this thread only."""
    token = _current.set(observer)
    try:
        yield
    finally:
        _current.reset(token)


def current_observer() -> Observer:
    """The observer of the block around, `SILENT` where there is none."""
    return _current.get()


class Stage(Observer):
    """Passes the steps of one stage on to another observer; resumes and keeps nothing.

    Records a requested `stop`, which the last step of a stage cannot act on but the next stage must.
    """

    def __init__(self, observer: Observer, before: int) -> None:
        self._observer, self._before, self.stop = observer, before, False

    def step(self, done: int, expected: int | None, what: str, residual: float | None) -> bool:
        """The steps of this stage, on top of those made before."""
        total = None if expected is None else self._before + expected
        asked = self._observer.step(self._before + done, total, what, residual)
        self.stop = self.stop or asked
        return asked
