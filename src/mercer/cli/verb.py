"""What every verb has in common: its options, how it talks, and how it ends. Light to import."""

from __future__ import annotations

import json
import os
import shlex
import time
import warnings
from contextlib import contextmanager
from dataclasses import fields
from functools import cached_property, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mercer import __version__
from mercer._core.memory import parse_bytes
from mercer.cli.config import find, keys
from mercer.cli.ending import OK, SCHEMA_VERSION, optioned, printable, wants
from mercer.cli.options import SHARED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mercer.data.table import Reading

HELP = {"--help", "-h"}
ORIGINS = "mercer.origins"


class Call:
    """One call of a verb: what it was given, and how it talks: data on stdout, all else on stderr.

    A verb calls `say` for what it does, `warn` for what the user has to know, and `tell` once, at the end,
    with what it found.
    """

    def __init__(self, command: str, params: dict[str, Any], *, as_json: bool, quiet: bool) -> None:
        self.command, self.params = command, params
        self.as_json, self.quiet = as_json, quiet
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self.timings: dict[str, float] = {}
        # What draws on the terminal puts its own here.
        self.write: Callable[[str], None] = _to_stderr
        self._waiting: list[str] = []  # lines to say once the document of --json is out
        self._is_told = False
        self._begun = time.perf_counter()

    @property
    def budget(self) -> int:
        """Bytes that --memory allows."""
        return parse_bytes(self.params["memory"])

    @cached_property
    def reading(self) -> Reading:
        """How the options say that a file is to be read; a verb may put another in its place."""
        from mercer.data.table import Reading

        names = {field.name for field in fields(Reading)} & set(self.params)
        return Reading(**{name: self.params[name] for name in names})

    @property
    def preparing(self) -> dict[str, Any]:
        """What the options say that is to be done to the rows before a fit."""
        names = {"scale", "impute", "one_hot"} & set(self.params)
        return {name: self.params[name] for name in names}

    @property
    def line(self) -> str:
        """The command as it was given; empty where it was not given as a line."""
        args = (click.get_current_context().find_root().obj or {}).get("args")
        return shlex.join(["mercer", *args]) if args else ""

    def say(self, text: str) -> None:
        """A line on stderr, unless --quiet.

        With --json it waits until the document is out: should the verb fail, stderr has one document, that
        of the error, and nothing before it.
        """
        if self.quiet:
            return
        if self.as_json and not self._is_told:
            self._waiting.append(text)
        else:
            self.write(text)

    def note(self, text: str) -> None:
        """A line about what was done to the data: said, and kept in the document of --json."""
        self.notes.append(text)
        self.say(text)

    def warn(self, text: str) -> None:
        """A line on stderr, also with --quiet; with --json it goes into the document in its place."""
        line = optioned(" ".join(text.split()))
        if line in self.warnings:
            return
        self.warnings.append(line)
        if not self.as_json:
            self.write(f"warning: {line}")

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Seconds that a step took, for the document of --json."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            seconds = self.timings.get(what, 0.0) + time.perf_counter() - begun
            self.timings[what] = round(seconds, 6)

    def tell(self, results: dict[str, Any], text: str = "") -> None:
        """What was found: one JSON document, or `text` for people (an empty one prints nothing)."""
        if self.as_json:
            click.echo(json.dumps(self.document(results), indent=2, allow_nan=False))
        elif text:
            click.echo(text)
        self._is_told = True
        for line in self._waiting:
            self.write(line)

    def document(self, results: dict[str, Any]) -> dict[str, Any]:
        """The envelope of --json."""
        total = round(time.perf_counter() - self._begun, 6)
        return {
            "schema_version": SCHEMA_VERSION,
            "mercer_version": __version__,
            "command": self.command,
            "params": {name: plain(value) for name, value in self.params.items()},
            "timings": {**self.timings, "total": total},
            "notes": self.notes,
            "warnings": self.warnings,
            "results": plain(results),
        }


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


def _to_stderr(line: str) -> None:
    click.echo(printable(line), err=True)


class Verb(click.Command):
    """A command whose options can also be set by MERCER_VERB_OPTION, MERCER_OPTION and mercer.toml."""

    def taking(self, *groups: str) -> Verb:
        """The command with these groups of `SHARED` options after its own."""
        for option in (option for group in groups for option in SHARED[group]):
            option(self)
        for key, param in keys(self).items():
            param.show_default = True
            if isinstance(param.type, click.types.IntParamType) and param.metavar is None:
                param.metavar = "N"  # Click would write INTEGER RANGE
            if param.envvar is None:
                name = key.replace("-", "_").upper()
                param.envvar = [f"MERCER_{str(self.name).upper()}_{name}", f"MERCER_{name}"]
        return self

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """What was not given as a flag or in the environment is looked for in the file of options."""
        if not ctx.resilient_parsing and not HELP & set(args):
            self._look_up(ctx)
        required = [p for p in self.params if p.required] if wants(args, "--show-config") else []
        for param in required:  # nothing is read or written: no argument is needed
            param.required = False
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            where = origin(ctx, error.param)
            if where in ("flag", "default"):
                raise
            told = f"{error.message} It stands in {where}."
            raise click.BadParameter(told, ctx, error.param, error.param_hint) from error
        finally:
            for param in required:
                param.required = True

    def _look_up(self, ctx: click.Context) -> None:
        root = ctx.find_root()
        verbs = getattr(root.command, "verbs", {})
        config = find((root.obj or {}).get("config")) if verbs else None
        if config is None:
            return
        ctx.default_map, ctx.meta[ORIGINS] = config.defaults(self, verbs)
        config.refuse_unknown(self, lambda: _options_of_all(root))


def _options_of_all(root: click.Context) -> set[str]:
    """Every option of every verb: all of them are imported for it, once a key is not this verb's own."""
    group: Any = root.command
    commands = [group.get_command(root, name) for name in group.list_commands(root)]
    return {key for command in commands for key in keys(command)}


def origin(ctx: click.Context, param: click.Parameter | None) -> str:
    """Where the value of a parameter comes from, in words."""
    name = "" if param is None else str(param.name)
    source = ctx.get_parameter_source(name)
    if source is ParameterSource.ENVIRONMENT and param is not None:
        names = [param.envvar] if isinstance(param.envvar, str) else param.envvar or []
        return next((name for name in names if os.environ.get(name)), "the environment")
    if source is ParameterSource.DEFAULT_MAP:
        return str(ctx.meta.get(ORIGINS, {}).get(name, "a file of options"))
    return "default" if source is ParameterSource.DEFAULT else "flag"


def verb(*shared: str, example: str) -> Callable[[Callable[..., int | None]], Verb]:
    """A function `f(call, **options)` as a verb of the same name; what it returns is the exit code.

    The function gets the options that it declares itself; those that it shares with other verbs are in
    ``call.params``, and every verb has --json, --quiet, --debug and --show-config.

    Parameters
    ----------
    *shared : str
        Groups of `SHARED` options that the verb takes.
    example : str
        Ends the help; works when pasted. Several lines are several commands.
    """

    def decorated(function: Callable[..., int | None]) -> Verb:
        name = function.__name__.rstrip("_")
        own = {param.name for param in getattr(function, "__click_params__", [])}

        def run(as_json: bool, quiet: bool, debug: bool, show_config: bool, **options: Any) -> None:
            ctx = click.get_current_context()
            if isinstance(ctx.find_root().obj, dict):  # how a failure is to be told
                ctx.find_root().obj.update(json=as_json, debug=debug)
            call = Call(name, options, as_json=as_json, quiet=quiet)
            if show_config:
                tell_config(ctx, call)
                ctx.exit(OK)
            with told_warnings(call):
                code = function(call, **{key: options[key] for key in options if key in own})
            ctx.exit(code or OK)

        shown = "".join(f"\n  {line}" for line in example.strip().splitlines())
        command = click.command(name, cls=Verb, epilog=f"Example:\n\n\b{shown}")
        return command(update_wrapper(run, function)).taking(*shared, "every")

    return decorated


def tell_config(ctx: click.Context, call: Call) -> None:
    """Every option with its value and origin."""
    shown = {
        key: {"value": call.params.get(str(param.name)), "origin": origin(ctx, param)}
        for key, param in keys(ctx.command).items()
        if param.name in call.params
    }
    lines = [
        f"{key:<16} {_worded(entry['value']):<28} {entry['origin']}"
        for key, entry in sorted(shown.items())
    ]
    call.tell({"options": shown}, "\n".join(lines))


def _worded(value: Any) -> str:
    return "-" if value is None else str(plain(value))


@contextmanager
def told_warnings(call: Call) -> Iterator[None]:
    """Warnings of the library are lines of talk, as they come."""

    def show(message: Warning | str, *_args: Any, **_kwargs: Any) -> None:
        call.warn(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)
        for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)  # for programmers
        warnings.showwarning = show
        yield
