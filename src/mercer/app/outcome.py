"""What a use case is given beside its request, and what it gives back. Light to import."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from mercer._core.errors import ParameterError, Remedy, StoppedError
from mercer._core.findings import Finding, Level, collected, columns_matched
from mercer._core.memory import parse_bytes
from mercer._core.observer import Observer as FitObserver
from mercer._core.observer import observed_by
from mercer._core.wording import Message

if TYPE_CHECKING:
    from mercer.data.table import Reading

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What a use case found.

    Parameters
    ----------
    value : object
        The result. Its ``facts`` are what JSON can hold of it.
    findings : tuple of Finding
        What a user should know about it, in the order in which it was found.
    timings : dict
        Seconds of each stage.
    """

    value: T
    findings: tuple[Finding, ...] = ()
    timings: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The outcome as JSON can hold it."""
        facts = getattr(self.value, "facts", self.value)
        findings = [as_dict(finding) for finding in self.findings]
        return {"value": plain(facts), "findings": findings, "timings": dict(self.timings)}


class Observer:
    """Follows a use case; this one does nothing. Subclass it, and override what is of interest.

    It is called in the thread of the use case.
    """

    def began(self, stage: str) -> None:
        """A stage begins: "read", "fit", "write", …."""

    def step(self, done: int, expected: int | None, what: str, residual: float | None) -> bool:
        """`done` of about `expected` steps ("products", "rows") are made; return True to stop.

        A fit that has a result ends with it, and a finding says so; all else ends with a `StoppedError`.
        """
        del done, expected, what, residual
        return False

    def insist(self) -> None:
        """Work without an end begins: raise what ends it, if an end was asked for before."""

    def found(self, finding: Finding) -> None:
        """A finding, as soon as it is made; the outcome has it too."""


class Run(Observer, FitObserver):
    """One call of a use case: collects findings and seconds, and passes all on to the observer."""

    def __init__(
        self, observer: Observer | None = None, *, reading: Any = None, memory: str | None = None
    ) -> None:
        self.observer = observer or Observer()
        self.memory = memory or "auto"
        if reading is not None:
            self.reading = reading
        self.findings: list[Finding] = []
        self.timings: dict[str, float] = {}
        self.stopped = False

    @property
    def budget(self) -> int:
        """Bytes that the work may use."""
        return parse_bytes(self.memory)

    @cached_property
    def reading(self) -> Reading:
        """How files are read; a use case may put another in its place."""
        from mercer.data.table import Reading

        return Reading()

    # ── findings ────────────────────────────────────────────────────────────
    def found(self, finding: Finding) -> None:
        """Keep a finding, and tell the observer; a warning that was given already is not repeated."""
        if finding.level == "warning" and line(finding.message) in self.messages("warning"):
            return
        self.findings.append(finding)
        self.observer.found(finding)

    def say(self, message: str, code: str = "progress", **numbers: Any) -> None:
        """What was read, written or is about to be done."""
        self.found(Finding(code, message, numbers, level="info"))

    def note(self, message: str, code: str = "data", **numbers: Any) -> None:
        """What was done to the data, or chosen for the user."""
        self.found(Finding(code, message, numbers, level="note"))

    def warn(
        self, message: str, code: str = "warning", *, remedy: Remedy | None = None, **numbers: Any
    ) -> None:
        """What may make the result useless."""
        self.found(Finding(code, message, numbers, remedy))

    def messages(self, level: Level) -> list[str]:
        """The sentences of one level, each on one line."""
        return [line(finding.message) for finding in self.findings if finding.level == level]

    # ── progress ────────────────────────────────────────────────────────────
    def began(self, stage: str) -> None:
        self.observer.began(stage)

    def insist(self) -> None:
        self.observer.insist()

    def step(self, done: int, expected: int | None, what: str, residual: float | None) -> bool:
        """A step of the library; True asks it to stop."""
        self.stopped = self.observer.step(done, expected, what, residual) or self.stopped
        return self.stopped

    def advance(self, done: int, expected: int | None, what: str) -> None:
        """A step of a use case, which ends here where the observer asks for it."""
        if self.step(done, expected, what, None):
            msg = f"Stopped after {done} {what}."
            raise StoppedError(msg)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """A stage: the observer hears that it begins, and its seconds are kept."""
        self.began(stage)
        begun = time.perf_counter()
        try:
            yield
        finally:
            seconds = self.timings.get(stage, 0.0) + time.perf_counter() - begun
            self.timings[stage] = round(seconds, 6)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Warnings of the library are findings of this call, and its steps are this call's."""
        found = collected(lambda warning: self.found(Finding.of(warning)))
        # Use cases read files, whose columns are matched by name before an estimator gets an array.
        with found, observed_by(self), columns_matched():
            yield

    def outcome(self, request: Request[T]) -> Outcome[T]:
        """What the request asks for, with all that this call has found and the seconds that it took."""
        with self.following():
            value = request.fulfil(self)
        return Outcome(value, tuple(self.findings), self.timings)


class Request(Generic[T]):
    """What a use case is asked for: a frozen dataclass, whose `fulfil` is the use case."""

    def fulfil(self, run: Run) -> T:
        """Do it, and give the value of the outcome."""
        raise NotImplementedError


def run(request: Request[T], observer: Observer | None = None) -> Outcome[T]:
    """Do what is asked for. Nothing is printed, and other threads are not disturbed.

    Parameters
    ----------
    request : Request
        Such as `FitRequest`.
    observer : Observer, optional
        Hears of stages, steps and findings, and may stop the work.

    Returns
    -------
    Outcome

    Examples
    --------
    >>> from mercer.app import CheckRequest
    >>> outcome = run(CheckRequest(kernel="rbf(gamma=1) + linear()"))
    >>> outcome.value.facts["valid"]
    True
    """
    if isinstance(request, type) or not hasattr(request, "fulfil"):
        refuse_value("request", request, "a request, such as mercer.app.FitRequest(data='x.csv')")
    known = {name: getattr(request, name, None) for name in ("reading", "memory")}
    return Run(observer, **known).outcome(request)


def refuse(template: str, /, **parts: Any) -> NoReturn:
    """Raise about a request that can't be meant: what was given, what is needed, what to do."""
    raise ParameterError(Message(template, **parts))


def refuse_value(name: str, value: Any, must_be: str, remedy: str = "") -> NoReturn:
    """Raise about one parameter: "scale must be 'standard' or 'none'; got 2."."""
    raise ParameterError.about(name, value, must_be=must_be, remedy=remedy)


# ── as JSON can hold it ─────────────────────────────────────────────────────
def as_dict(finding: Finding) -> dict[str, Any]:
    """A finding as JSON can hold it."""
    remedy = finding.remedy
    return {
        "code": finding.code,
        "level": finding.level,
        "message": line(finding.message),
        "numbers": plain(finding.numbers),
        "remedy": remedy and {"parameter": remedy.parameter, "value": plain(remedy.value)},
    }


def line(message: str) -> str:
    """A message on one line."""
    return " ".join(message.split())


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: numbers that are not finite become null, arrays become lists."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if hasattr(value, "tolist"):  # NumPy's, without importing it
        return plain(value.tolist())
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, Path):
        return str(value)
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)
