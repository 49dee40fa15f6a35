"""Commands as a user gives them: run, held to their promise, and the small files that they read."""

import json
from pathlib import Path

from click.testing import CliRunner

from mercer.cli.main import main


def run(*args, **options):
    """What a command printed, and how it ended."""
    return CliRunner().invoke(main, [str(arg) for arg in args], **options)


def good(*args, **options):
    """A command that has to succeed."""
    done = run(*args, **options)
    assert done.exit_code == 0, done.stderr
    return done


def document(*args, code=0, **options):
    """The document of --json."""
    done = run(*args, "--json", **options)
    assert done.exit_code == code, done.output
    found = json.loads(done.stdout)
    assert found["schema_version"] == 1
    assert found["command"] == args[0]
    return found


def results(*args, code=0, **options):
    """What the document tells."""
    return document(*args, code=code, **options)["results"]


def refused(*args, code):
    """One line on stderr, nothing on stdout, no traceback."""
    done = run(*args)
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.stderr


def write_csv(path, columns):
    """Name → column; floats as they read back to the same bits."""
    text = (
        [repr(float(value)) if isinstance(value, float) else str(value) for value in column]
        for column in columns.values()
    )
    lines = [columns, *zip(*text, strict=True)]
    Path(path).write_text("".join(f"{','.join(cells)}\n" for cells in lines))
    return Path(path)


def read_csv(path):
    """Name → column, as text: a reader that is not ours."""
    lines = [line.split(",") for line in Path(path).read_text().splitlines()]
    return {name: [line[j] for line in lines[1:]] for j, name in enumerate(lines[0])}
