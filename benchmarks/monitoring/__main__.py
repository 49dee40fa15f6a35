"""``python -m benchmarks.monitoring --data DIR``: faults that are seen, false alarms, and PyOD beside us."""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.machine import facts
from benchmarks.monitoring import bio, report, tennessee
from benchmarks.run import ROOT, say, write_results

PICTURE = ROOT / "docs" / "images" / "monitoring.png"
PARTS = ("tennessee", "bio")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help=f"With {tennessee.FILE} and {bio.FILE}.",
)
@click.option("--only", type=click.Choice(PARTS), help="One of the two.")
@click.option("--quick", is_flag=True, help="Toy data, a few seconds: does everything run?")
@click.option("--update-docs", is_flag=True, help=f"Write docs/images/{PICTURE.name}.")
def main(*, folder: Path | None, only: str | None, quick: bool, update_docs: bool) -> None:
    """Detection rates on the Tennessee Eastman process; AUC and time beside PyOD (pip install pyod)."""
    if folder is None and not quick:
        msg = "--data DIR is needed, or --quick for toy data."
        raise click.UsageError(msg)
    texts, rows = [], []
    if only != "bio":
        data = tennessee.toy() if quick else tennessee.load(folder or Path())
        found = tennessee.measure(data, tennessee.entrants(data["train_normal"]))
        rows += [{"part": "tennessee", **row} for row in found]
        texts.append(report.tennessee(found))
        if update_docs and not quick:
            fault_1 = data["test"][list(data["fault"]).index(1)]
            report.draw(PICTURE, data["train_normal"], fault_1, tennessee.ENTERS)
            say(f"wrote {PICTURE.relative_to(ROOT)}")
    if only != "tennessee":
        found = bio.measure(bio.toy() if quick else bio.load(folder or Path()))
        rows += [{"part": "bio", **row} for row in found]
        texts.append(report.bio(found))
    text = "\n\n".join(texts)
    click.echo(text)
    if quick:
        return
    machine = facts(ROOT)
    stamp = machine["date"].replace(":", "").replace("+0000", "Z")
    path = write_results(machine, rows, f"monitoring-{stamp}")
    path.with_suffix(".md").write_text(text + "\n")
    say(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
