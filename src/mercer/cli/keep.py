"""A fitted model into its file, with all that a reader of the file may ask."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from mercer.cli.frame import plain
from mercer.cli.output import told_file
from mercer.estimators.prepared import Prepared

if TYPE_CHECKING:
    from pathlib import Path

    from mercer.cli.frame import Talk
    from mercer.io.preparation import Preparation
    from mercer.io.prepare import Sheet


def keep_model(
    talk: Talk, path: Path, model: Any, preparation: Preparation, sheet: Sheet, **more: Any
) -> dict[str, Any]:
    """Write the model with its preparation, say so, and give what --json tells of it.

    The header has the command, the options, what was said and warned of, and whatever `more` there is.
    """
    args = (click.get_current_context().find_root().obj or {}).get("args", [])
    about = {
        "command": shlex.join(["mercer", *args]),
        "options": plain(talk.params),
        "notes": talk.notes,
        "warnings": talk.warnings,
        **more,
    }
    n, d = sheet.rows.shape
    data = {"n": n, "d": d, "dtype": str(sheet.rows.dtype), "digest": sheet.digest}
    replaced = path.exists()
    with talk.timed("write"):
        Prepared(preparation, model).save(path, data={**data, "digest_of": "data"}, about=about)
    talk.say(told_file(path, replaced=replaced))
    return {"path": str(path), "bytes": path.stat().st_size, "digest": sheet.digest}
