"""The command `mercer`: one file a verb, each imported only when it is called for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from mercer import __version__
from mercer._core.errors import MercerError, nearest

# The short helps stand here as text: asking a verb for its own would import what it works with.
VERBS = {
    "demo": "Fit two circles and two moons; print what was found, draw it.",
}
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


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
        command: click.Command = getattr(import_module(f"mercer.cli.{cmd_name}"), cmd_name)
        return command

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

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb. What mercer raises on purpose is one line and exit code 1."""
        try:
            return super().invoke(ctx)
        except MercerError as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)


@click.group(
    cls=LazyGroup,
    verbs=VERBS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example:\n\n\b\n  mercer demo --out out",
)
@click.version_option(__version__, prog_name="mercer")
def main() -> None:
    """Kernel PCA, exact and certified: every fit hands over the evidence that it is right."""
