"""What every verb has in common: its options, how it talks, and how it ends. Light to import."""

from __future__ import annotations

import json
import os
import shlex
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from mercer import __version__
from mercer.app.outcome import Run, plain
from mercer.cli.config import find, keys
from mercer.cli.ending import OK, SCHEMA_VERSION, flags, wants
from mercer.cli.options import SHARED
from mercer.cli.progress import Terminal, shown

if TYPE_CHECKING:
    from mercer.app import Outcome, Request
    from mercer.data.table import Reading

T = TypeVar("T")
R = TypeVar("R")
HELP = {"--help", "-h"}
# Parameters of kernels, and one that has them: they stand in the text of --kernel.
OF_KERNELS = {"gamma": "rbf", "sigma": "rbf", "degree": "poly", "coef0": "poly", "nu": "matern"}
ORIGINS = "mercer.origins"
# Over the options that verbs share, in their help.
TITLES = {
    "preparing": "Preparation",
    "reading": "Input",
    "seed": "Computation",
    "memory": "Computation",
    "every": "Every command",
}


class Call(Run):
    """One call of a verb: what it was given, and how it talks: data on stdout, all else on stderr.

    A verb makes a `request` of its options, calls `run`, and calls `tell` once, at the end.
    """

    def __init__(
        self,
        command: str,
        params: dict[str, Any],
        *,
        as_json: bool,
        quiet: bool,
        options: Mapping[str, click.Parameter] | None = None,
    ) -> None:
        self.terminal = Terminal(command, flags(options or {}), as_json=as_json, quiet=quiet)
        super().__init__(self.terminal, memory=params.get("memory", "auto"))
        self.command, self.params = command, params
        self.as_json, self.quiet = as_json, quiet
        self._begun = time.perf_counter()

    @cached_property
    def reading(self) -> Reading:
        """How the options say that a file is to be read; a verb may put another in its place."""
        from mercer.data.table import Reading

        names = {each.name for each in fields(Reading)} & set(self.params)
        return Reading(**{name: self.params[name] for name in names})

    @property
    def line(self) -> str:
        """The command as it was given; empty where it was not given as a line."""
        args = _shared().get("args")
        return shlex.join(["mercer", *args]) if args else ""

    def request(self, kind: type[R], **given: Any) -> R:
        """A request of the options that it has fields for, and of what is given."""
        wanted = {each.name for each in fields(kind)}  # type: ignore[arg-type]  # they are dataclasses
        own = {name: value for name, value in self.params.items() if name in wanted}
        if click.get_current_context().get_parameter_source("scale") is ParameterSource.DEFAULT:
            own.pop("scale", None)  # its default depends on the kernel
        if "reading" in wanted:
            own["reading"] = self.reading
        if "origin" in wanted:
            own["origin"] = {"command": self.line, "options": plain(self.params)}
        return kind(**{**own, **given})

    def run(self, request: Request[T]) -> Outcome[T]:
        """The outcome of a request; findings are shown as they are made, and progress on a terminal."""
        with shown(self.terminal):
            return self.outcome(request)

    def insist(self) -> None:
        """End here if a SIGTERM was lost on the way."""
        _shared().get("insist", lambda: None)()

    def tell(self, results: dict[str, Any], text: str = "") -> None:
        """What was found: one JSON document, or `text` for people (an empty one prints nothing)."""
        if self.as_json:
            click.echo(json.dumps(self.document(results), indent=2, allow_nan=False))
        elif text:
            click.echo(text)
        self.terminal.released()

    def document(self, results: dict[str, Any]) -> dict[str, Any]:
        """The document of --json, with what every verb has in it."""
        total = round(time.perf_counter() - self._begun, 6)
        found = [self.terminal.as_dict(finding) for finding in self.findings]
        return {
            "schema_version": SCHEMA_VERSION,
            "mercer_version": __version__,
            "command": self.command,
            "params": {name: plain(value) for name, value in self.params.items()},
            "timings": {**self.timings, "total": total},
            "notes": [each["message"] for each in found if each["level"] == "note"],
            "warnings": [each["message"] for each in found if each["level"] == "warning"],
            "findings": [each for each in found if each["level"] != "info"],
            "results": plain(results),
        }


def _shared() -> dict[str, Any]:
    """What `main` and the verb tell each other: the arguments, and how a failure is shown."""
    return click.get_current_context().find_root().obj or {}


class Verb(click.Command):
    """A command whose options can also be set by MERCER_VERB_OPTION, MERCER_OPTION and mercer.toml."""

    def taking(self, *groups: str) -> Verb:
        """The command with these groups of `SHARED` options after its own."""
        for group in groups:
            before = len(self.params)
            for option in SHARED[group]:
                option(self)
            for param in self.params[before:]:
                param.heading = TITLES[group]  # type: ignore[attr-defined]
        for key, param in keys(self).items():
            param.show_default = True
            if isinstance(param.type, click.types.IntParamType) and param.metavar is None:
                param.metavar = "N"  # Click would write INTEGER RANGE
            if param.envvar is None:
                name = key.replace("-", "_").upper()
                param.envvar = [f"MERCER_{str(self.name).upper()}_{name}", f"MERCER_{name}"]
        return self

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options under headings, in the order in which they are declared; Click has one list."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = None if isinstance(param, click.Argument) else param.get_help_record(ctx)
            if record is not None:
                usual = "Output" if "-o" in param.opts else "Options"
                if param not in self.params:  # --help, which is Click's own
                    usual = TITLES["every"]
                groups.setdefault(getattr(param, "heading", usual), []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """What was not given as a flag or in the environment is looked for in the file of options."""
        if not ctx.resilient_parsing and not HELP & set(args):
            self._look_up(ctx)
        typed = " ".join(args).replace("=", " ").split()  # Click takes from `args` what it has read
        required = [p for p in self.params if p.required] if wants(args, "--show-config") else []
        for param in required:  # nothing is read or written: no argument is needed
            param.required = False
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name.lstrip("-")
            if name in OF_KERNELS and any(param.name == "kernel" for param in self.params):
                given = next(iter(typed[typed.index(error.option_name) + 1 :]), "1")
                hint = f'Write --kernel "{OF_KERNELS[name]}({name}={given})"'
                msg = f"{error.message.rstrip('.')}. {hint}"
                raise click.NoSuchOption(error.option_name, msg, ctx=ctx) from error
            raise
        except click.BadParameter as error:
            where = origin(ctx, error.param)
            if where in ("flag", "default"):
                raise
            named = ctx.get_parameter_source(str(error.param and error.param.name))
            is_variable = named is ParameterSource.ENVIRONMENT
            by = "was set by the environment variable" if is_variable else "stands in"
            message = f"{error.message} It {by} {where}."
            raise click.BadParameter(message, ctx, error.param, error.param_hint) from error
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


def under(heading: str, *options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Options of a verb under a heading of its help."""

    def decorated(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
            function.__click_params__[-1].heading = heading
        return function

    return decorated


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
            params = {str(param.name): param for param in ctx.command.params}
            _shared().update(json=as_json, debug=debug, params=params)  # how a failure is shown
            call = Call(name, options, as_json=as_json, quiet=quiet, options=params)
            if show_config:
                tell_config(ctx, call)
                ctx.exit(OK)
            with reported_warnings(call):
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
    lines = []
    for key, entry in sorted(shown.items()):
        value = "-" if entry["value"] is None else str(plain(entry["value"]))
        lines.append(f"{key:<16} {value:<28} {entry['origin']}")
    call.tell({"options": shown}, "\n".join(lines))


@contextmanager
def reported_warnings(call: Call) -> Iterator[None]:
    """Warnings of other libraries are shown as they are given: mercer's own are findings of a request."""

    def show(message: Warning | str, *_args: Any, **_kwargs: Any) -> None:
        call.warn(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)
        for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)  # for programmers
        warnings.showwarning = show
        yield
