"""Does `select` find a good width without labels? ``python -m benchmarks.selection --help``."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from benchmarks.data import SEED
from benchmarks.machine import facts
from benchmarks.run import RESULTS, ROOT, say
from benchmarks.selection.data import CASES, load
from benchmarks.selection.report import markdown
from benchmarks.selection.study import study


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--data", "folder", help="Folder with the files of real data; else left out.")
@click.option("--quick", is_flag=True, help="One data set and few widths: does it run?")
@click.option("--steps", default=13, show_default=True, help="Widths from 1/16 to 16 medians.")
@click.option("--only", help="One data set, by name.")
@click.option("--seed", default=SEED % 2**31, show_default=True, help="Of the split of the rows.")
@click.option("--into", help="Name of the result; what is in it is added to.")
def main(
    *, folder: str | None, quick: bool, steps: int, only: str | None, seed: int, into: str | None
) -> None:
    """Accuracy lost at widths picked without labels, beside the best width of a grid."""
    machine = facts(ROOT)
    name = into or f"selection-{machine['date'].replace(':', '').replace('+0000', 'Z')}"
    path = RESULTS / f"{name}.json"
    lines: list[dict[str, Any]] = []
    if path.is_file():
        lines = json.loads(path.read_text())["lines"]
    for case in CASES[:1] if quick else CASES:
        if only is not None and case.name != only:
            continue
        parts = load(case, folder, seed)
        if parts is None:
            say(f"{case.name}: left out, {case.file} is not there")
            continue
        started = time.perf_counter()
        lines += study(case, parts, steps=5 if quick else steps)
        say(f"{case.name}: {time.perf_counter() - started:.0f} s")
        if not quick:
            path.write_text(json.dumps({"machine": machine, "lines": lines}, indent=1))
    text = markdown(machine, lines)
    click.echo(text)
    if not quick:
        path.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
