"""What every verb has in common: its options, how it talks, and how it ends. Light to import."""

from __future__ import annotations

import json
import os
import time
import warnings
from contextlib import contextmanager
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mercer import __version__
from mercer.cli.config import find, keys
from mercer.cli.ending import (
    ALARM,
    BAD_DATA,
    FAILURE,
    INTERRUPTED,
    OK,
    SCHEMA_VERSION,
    USAGE,
    wants,
)
from mercer.cli.option_types import Bytes
from mercer.cli.words import optioned, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "ALARM",
    "BAD_DATA",
    "FAILURE",
    "INTERRUPTED",
    "OK",
    "SCHEMA_VERSION",
    "USAGE",
    "Talk",
    "Verb",
    "plain",
    "printable",
    "verb",
]

HELP = {"--help", "-h"}
ORIGINS = "mercer.origins"
LARGEST_SEED = 2**32 - 1  # that scikit-learn takes, with which some verbs work


class Talk:
    """How a verb talks: data on stdout, everything else on stderr.

    A verb calls `say` for what it does, `warn` for what the user has to know, and `tell` once, at the end,
    with what it found.
    """

    def __init__(self, command: str, params: dict[str, Any], *, as_json: bool, quiet: bool) -> None:
        self.command, self.params = command, params
        self.as_json, self.quiet = as_json, quiet
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self.timings: dict[str, float] = {}
        self.write: Callable[[str], None] = (
            _to_stderr  # whoever draws on the terminal puts his own here
        )
        self._waiting: list[str] = []  # lines to say once the document of --json is out
        self._is_told = False
        self._begun = time.perf_counter()

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
            self.timings[what] = round(time.perf_counter() - begun, 6)

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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for key, param in keys(self).items():
            if param.envvar is None:
                name = key.replace("-", "_").upper()
                param.envvar = [f"MERCER_{str(self.name).upper()}_{name}", f"MERCER_{name}"]

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


def verb(
    *, example: str, seed: bool = False, memory: bool = False
) -> Callable[[Callable[..., int | None]], Verb]:
    """A function `f(talk, **options)` as a verb of the same name; what it returns is the exit code.

    Every verb has --json, --quiet and --debug; `seed` and `memory` add --seed and --memory.

    Parameters
    ----------
    example : str
        Ends the help; works when pasted. Several lines are several commands.
    seed, memory : bool
        Whether the verb takes these options.
    """

    def decorated(function: Callable[..., int | None]) -> Verb:
        name = function.__name__.rstrip("_")

        def run(as_json: bool, quiet: bool, debug: bool, show_config: bool, **options: Any) -> None:
            ctx = click.get_current_context()
            if isinstance(ctx.find_root().obj, dict):  # how a failure is to be told
                ctx.find_root().obj.update(json=as_json, debug=debug)
            talk = Talk(name, dict(options), as_json=as_json, quiet=quiet)
            if show_config:
                warn_config(ctx, talk)
                ctx.exit(OK)
            with told_warnings(talk):
                code = function(talk, **options)
            ctx.exit(code or OK)

        update_wrapper(run, function)
        command: Any = run
        # Click lists options from the last decorator to the first: those that all verbs have come last.
        own = command.__dict__.pop("__click_params__", [])
        for option in _common(seed=seed, memory=memory):
            command = option(command)
        command.__click_params__ += own
        for param in command.__click_params__:
            if isinstance(param.type, click.types.IntParamType) and param.metavar is None:
                param.metavar = "N"  # Click would write INTEGER RANGE
        shown = "".join(f"\n  {line}" for line in example.strip().splitlines())
        return click.command(name, cls=Verb, epilog=f"Example:\n\n\b{shown}")(command)

    return decorated


def _common(*, seed: bool, memory: bool) -> list[Callable[..., Any]]:
    options = [
        click.option(
            "--show-config",
            is_flag=True,
            help="Print every option, its value and where it comes from; do nothing.",
        ),
        click.option("--debug", is_flag=True, help="Show the traceback of a failure."),
        click.option(
            "--quiet", "-q", is_flag=True, help="No talk on stderr but warnings and errors."
        ),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout."),
    ]
    if memory:
        options.append(
            click.option(
                "--memory",
                type=Bytes(),
                default="auto",
                show_default=True,
                metavar="BYTES",
                help="What the work may use, such as 2GB; auto is a share of what is free.",
            )
        )
    if seed:
        options.append(
            click.option(
                "--seed",
                type=click.IntRange(0, LARGEST_SEED),
                default=0,
                show_default=True,
                help="Seed.",
            )
        )
    return options


def warn_config(ctx: click.Context, talk: Talk) -> None:
    """Every option with its value and origin."""
    shown = {
        key: {"value": talk.params.get(str(param.name)), "origin": origin(ctx, param)}
        for key, param in keys(ctx.command).items()
        if param.name in talk.params
    }
    lines = [
        f"{key:<16} {_worded(entry['value']):<28} {entry['origin']}"
        for key, entry in sorted(shown.items())
    ]
    talk.tell({"options": shown}, "\n".join(lines))


def _worded(value: Any) -> str:
    return "-" if value is None else str(plain(value))


@contextmanager
def told_warnings(talk: Talk) -> Iterator[None]:
    """Warnings of the library are lines of talk, as they come."""

    def show(message: Warning | str, *_args: Any, **_kwargs: Any) -> None:
        talk.warn(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)
        for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)  # for programmers
        warnings.showwarning = show
        yield
