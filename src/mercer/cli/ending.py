"""How a verb ends: exit codes, and one line on stderr that says why. Light to import."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import sys
import threading
from typing import NoReturn

import click

from mercer import __version__
from mercer._core.errors import InputError, KernelSyntaxError, MercerError, ParameterError
from mercer.cli.options import options_in

SCHEMA_VERSION = 1

# 2 is Click's own; 130 is 128 + SIGINT and 143 is 128 + SIGTERM, as shells have it.
OK, FAILURE, USAGE, BAD_DATA, ALARM, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 130, 143
UNEXPECTED = "{kind}: {error}. This was not foreseen: run again with --debug for the traceback."


def refuse(text: str) -> NoReturn:
    """End a verb whose words on the line can't be meant: what was given, what is needed, what to do."""
    raise click.UsageError(text)


class ClosedPipe(Exception):
    """Whoever read our output has seen enough."""


class Terminated(BaseException):
    """SIGTERM: like Ctrl-C it passes through everything, so that files half written are taken away."""


def end_on_sigterm() -> None:
    """Let a SIGTERM end the work as Ctrl-C does, not in the middle of a file."""
    if threading.current_thread() is not threading.main_thread():  # no other may set a handler
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # the program around us has its own
        return

    def end(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends it at once
        raise Terminated

    signal.signal(signal.SIGTERM, end)


def ended(error: Exception, *, as_json: bool) -> int:
    """Tell why, and give the exit code."""
    if not flushed():  # what was to be written can't be: Python must not try again when it ends
        close_stdout()
    if isinstance(error, click.exceptions.Abort):
        return fail("Interrupted.", INTERRUPTED, "interrupted", as_json=as_json)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # help is what was asked for
        error.show()
        return error.exit_code
    if isinstance(error, click.ClickException):
        kind = "usage" if isinstance(error, click.UsageError) else "failure"
        return fail(optioned(_pointed(error)), error.exit_code, kind, as_json=as_json)
    if isinstance(error, ClosedPipe) or (isinstance(error, OSError) and error.errno == errno.EPIPE):
        close_stdout()
        return fail("The output was closed before its end.", FAILURE, "pipe", as_json=as_json)
    kind, code = _kind(error)
    return fail(optioned(_sentence(error, kind)), code, kind, as_json=as_json)


def _pointed(error: click.ClickException) -> str:
    """What Click says of the words on the line, with where to look; what a verb says stands by itself."""
    said = error.format_message()
    ctx = getattr(error, "ctx", None)
    if ctx is None or type(error) is click.UsageError:
        return said
    stop = "" if said.endswith((".", "?", "!")) else "."
    return f"{said}{stop} See {ctx.command_path} --help."


def _sentence(error: Exception, kind: str) -> str:
    if kind == "unexpected":
        return UNEXPECTED.format(kind=type(error).__name__, error=str(error).rstrip("."))
    if isinstance(error, OSError) and not isinstance(error, MercerError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        hint = " No file was changed." if error.errno == errno.ENOSPC else ""
        return f"{where}{error.strerror.rstrip('.')}.{hint}"  # ours are sentences already
    if isinstance(error, MemoryError) and not isinstance(error, MercerError):
        detail = f" ({error})" if str(error) else ""
        return f"There is not enough memory{detail}. Give --memory, or an --approximation to `fit`."
    return str(error)


def _kind(error: Exception) -> tuple[str, int]:
    return next(told for kind, told in KINDS.items() if isinstance(error, kind))


# The first that fits. What can't be written is told of its option by an OSError without a file name.
KINDS: dict[type[BaseException], tuple[str, int]] = {
    KernelSyntaxError: ("kernel", USAGE),
    ParameterError: ("usage", USAGE),
    InputError: ("data", BAD_DATA),
    MercerError: ("failure", FAILURE),
    MemoryError: ("memory", FAILURE),
    PermissionError: ("file", BAD_DATA),
    OSError: ("file", FAILURE),
    Exception: ("unexpected", FAILURE),
}


def fail(message: str, code: int, kind: str, *, as_json: bool) -> int:
    """Say in one line, or one JSON document, why a verb ends here."""
    line = printable(" ".join(message.split()) if kind != "kernel" else message)
    if as_json:
        error = {"kind": kind, "message": message, "exit_code": code}
        document = {"schema_version": SCHEMA_VERSION, "mercer_version": __version__, "error": error}
        click.echo(json.dumps(document), err=True)
    else:
        click.echo(f"Error: {line}", err=True)
    return code


def wants(args: list[str], flag: str) -> bool:
    """Whether a flag stands in the arguments, also when they can't be parsed."""
    return flag in (args[: args.index("--")] if "--" in args else args)


def flushed() -> bool:
    """Whether everything printed so far has gone out."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):  # None: there was no stdout from the beginning
        return False
    return True


def close_stdout() -> None:
    """After a closed pipe: nothing more can be written, and Python must not try when it ends."""
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, sys.stdout.fileno())
        os.close(sink)
    except (OSError, ValueError, AttributeError):  # not a real file, as in tests
        sys.stdout = io.StringIO()


# ── words for people ────────────────────────────────────────────────────────
def printable(text: str) -> str:
    """The text without control characters, which a terminal would obey: names in files are anybody's."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


# What the library calls by the names of Python, as the command line has it. Not a grammar: only phrases
# that its messages really use, and a message without them passes as it is.
OPTIONS = (
    (r"`mercer\.check_kernel`", "`mercer check`"),
    (r"\bn_components must\b", "--components must"),
    (r"\bn_components=None\b", "--components all"),
    (r"\bn_components=([\w.]*\w)", r"--components \1"),
    (r"\bNone for all components\b", "all"),
    (r"\bfalse_alarm=([\w.-]*\w)", r"--false-alarm \1"),
    (r"\bcontamination=([\w.-]*\w)", r"--contamination \1"),
    (r"\bfalse_alarm\b", "--false-alarm"),
    (r"(?<!-)`?\bcontamination\b`?(?= (?:the share|reads))", "--contamination"),
    (r"\blimits='(\w+)'", r"--limits \1"),
    (r"\bcriterion must be\b", "--criterion must be"),
    (r" where no y is given; got", " without --supervised; got"),
    (r"\bcriterion='([\w-]+)'", r"--criterion \1"),
    (r"\(n_samples\)", "(the number of rows)"),
    (r"\bn_samples=(\d+)", r"there are \1 rows"),
    (r"\bn_samples\b", "the number of rows"),
    (r"\b(approximation|preimage)=None\b", r"no --\1"),
    (r"\bapproximation=RPCholesky\((.*?)\)", r'--approximation "rpcholesky(\1)"'),
    (r"\b(approximation|preimage|kernel|solver|memory)='([\w-]+)'", r"--\1 \2"),
    (r"(--preimage [\w-]+) or '([\w-]+)'", r"\1 or \2"),
    (r"`(memory|preimage|approximation|refine)`", r"--\1"),
)


def optioned(text: str) -> str:
    """A message of the library, with the names of options in place of those of parameters.

    >>> optioned("n_components must be 1 to 400 (n_samples). Raise `memory`, or use preimage='ridge'.")
    '--components must be 1 to 400 (the number of rows). Raise --memory, or use --preimage ridge.'
    """
    text = options_in(text)
    for pattern, option in OPTIONS:
        text = re.sub(pattern, option, text)
    return text
