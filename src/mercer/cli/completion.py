"""`mercer completion`: the script by which a shell completes verbs, options and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from mercer.cli.frame import verb

if TYPE_CHECKING:
    from mercer.cli.frame import Talk

VARIABLE = "_MERCER_COMPLETE"  # by which the shell asks; Click's name for a command called mercer


@verb(example='eval "$(mercer completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(talk: Talk, shell: str) -> None:
    """Print the lines that make a shell complete this command.

    Put the example's line into ~/.bashrc or ~/.zshrc; for fish, write the output to
    ~/.config/fish/completions/mercer.fish.
    """
    kind = get_completion_class(shell)
    if kind is None:
        msg = f"This Click knows no completion for {shell}."
        raise click.UsageError(msg)
    script = kind(click.get_current_context().find_root().command, {}, "mercer", VARIABLE).source()
    talk.tell({"shell": shell, "script": script}, script)
