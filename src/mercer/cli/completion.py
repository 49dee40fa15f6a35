"""`mercer completion`: the script by which a shell completes verbs, options and columns."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from mercer.cli.verb import Call, verb

VARIABLE = "_MERCER_COMPLETE"  # by which the shell asks; Click's name for a command called mercer


@verb(example='eval "$(mercer completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(call: Call, shell: str) -> None:
    """Print the lines that make a shell complete this command.

    Put the example's line into ~/.bashrc or ~/.zshrc; for fish, write the output to
    ~/.config/fish/completions/mercer.fish.
    """
    kind = get_completion_class(shell)
    assert kind is not None  # Click has all three
    script = kind(click.get_current_context().find_root().command, {}, "mercer", VARIABLE).source()
    call.tell({"shell": shell, "script": script}, script)
