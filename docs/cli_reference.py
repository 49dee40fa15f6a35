"""The reference page of the command line, written from the commands themselves.

    python docs/cli_reference.py > docs/cli.md

A test compares the page with what this prints, so the page can't fall behind.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING

import click

from mercer.cli.main import VERBS, main
from mercer.cli.verb import Verb

if TYPE_CHECKING:
    from collections.abc import Iterable

HEAD = """\
# The command line

<!-- Written by `python docs/cli_reference.py > docs/cli.md`. Change the commands, not this page. -->

`mercer` reads the files people have, fits, transforms, checks, monitors and explains. Data go to stdout,
notes to stderr; `-` in place of a file is stdin or stdout. `mercer VERB --help` says what stands here for
one verb.
"""

EXIT = """\
## How a command ends

| code | meaning |
|---:|---|
| 0 | done |
| 1 | failed: a file can't be written, memory does not suffice, a package is missing |
| 2 | wrong usage: an unknown option, a kernel that can't be read, a model of another kind |
| 3 | bad or unreadable data, or a damaged model file |
| 4 | a check failed: `check` found no kernel, `monitor` an alarm, `plan` too little memory |
| 130 | interrupted (143: terminated) |

An error is one line on stderr: what was given, what is needed, what to do. `--debug` shows the traceback.
With `--json` an error is one JSON object on stderr with `schema_version`, `mercer_version` and `error`,
which has `kind`, `message` and `exit_code`. A file that is written appears whole or not at all.
"""

SETTINGS = """\
## Where options come from

The first of these that says something counts:

1. the flag, `--components 3`
2. the environment for one verb, `MERCER_FIT_COMPONENTS=3`
3. the environment for all verbs, `MERCER_COMPONENTS=3`
4. the table of the verb, `[fit]`, in `mercer.toml` (or `[tool.mercer.fit]` in `pyproject.toml`) of the
   working folder, or in the file that `mercer --config FILE fit …` or `MERCER_CONFIG` names
5. the top level of that file
6. the default

```toml
memory = "2GB"       # for every verb that has --memory

[fit]
scale = "none"
kernel = "rbf(gamma=0.5)"
```

`mercer VERB --show-config` prints every option, its value and where it comes from. `NO_COLOR` is honoured.
Sizes in bytes are written as `2GB` or `512MiB`.

## What every verb prints with --json

One object on stdout: `schema_version`, `mercer_version`, `command`, `params`, `timings` in seconds, `notes`
about what was done to the data, `warnings` and `results`. Numbers that are not finite are `null`.
"""


def page() -> str:
    """The whole page."""
    context = click.Context(main, info_name="mercer")
    parts = [HEAD, _contents(), EXIT, SETTINGS, _everywhere(context), _reading(context)]
    parts += [_verb(context, name) for name in sorted(VERBS)]
    return "\n".join(parts)


def _contents() -> str:
    lines = [f"| [`mercer {name}`](#mercer-{name}) | {VERBS[name]} |" for name in sorted(VERBS)]
    return "\n".join(["| verb | |", "|---|---|", *lines, ""])


def command_of(context: click.Context, name: str) -> click.Command:
    """The command of a verb; its module is imported for it."""
    found = main.get_command(context, name)
    if found is None:
        msg = f"{name!r} is listed among the verbs, but there is no such command."
        raise KeyError(msg)
    return found


def example_lines(command: click.Command) -> list[str]:
    """The lines of the example that ends the help of a command."""
    lines = (command.epilog or "").split("\b\n")[-1].splitlines()
    return [line.strip() for line in lines if line.strip()]


# ── parts of the page ───────────────────────────────────────────────────────
def _everywhere(context: click.Context) -> str:
    return f"## Options of every verb\n\n{_table(context, _shared('every'), shared=True)}"


def _reading(context: click.Context) -> str:
    return (
        "## How data are read\n\n"
        "The verbs that read data have these options; their own tables leave them out. Which formats there\n"
        "are, and what is refused, is on the page about [files](files.md).\n\n"
        f"{_table(context, _shared('reading'), shared=True)}"
    )


def _verb(context: click.Context, name: str) -> str:
    command = command_of(context, name)
    inner = click.Context(command, info_name=name, parent=context)
    usage = " ".join(command.collect_usage_pieces(inner))
    elsewhere, reading = ({param.name for param in _shared(g)} for g in ("every", "reading"))
    reads = reading <= {param.name for param in command.params}
    if reads:
        elsewhere |= reading
    own = [param for param in _options(command) if param.name not in elsewhere]
    parts = [f"## mercer {name}", _prose(command.help or ""), f"    mercer {name} {usage}"]
    if own:
        parts.append(_table(inner, own, shared=False).rstrip())
    if reads:
        parts.append("It also has the options of [how data are read](#how-data-are-read).")
    parts.append("```bash\n" + "\n".join(example_lines(command)) + "\n```")
    return "\n\n".join(parts) + "\n"


def _prose(text: str) -> str:
    """A help text as Markdown: what Click is told not to wrap becomes a block as it stands."""
    blocks = []
    for block in inspect.cleandoc(text).split("\n\n"):
        if block.startswith("\b"):
            blocks.append("```text\n" + block.removeprefix("\b").strip("\n") + "\n```")
        else:
            blocks.append(block.strip())
    return "\n\n".join(blocks)


def _table(context: click.Context, params: Iterable[click.Option], *, shared: bool) -> str:
    lines = ["| option | default | environment | |", "|---|---|---|---|"]
    for param in params:
        record = param.get_help_record(context)
        if record is None:  # hidden
            continue
        extra = param.get_help_extra(context)
        default = "required" if extra.get("required") else extra.get("default", "")
        span = extra.get("range", "").replace("x", "N")  # N>=1
        cells = (
            f"`{record[0]}`",
            f"`{default}`" if default not in ("", "required") else default,
            f"`{named}`" if (named := variable(param, shared=shared)) else "",
            " ".join((param.help or "").split()) + (f" `{span}`" if span else ""),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def variable(param: click.Option, *, shared: bool) -> str:
    """The environment variable of an option: that of its verb, or that of all verbs."""
    names = [param.envvar] if isinstance(param.envvar, str) else list(param.envvar or [""])
    return names[-1 if shared else 0]


def _options(command: click.Command) -> list[click.Option]:
    return [param for param in command.params if isinstance(param, click.Option)]


def _shared(group: str) -> list[click.Option]:
    return _options(Verb("VERB").taking(group))


if __name__ == "__main__":
    sys.stdout.write(page())
