"""The terminal: findings as lines on stderr, and how far long work is, by Rich where it is installed."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from mercer._core.wording import written
from mercer.app.outcome import Observer, as_dict, line
from mercer.cli.ending import printable

if TYPE_CHECKING:
    from mercer.app import Finding
    from mercer.estimators.progress import ConsoleObserver

STAGES = {"read": "reading", "fit": "fitting", "compare": "comparing", "write": "writing"}


class Terminal(Observer):
    """Shows findings on stderr; with --json those that are in the document wait, or are left to it.

    Should the verb fail, stderr has one document, that of the error, and nothing before it.
    """

    def __init__(
        self,
        command: str,
        mention: Callable[[str, str | None], str | None] = lambda _name, _value: None,
        *,
        as_json: bool,
        quiet: bool,
    ) -> None:
        self.command, self.mention = command, mention
        self.as_json, self.quiet = as_json, quiet
        # Where progress is shown, what draws it puts its own here.
        self.write: Callable[[str], None] = _to_stderr
        self.stage: Callable[[str], None] = lambda _stage: None
        self.counter: ConsoleObserver | None = None
        self._waiting: list[str] = []  # lines to show once the document of --json is out
        self._is_released = not as_json

    @property
    def is_interactive(self) -> bool:
        """Whether stderr is an interactive terminal and --quiet is off."""
        dumb = os.environ.get("TERM", "") in ("dumb", "")
        return not self.quiet and not dumb and sys.stderr is not None and sys.stderr.isatty()

    def worded(self, finding: Finding) -> str:
        """The message of a finding in one line, parameters as flags."""
        return line(written(finding.message, self.mention))

    def as_dict(self, finding: Finding) -> dict[str, Any]:
        """A finding as --json has it: the remedy as an option, where the command has it."""
        found = {**as_dict(finding), "message": self.worded(finding)}
        if finding.remedy is not None:
            option = self.mention(finding.remedy.parameter, str(finding.remedy.value))
            found["remedy"]["option"] = option
        return found

    def found(self, finding: Finding) -> None:
        """A line; a warning also with --quiet, but with --json in the document only."""
        if finding.level == "warning":
            if not self.as_json:
                self.write(f"warning: {self.worded(finding)}")
        elif self.quiet:
            return
        elif self._is_released:
            self.write(written(finding.message, self.mention))
        else:
            self._waiting.append(written(finding.message, self.mention))

    def released(self) -> None:
        """The document is out: lines that waited for it follow."""
        self._is_released = True
        for text in self._waiting:
            self.write(text)
        self._waiting.clear()

    def began(self, stage: str) -> None:
        """A stage, shown until the first step of it."""
        self.stage(f"{STAGES.get(stage, stage)} …")

    def step(self, done: int, expected: int | None, what: str, residual: float | None) -> bool:
        """How far it is; a terminal asks for no stop but by an interrupt."""
        if self.counter is not None:
            self.counter.step(done, expected, what, residual)
        return False


@contextmanager
def shown(terminal: Terminal) -> Iterator[None]:
    """Show how far the work of the block is, on a terminal; on anything else nothing."""
    if not terminal.is_interactive:
        yield
        return
    from mercer.estimators.progress import ConsoleObserver

    before = terminal.write, terminal.stage
    try:
        try:
            from rich.console import Console
        except ImportError:  # plain lines, about one a second
            terminal.counter = ConsoleObserver(terminal.command)
            yield
            return
        console = Console(file=sys.stderr)  # which honours NO_COLOR itself
        with console.status(terminal.command) as status:
            lines: Any = _Lines(status.update)
            terminal.counter = ConsoleObserver(terminal.command, stream=lines)
            terminal.stage = lambda stage: status.update(_escaped(stage))
            terminal.write = lambda text: console.print(
                printable(text), markup=False, highlight=False, soft_wrap=True
            )
            yield
    finally:
        terminal.write, terminal.stage = before
        terminal.counter = None


class _Lines(io.TextIOBase):
    """A text file that hands each whole line over."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take, self._begun = take, ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for each in lines:
            self._take(_escaped(each))
        return len(text)


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")  # Rich reads brackets as markup


def _to_stderr(text: str) -> None:
    click.echo(printable(text), err=True)
