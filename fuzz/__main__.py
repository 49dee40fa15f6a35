"""Spoil honest inputs, thousands of times, and see that nothing but a clear refusal comes of it."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fuzz.market import DOORS
from fuzz.survive import survived
from fuzz.trial import Outcome

if TYPE_CHECKING:
    from fuzz.doors import Door

BATCH = 500  # inputs a process


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--inputs", default=12_000, show_default=True, help="Spoilt inputs, over all doors.")
@click.option("--seed", default=0, show_default=True)
@click.option("--jobs", default=2, show_default=True, help="Processes side by side.")
@click.option("--only", multiple=True, type=click.Choice([door.name for door in DOORS]))
@click.option("--keep", type=click.Path(path_type=Path), help="Folder for inputs that were found.")
def main(inputs: int, seed: int, jobs: int, only: tuple[str, ...], keep: Path | None) -> None:
    """Spoilt files and texts through every reader: no traceback, hang, crash or memory beyond a cap."""
    doors = [door for door in DOORS if not only or door.name in only]
    each, failed = -(-inputs // len(doors)), 0
    with ThreadPoolExecutor(jobs) as pool:
        for door in doors:
            whole = _all(door, each, seed, pool)
            told = ", ".join(f"{what} {count}" for what, count in whole.counts.most_common())
            click.echo(f"{door.name}: {whole.counts.total()} inputs; {told}")
            failed += len(whole.findings)
            _show(door, whole, keep)
    raise SystemExit(1 if failed else 0)


def _all(door: Door, count: int, seed: int, pool: ThreadPoolExecutor) -> Outcome:
    context, whole = multiprocessing.get_context("spawn"), Outcome()
    parts = [range(start, min(start + BATCH, count)) for start in range(0, count, BATCH)]
    for part in pool.map(lambda numbers: survived(door, numbers, seed, context), parts):
        whole.counts += part.counts
        whole.findings += part.findings
    return whole


def _show(door: Door, whole: Outcome, keep: Path | None) -> None:
    for number, (data, finding) in enumerate(whole.findings):
        if number < 10:
            click.echo(f"  {finding[:300]}")
        if keep:
            keep.mkdir(parents=True, exist_ok=True)
            name = f"{door.name.replace(', ', '-')}-{number}{door.suffix}"
            (keep / name).write_bytes(data)


if __name__ == "__main__":
    main()
