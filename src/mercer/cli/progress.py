"""How far long work is: one changing line on a terminal, by Rich; on anything else nothing."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager, redirect_stderr
from typing import TYPE_CHECKING, Any

from mercer.cli.ending import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mercer.cli.verb import Call


def on_terminal(call: Call) -> bool:
    """Whether stderr is an interactive terminal and --quiet is off."""
    dumb = os.environ.get("TERM", "") in ("dumb", "")
    return not call.quiet and not dumb and sys.stderr is not None and sys.stderr.isatty()


def _console() -> Any:
    """Rich's console on stderr; None where Rich is not installed. It honours NO_COLOR itself."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=sys.stderr)  # this very one, also while another stands in for it


@contextmanager
def watched(call: Call, what: str) -> Iterator[int]:
    """A fit that tells about itself line by line, the last line standing; yields `verbose` for it."""
    console = _console() if on_terminal(call) else None
    if console is None:
        yield int(on_terminal(call))  # without Rich: plain lines, about one a second
        return
    # An estimator that is verbose tells on stderr how far it is.
    with (
        console.status(what) as status,
        _written_above(call, console),
        redirect_stderr(_Lines(status.update)),
    ):
        yield 1


@contextmanager
def counted(call: Call, what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar of rows; call what it yields with the rows that were done since the last call."""
    console = _console() if on_terminal(call) else None
    if console is None:
        yield lambda _done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task(what, total=total)
        with _written_above(call, console):
            yield lambda done: progress.advance(task, done)


@contextmanager
def _written_above(call: Call, console: Any) -> Iterator[None]:
    """Talk goes above the line that changes, as plain text: brackets in it are not markup."""

    def write(line: str) -> None:
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)

    before, call.write = call.write, write
    try:
        yield
    finally:
        call.write = before


class _Lines(io.TextIOBase):
    """A text file that hands each whole line over."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take, self._begun = take, ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._take(line.replace("[", "\\["))  # Rich reads brackets as markup
        return len(text)
