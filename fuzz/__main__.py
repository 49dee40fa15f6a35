"""Spoil honest inputs, thousands of times, and see that nothing but a clear refusal comes of it."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import click

from fuzz.batch import batch
from fuzz.doors import DOORS
from fuzz.trial import Outcome

BATCH = 500  # inputs a process: one that dies takes no more than its batch along


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--inputs", default=12_000, show_default=True, help="Spoilt inputs, over all doors.")
@click.option("--seed", default=0, show_default=True)
@click.option("--only", multiple=True, type=click.Choice([door.name for door in DOORS]))
@click.option("--keep", type=click.Path(path_type=Path), help="Folder for inputs that were found.")
def main(inputs: int, seed: int, only: tuple[str, ...], keep: Path | None) -> None:
    """Mutated files and texts through every reader: no traceback, no hang, no memory beyond a cap."""
    doors = [door for door in DOORS if not only or door.name in only]
    each, failed = -(-inputs // len(doors)), 0
    context = multiprocessing.get_context("spawn")
    for door in doors:
        whole = Outcome()
        with context.Pool(2, maxtasksperchild=1) as pool:
            jobs = [
                pool.apply_async(batch, (door.name, min(BATCH, each - start), seed + start))
                for start in range(0, each, BATCH)
            ]
            for job in jobs:
                part = job.get(timeout=1800)
                whole.counts += part.counts
                whole.findings += part.findings
        told = ", ".join(f"{what} {count}" for what, count in whole.counts.most_common())
        click.echo(f"{door.name}: {whole.counts.total()} inputs; {told}")
        failed += len(whole.findings)
        for number, (data, finding) in enumerate(whole.findings):
            if number < 10:
                click.echo(f"  {finding[:300]}")
            if keep:
                keep.mkdir(parents=True, exist_ok=True)
                name = f"{door.name.replace(', ', '-')}-{number}{door.suffix}"
                (keep / name).write_bytes(data)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
