"""Does `select` find a good width without labels? ``python -m benchmarks.selection --help``."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from benchmarks.machine import facts
from benchmarks.run import RESULTS, ROOT, say
from benchmarks.selection.data import CASES, load
from benchmarks.selection.report import markdown
from benchmarks.selection.study import study


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--data", "folder", help="Folder with mnist.npz and the letters; else left out.")
@click.option("--quick", is_flag=True, help="Made data and few widths: does it run?")
@click.option("--steps", default=25, show_default=True, help="Widths over six decades of gamma.")
def main(*, folder: str | None, quick: bool, steps: int) -> None:
    """A judge's held-out accuracy at widths picked without labels, beside the best width of a grid."""
    machine = facts(ROOT)
    name = f"selection-{machine['date'].replace(':', '').replace('+0000', 'Z')}"
    rows: list[dict[str, Any]] = []
    for case in CASES[:1] if quick else CASES:
        parts = load(case, folder)
        if parts is None:
            say(f"{case.name}: left out, {case.file} is not there")
            continue
        started = time.perf_counter()
        rows.append(study(case, parts, steps=7 if quick else steps))
        say(f"{case.name}, k={case.k}: {time.perf_counter() - started:.0f} s")
        if not quick:
            path = RESULTS / f"{name}.json"
            path.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1))
    text = markdown(machine, rows)
    click.echo(text)
    if not quick:
        (RESULTS / f"{name}.md").write_text(text)


if __name__ == "__main__":
    main()
