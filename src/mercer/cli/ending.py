"""How a verb ends: exit codes, and one line on stderr that says why. Light to import."""

from __future__ import annotations

import ast
import csv
import errno
import io
import json
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from typing import NoReturn

import click

from mercer import __version__
from mercer._core.errors import InputError, KernelSyntaxError, MercerError, ParameterError
from mercer._core.wording import Message, written

SCHEMA_VERSION = 1

# 2 is Click's own; 130 is 128 + SIGINT and 143 is 128 + SIGTERM, as shells have it.
OK, FAILURE, USAGE, BAD_DATA, ALARM, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 130, 143
UNEXPECTED = "{kind}: {error}. This was not foreseen: run again with --debug for the traceback."


def refuse(text: str) -> NoReturn:
    """End a verb whose arguments can't be meant: what was given, what is needed, what to do."""
    raise click.UsageError(text)


class ClosedPipe(Exception):
    """The reader of our output has closed it."""


class Terminated(BaseException):
    """SIGTERM: like Ctrl-C it passes through everything, so that files half written are taken away."""


def end_on_sigterm() -> Callable[[], None]:
    """Let a SIGTERM end the work as Ctrl-C does, not in the middle of a file.

    What is returned raises `Terminated` once more if there was one: a library may lose the first, in an
    ``except:`` around an import of its own or in a callback.
    """
    asked: list[int] = []

    def end(number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends it at once
        asked.append(number)
        raise Terminated

    def insist() -> None:
        if asked:
            raise Terminated

    # No other thread may set a handler, and the program around us may have its own.
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end)
    return insist


def ended(
    error: Exception, *, as_json: bool, params: Mapping[str, click.Parameter] | None = None
) -> int:
    """Tell why, in the words of the command that has these parameters, and give the exit code."""
    if not flushed():  # what was to be written can't be: Python must not try again when it ends
        close_stdout()
    if isinstance(error, click.exceptions.Abort):
        return fail("Interrupted.", INTERRUPTED, "interrupted", as_json=as_json)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # help is what was asked for
        error.show()
        return error.exit_code
    if isinstance(error, click.ClickException):
        kind = "usage" if isinstance(error, click.UsageError) else "failure"
        return fail(_pointed(error), error.exit_code, kind, as_json=as_json)
    if isinstance(error, ClosedPipe) or (isinstance(error, OSError) and error.errno == errno.EPIPE):
        close_stdout()
        if not as_json:  # `| head` has seen enough: there is nothing to say about it
            return FAILURE
        return fail("The output was closed before its end.", FAILURE, "pipe", as_json=as_json)
    kind, code = next(ends for known, ends in KINDS.items() if isinstance(error, known))
    message = error.args[0] if error.args else ""
    if not isinstance(message, Message):
        message = _sentence(error, kind)
    return fail(written(message, flags(params or {})), code, kind, as_json=as_json)


def _pointed(error: click.ClickException) -> str:
    """What Click says of the arguments, with where to look; what a verb says stands by itself."""
    said = re.sub(r"\((Did you mean [^()]+\?)\)", r"\1", error.format_message())
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


# The first that fits. An OSError without a file name says of an option that it can't be written.
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
    """The text without control characters, which a terminal would obey: names in files may hold any."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


# What Python calls otherwise than the options do, and what has no option.
OPTIONS = {"n_components": "components", "max_landmarks": "landmarks", "random_state": "seed"}
PHRASES = {
    "mercer.check_kernel": "`mercer check`",
    "n_samples": "the number of rows",
    "None for all components": "all",
    "where no y is given": "without --supervised",
    "pass y": "add --supervised",
}


# What means something to a shell outside of quotes, and in double quotes too.
SPECIAL, ALWAYS_SPECIAL = re.compile(r"""[\s"'\\$`!#&;|<>()*?\[\]{}~]"""), re.compile(r'["\\$`!]')

# What other commands advise to fit with.
FIT = {"approximation", "impute", "preimage"}


def flags(params: Mapping[str, click.Parameter]) -> Callable[[str, str | None], str | None]:
    """How the command of these parameters, by their names, writes a parameter that a message names.

    >>> write = flags({"components": click.Option(["--components", "-k"])})
    >>> write("n_components", "3"), write("n_components", None), write("preimage", "None")
    ('--components 3', '--components', 'no --preimage')
    """

    def mention(name: str, value: str | None) -> str | None:
        known = OPTIONS.get(name, name)
        if name in PHRASES or not (known in params or known in FIT):
            return PHRASES.get(name)
        param = params.get(known)
        flag = f"--{name}" if param is None else max(param.opts, key=len)
        if isinstance(param, click.Argument):
            flag = param.metavar or name.upper()
        elif param is not None and "-o" in param.opts:
            flag = "-o"
        if value is None or value == "True":
            return flag
        if value == "False":
            return flag.replace("--", "--no-", 1)
        if value == "None":
            return f"{flag} all" if known == "components" else f"no {flag}"
        listed = getattr(getattr(param, "type", None), "takes_lists", False)
        return f"{flag} {_given(value, listed=listed)}"

    return mention


def _given(value: str, *, listed: bool) -> str:
    """A value of Python as the shell takes it: RPCholesky(rank=5) is "rpcholesky(rank=5)"."""
    if sides := re.fullmatch(r"\((\d+), (\d+)\)", value):
        return f"{sides[1]}x{sides[2]}"
    try:
        read = ast.literal_eval(value)
    except (ValueError, SyntaxError):  # an expression, or a text without quotes
        called = re.fullmatch(r"(\w+)(\(.*\))", value)
        return _in_quotes(value if called is None else f"{called[1].lower()}{called[2]}")
    if not isinstance(read, (str, tuple)):
        return value
    if listed or isinstance(read, tuple):
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow([read] if isinstance(read, str) else read)
        read = line.getvalue()
    return _in_quotes(read)


def _in_quotes(text: str) -> str:
    """A text as one word of a shell."""
    if text and not SPECIAL.search(text):
        return text
    return shlex.quote(text) if ALWAYS_SPECIAL.search(text) else f'"{text}"'
