"""The command `mercer`: verbs, each imported only when it is called for."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from mercer import __version__
from mercer._core.errors import nearest
from mercer.cli.ending import TERMINATED, ClosedPipe, Terminated, end_on_sigterm, ended, fail, wants

# The short helps stand here as text: asking a verb for its own would import what it works with.
VERBS = {
    "check": "Is it a kernel? Look for a witness that it is not.",
    "completion": "Print the lines that make a shell complete this command.",
    "demo": "Fit two circles and two moons; print what was found, draw it.",
    "explore": "Open a page on this machine where kernels are tried by hand.",
    "export": "Write a model as ONNX, and verify it.",
    "fit": "Fit a model to the rows of a file, and keep it in a file.",
    "info": "Print what is in a model file, or what this machine has to compute with.",
    "monitor": "Judge rows by a detector: statistics, limits, alarms and the variables behind them.",
    "plan": "What a fit would do: route, bytes, products and seconds. Fits nothing.",
    "plot": "Draw a model or its scores to PNG, SVG or PDF.",
    "reconstruct": "Take rows through the components and back: what is left out is gone.",
    "report": "Write one HTML file that shows a model and its data, and opens anywhere.",
    "retrain": "Teach a detector later rows, or a fault by its name.",
    "select": "Compare kernels and widths on rows held out.",
    "transform": "Write the scores of the rows of a file.",
}
HOMES = {"plan": "fit", "reconstruct": "transform"}  # verbs that stand in the file of another
EXIT_CODES = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 bad or unreadable data, 4 a check failed or an alarm, "
    "130 interrupted, 143 terminated."
)
OPTIONS = (
    "An option is taken from its flag, else from MERCER_FIT_KERNEL or MERCER_KERNEL (for --kernel of fit), "
    "else from mercer.toml, else it has its default."
)


class LazyGroup(click.Group):
    """A group of verbs: ``mercer.cli.<verb>`` is imported when the verb, or its help, is wanted."""

    def __init__(self, *args: Any, verbs: dict[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in self.verbs:
            return None
        home = import_module(f"mercer.cli.{HOMES.get(cmd_name, cmd_name)}")
        return getattr(home, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        verb = args[0]
        if verb not in self.verbs and not verb.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {verb!r}. {nearest(verb, self.verbs)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, self.verbs[verb]) for verb in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Verbs by their short helps: completing one imports none."""
        begun = [
            CompletionItem(verb, help=self.verbs[verb])
            for verb in self.list_commands(ctx)
            if verb.startswith(incomplete)
        ]
        return [*begun, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; Click would end a closed pipe without a word."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            raise ClosedPipe from error

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run, and end as users expect: one line on stderr and an exit code, whatever happened."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode, **extra)
        given = list(sys.argv[1:] if args is None else args)
        # The verb overwrites this with what its options say, wherever they come from.
        state = extra.setdefault("obj", {})
        state.update(args=given, json=wants(given, "--json"), debug=wants(given, "--debug"))
        try:
            state["insist"] = end_on_sigterm()
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            if sys.stdout is not None:  # a process may be started without one
                sys.stdout.flush()
        except Exception as error:
            if state["debug"] and not isinstance(error, click.exceptions.Exit):
                traceback.print_exc()
            code = ended(error, as_json=state["json"], params=state.get("params"))
        except Terminated:  # what was being written has been taken away on the way here
            code = fail("Terminated.", TERMINATED, "terminated", as_json=state["json"])
        sys.exit(code if isinstance(code, int) else 0)


@click.group(
    cls=LazyGroup,
    verbs=VERBS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"{OPTIONS}\n\n{EXIT_CODES}\n\nExample:\n\n\b\n  mercer demo --out out",
)
@click.option(
    "--config",
    metavar="FILE",
    envvar="MERCER_CONFIG",
    help="File of options, in place of mercer.toml or [tool.mercer] in this folder.",
)
@click.version_option(__version__, prog_name="mercer")
@click.pass_context
def main(ctx: click.Context, config: str | None) -> None:
    """Kernel PCA, exact and certified: every fit hands over the evidence that it is right."""
    ctx.ensure_object(dict)["config"] = config
