"""The way back, measured: ``python -m benchmarks.preimage --help``."""

from __future__ import annotations

import click

from benchmarks.machine import facts
from benchmarks.preimage import methods, ridge
from benchmarks.preimage.data import splits
from benchmarks.preimage.report import Row, markdown
from benchmarks.run import ROOT, say, write_results

QUESTIONS = {"ridge": ridge, "methods": methods}
QUICK = 150


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="A few rows: does everything run?")
@click.option(
    "--only", multiple=True, type=click.Choice(list(QUESTIONS)), help="Only these questions."
)
@click.option(
    "--data",
    "folder",
    type=click.Path(exists=True, file_okay=False),
    help="Folder with mnist.npz and mlbench_letterrecognition.npz; else they are left out.",
)
def main(*, quick: bool, only: tuple[str, ...], folder: str | None) -> None:
    """Ridge against scikit-learn's inverse_transform, and the five ways back side by side."""
    machine, rows = facts(ROOT) | {"quick": quick}, list[Row]()
    name = f"preimage-{machine['date'].replace(':', '').replace('+0000', 'Z')}"
    for label in only or QUESTIONS:
        for data, (fit, held) in splits(folder).items():
            say(f"{label}: {data}")
            few = (fit[:QUICK], held[:QUICK]) if quick else (fit, held)
            rows += QUESTIONS[label].measured(data, few)
            path = write_results(machine, rows, name)
    text = markdown(machine, rows)
    path.with_suffix(".md").write_text(text)
    click.echo(text)


if __name__ == "__main__":
    main()
