"""How long work reports its progress: the seam between what computes and what shows or keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

# Arrays by name, and what JSON can hold: numbers, texts, truth values, None, lists and dicts of them
# (the state of a bit generator is such a dict).
State: TypeAlias = dict[str, Any]


class Observer:
    """Follows a fit: a line on the terminal, a callback, a checkpoint. This one does nothing."""

    def step(self, done: int, expected: int | None, what: str, residual: float | None) -> bool:
        """`done` of about `expected` steps ("products", "rows") are made; the worst residual so far.

        Return True to request a stop: a solver that has a result returns it with `Status.STOPPED`.
        """
        del done, expected, what, residual
        return False

    def resume(self) -> State | None:
        """The state in which an earlier run was cut off; None to start from the beginning."""
        return None

    def keep(self, state: Callable[[], State]) -> None:
        """Offer the state after a step: call `state` before `keep` returns, as arrays in it may be views."""
        del state


SILENT = Observer()  # what a fit has where none was given
_current: ContextVar[Observer] = ContextVar("observer", default=SILENT)


@contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Give a context variable a value in the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def observed_by(observer: Observer) -> AbstractContextManager[None]:
    """Let `observer` follow, and stop, the fits of the block: those of this thread only."""
    return holding(_current, observer)


def current_observer() -> Observer:
    """The observer of the enclosing block, or `SILENT`."""
    return _current.get()


def _always() -> None:
    """Do nothing: what is read is wanted."""


# Raises where the answer that rows are read for is no longer wanted: the client has gone, the server ends.
WANTED: ContextVar[Callable[[], None]] = ContextVar("wanted", default=_always)


def require_wanted() -> None:
    """Raise what ends the reading of rows, where it is to end; called for each block of them."""
    WANTED.get()()


class Stage(Observer):
    """Passes the steps of one stage on to another observer, and records a requested `stop` for the next."""

    def __init__(self, observer: Observer, before: int) -> None:
        self._observer, self._before, self.stop = observer, before, False

    def step(self, done: int, expected: int | None, what: str, residual: float | None) -> bool:
        total = None if expected is None else self._before + expected
        asked = self._observer.step(self._before + done, total, what, residual)
        self.stop = self.stop or asked
        return asked
