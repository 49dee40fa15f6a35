"""What follows a fit: lines on the terminal, scikit-learn's callbacks, a checkpoint."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from typing import Any, TextIO

from mercer._core.memory import format_seconds
from mercer._core.observer import SILENT, Observer, State, current_observer
from mercer._core.params import Whole, require
from mercer.model.checkpoint import Checkpoint

try:
    import sklearn.callback as callbacks
except ImportError:  # scikit-learn before 1.9
    callbacks = None

# Seconds between two lines: enough to see that it moves.
GAP = 1.0
# How many products it takes is only known when they are made; all else is counted beforehand.
GUESSED = "products"
VERBOSE = Whole(0, also=(True, False))
# Of scikit-learn, or nothing: a base class and a decorator.
CallbackSupport: Any = getattr(callbacks, "CallbackSupportMixin", type("NoCallbacks", (), {}))
with_callbacks: Any = getattr(callbacks, "with_callbacks", lambda method: method)


@contextmanager
def observing(
    estimator: Any,
    *,
    verbose: Any,
    checkpoint: str | os.PathLike[str] | None = None,
    fingerprint: Callable[[], dict[str, Any]] = dict,
) -> Iterator[Observer]:
    """The observers of the block, none in most fits; the state of a checkpoint depends on `fingerprint`."""
    require("verbose", verbose, VERBOSE)
    # Each stands in front of the one before it.
    chain: list[Any] = [SILENT if checkpoint is None else Checkpoint(checkpoint, fingerprint())]
    if verbose:
        chain.append(ConsoleObserver(type(estimator).__name__, chain[-1]))
    if (around := current_observer()) is not SILENT:
        chain.append(ForwardingObserver(chain[-1], around.step))
    root = getattr(estimator, "_callback_fit_ctx", None)  # from `announced`
    if root is not None and getattr(estimator, "_skl_callbacks", None):
        chain.append(CallbackObserver(estimator, root, chain[-1]))
    yield chain[-1]
    for each in chain[1:]:
        each.finish()


class ForwardingObserver(Observer):
    """An `Observer` in front of another one: it sees all, passes all on, and looks at each step itself."""

    def __init__(self, inner: Observer, look: Callable[..., bool]) -> None:
        self._inner, self._look = inner, look  # `look` answers as `step` does
        self._resumed = False
        self._what: str | None = None
        self._done = 0

    def step(self, done: int, expected: int | None, what: str, residual: float | None) -> bool:
        asked = self._inner.step(done, expected, what, residual)
        # Another pass over the rows counts from 0 again.
        if what != self._what or done < self._done:
            self._begin(done, expected, what)
            self._resumed = False  # of the first kind of work
        self._what, self._done = what, done
        return self._look(done, expected, what, residual) or asked

    def resume(self) -> State | None:
        state = self._inner.resume()
        self._resumed = state is not None
        return state

    def keep(self, state: Callable[[], State]) -> None:
        self._inner.keep(state)

    def finish(self) -> None:
        """All work is done."""

    def _begin(self, done: int, expected: int | None, what: str) -> None:
        """The first step of its kind follows."""


class ConsoleObserver(ForwardingObserver):
    """Writes how far it is, a line that begins with `name` about once a second, and the last one always.

    The `stream` is stderr by default, so that what a script prints stays clean.

    >>> import sys
    >>> observer = ConsoleObserver("KernelPCA", stream=sys.stdout, clock=iter([0.0, 12.0]).__next__)
    >>> _ = observer.step(5, 9, "products", 3e-4)
    KernelPCA: 5 of about 9 products, residual 3e-04, 12 s, about 9.6 s left
    """

    def __init__(
        self,
        name: str,
        inner: Observer = SILENT,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(inner, self._report)
        self._name, self._stream, self._clock = name, stream, clock
        self._started = self._now = clock()
        # Since when, and from which step on, the pace is taken.
        self._base = self._started, 0
        self._written_at = -inf
        self._unwritten: str | None = None  # a line too soon after the last

    def resume(self) -> State | None:
        state = super().resume()
        if state is not None:
            self._write(f"{self._name}: resumes from the checkpoint")
        return state

    def finish(self) -> None:
        if self._unwritten is not None:
            self._write(self._unwritten)
        self._unwritten = None

    def _begin(self, done: int, expected: int | None, what: str) -> None:
        del expected, what
        self.finish()
        # Steps that an earlier run made say nothing about the pace of this one.
        self._base = (self._clock(), done) if self._resumed else (self._now, 0)

    def _report(self, done: int, expected: int | None, what: str, residual: float | None) -> bool:
        self._now = self._clock()
        parts = [f"{self._name}: {_count(done, expected, what)}"]
        if residual is not None:
            parts.append(f"residual {residual:.0e}")
        parts.append(format_seconds(self._now - self._started))
        since, first = self._base
        if expected is not None and expected > done > first:
            left = (self._now - since) / (done - first) * (expected - done)
            parts.append(f"about {format_seconds(left)} left")
        self._unwritten = ", ".join(parts)
        if self._now - self._written_at >= GAP:
            self._written_at = self._now
            self.finish()
        return False

    def _write(self, line: str) -> None:
        stream = sys.stderr if self._stream is None else self._stream
        # A terminal that has gone away is no reason to lose the fit.
        if stream is not None:
            with suppress(OSError):
                stream.write(f"{line}\n")
                stream.flush()


def _count(done: int, expected: int | None, what: str) -> str:
    counted = f"{done:,}"
    if expected is None or expected < done:
        counted += f" {what.removesuffix('s') if done == 1 else what}"
    else:
        counted += f" of {'about ' if what == GUESSED else ''}{expected:,} {what}"
    return counted.replace(",", " ")


# ── scikit-learn's callbacks ────────────────────────────────────────────────
@contextmanager
def announced(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Iterator[None]:
    """A task that scikit-learn's callbacks see, inside of a method that is `with_callbacks`."""
    begun = getattr(estimator, "_init_callback_context", None)
    if begun is None:
        yield
        return
    # Always, callbacks or not: a pipeline hangs this task into its own tree.
    root = begun(max_subtasks=None)
    given: dict[str, Any] = {"estimator": estimator, "X": X, "y": y}
    if sample_weight is not None:
        given["metadata"] = {"sample_weight": sample_weight}
    root.call_on_fit_task_begin(**given)
    yield
    root.call_on_fit_task_end(**given, reconstruction_attributes={})


class CallbackObserver(ForwardingObserver):
    """Calls callbacks: ``fit`` holds one task for each kind of work, and that holds one for each step."""

    def __init__(self, estimator: Any, root: Any, inner: Observer = SILENT) -> None:
        super().__init__(inner, self._call)
        self._estimator, self._root = estimator, root
        self._work: Any = None  # the task that is open
        self._steps = 0

    def finish(self) -> None:
        if self._work is not None:
            self._work.call_on_fit_task_end(estimator=self._estimator)
        self._work = None

    def _begin(self, done: int, expected: int | None, what: str) -> None:
        self.finish()
        self._steps = 0
        # Rows come many at a time. After a resumption the first step does not say how many.
        n_steps = None if expected is None or self._resumed else -(-expected // max(done, 1))
        self._work = self._root.subcontext(task_name=what, max_subtasks=n_steps)
        self._work.call_on_fit_task_begin(estimator=self._estimator)

    def _call(self, done: int, expected: int | None, what: str, residual: float | None) -> bool:
        if self._steps == self._work.max_subtasks:
            self._work.max_subtasks = None  # more than expected; scikit-learn would refuse the next
        self._steps += 1
        step = self._work.subcontext(task_name=f"{done} {what}")
        metadata = {"done": done, "expected": expected, "residual": residual}
        step.call_on_fit_task_begin(estimator=self._estimator, metadata=metadata)
        asks_to_stop = step.call_on_fit_task_end(estimator=self._estimator, metadata=metadata)
        return bool(asks_to_stop)
