"""``python -m benchmarks.monitoring --data DIR``: faults that are seen, false alarms, and PyOD beside us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchmarks.machine import facts
from benchmarks.monitoring import (
    bio,
    dynamics,
    dynamics_report,
    false_alarms,
    loops,
    naming,
    plants,
    report,
    tennessee,
)
from benchmarks.run import ROOT, say, write_results

PICTURE = ROOT / "docs" / "images" / "monitoring.png"
PARTS = ("tennessee", "bio", "false-alarms", "dynamics", "plants", "naming", "loops")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help=f"With {tennessee.FILE} and {bio.FILE}.",
)
@click.option("--only", type=click.Choice(PARTS), help="One of the seven.")
@click.option("--quick", is_flag=True, help="Toy data, a few seconds: does everything run?")
@click.option("--update-docs", is_flag=True, help=f"Write docs/images/{PICTURE.name}.")
def main(*, folder: Path | None, only: str | None, quick: bool, update_docs: bool) -> None:
    """Detection rates on the Tennessee Eastman process; AUC and time beside PyOD (pip install pyod)."""
    if folder is None and not quick:
        msg = "--data DIR is needed, or --quick for toy data."
        raise click.UsageError(msg)
    texts, rows = [], []
    if only in (None, "tennessee"):
        data = tennessee.toy() if quick else tennessee.load(folder or Path())
        found = tennessee.measure(data, tennessee.entrants(data["train_normal"]))
        rows += [{"part": "tennessee", **row} for row in found]
        texts.append(report.tennessee(found))
        if update_docs and not quick:
            fault_1 = data["test"][list(data["fault"]).index(1)]
            report.draw(PICTURE, data["train_normal"], fault_1, tennessee.ENTERS)
            say(f"wrote {PICTURE.relative_to(ROOT)}")
    if only in (None, "bio"):
        found = bio.measure(bio.toy() if quick else bio.load(folder or Path()))
        rows += [{"part": "bio", **row} for row in found]
        texts.append(report.bio(found))
    if only in (None, "false-alarms"):
        data = tennessee.toy() if quick else tennessee.load(folder or Path())
        for name, (found, table) in _second_runs(data, quick=quick).items():
            rows += [{"part": name, **row} for row in found]
            texts.append(table(found))
    if only in (None, "dynamics") and not quick:  # whose limits need more rows than toy data have
        data = tennessee.load(folder or Path())
        found, own = dynamics.measure(data, "tennessee"), dynamics.plants()
        blamed = dynamics.blame(data)
        rows += [{"part": "dynamics", **row} for row in (*found, *own, *blamed)]
        texts += [dynamics_report.rates(found), dynamics_report.delays(found)]
        texts += [
            dynamics_report.rates(own),
            dynamics_report.delays(own),
            dynamics_report.blame(blamed),
        ]
    if only in (None, "plants"):
        found = plants.measure(2 if quick else plants.COUNT)
        rows += [{"part": "plants", **row} for row in found]
        texts += [dynamics_report.plants(found), dynamics_report.kinds(found)]
    if only in (None, "naming") and not quick:
        found = naming.measure(tennessee.load(folder or Path()))
        rows += [{"part": "naming", **row} for row in found]
        texts.append(naming.table(found))
    if only in (None, "loops") and not quick:
        found = loops.measure()
        rows += [{"part": "loops", **row} for row in found]
        texts.append(loops.table(found))
    text = "\n\n".join(texts)
    click.echo(text)
    if quick:
        return
    machine = facts(ROOT)
    stamp = machine["date"].replace(":", "").replace("+0000", "Z")
    path = write_results(machine, rows, f"monitoring-{stamp}")
    path.with_suffix(".md").write_text(text + "\n")
    say(f"wrote {path.relative_to(ROOT)}")


def _second_runs(data: dict[str, Any], *, quick: bool) -> dict[str, tuple[Any, Any]]:
    """False alarms of made-up processes and of the fault-free run, and a step behind wild readings."""
    found = false_alarms.measure((100,), repeats=1) if quick else false_alarms.measure()
    return {
        "false alarms": (found, report.false_alarms),
        "fault-free run": (false_alarms.tennessee(data), report.second_run),
        "wild readings": (false_alarms.steps(data), report.steps),
        "failed sensors": (
            false_alarms.failures(data, *([(1e3,)] if quick else [])),
            report.failures,
        ),
    }


if __name__ == "__main__":
    main()
