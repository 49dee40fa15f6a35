"""What lies past memory, measured: ``python -m benchmarks.scale --help``."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchmarks.machine import facts
from benchmarks.run import ROOT, say, write_results
from benchmarks.scale.case import Setting
from benchmarks.scale.questions import QUESTIONS
from benchmarks.scale.report import markdown, missing_data
from benchmarks.scale.runner import Row, run_jobs

if TYPE_CHECKING:
    from types import ModuleType

PAGE = "past-memory-benchmarks.md"
NOT_WHOLE = "--update-docs needs the whole run. Leave out --quick and --only, or --update-docs."


def measured(setting: Setting, only: tuple[str, ...]) -> tuple[dict[str, Any], list[Row], Path]:
    """Every question in turn; what was measured is written down after each."""
    started = time.perf_counter()
    asked = [label for label in QUESTIONS if not only or label in only]
    wanted = dict.fromkeys(name for label in asked for name in QUESTIONS[label].DATASETS)
    machine = facts(ROOT) | {
        "quick": setting.quick,
        "questions": asked,
        "left_out": missing_data(wanted, setting.folder),
    }
    setting = replace(setting, memory_bytes=machine["memory_bytes"])
    name = f"past-memory-{machine['date'].replace(':', '').replace('+0000', 'Z')}"
    rows: list[Row] = []
    for label in asked:
        jobs = QUESTIONS[label].jobs(setting)
        say(f"{label}: {QUESTIONS[label].TITLE}, {len(jobs)} measurements")
        rows += run_jobs(label, jobs, setting)
        path = write_results(machine, rows, name)
    minutes = (time.perf_counter() - started) / 60
    say(f"wrote {path.relative_to(ROOT)} after {minutes:.1f} minutes")
    return machine, rows, path


def read(earlier: str) -> tuple[dict[str, Any], list[Row], Path]:
    found = json.loads(Path(earlier).read_text())
    return found["machine"], found["rows"], Path(earlier)


def draw_all(
    questions: dict[str, ModuleType], rows: list[Row], folder: Path, *, prefix: str
) -> None:
    for label, question in questions.items():
        own = [row for row in rows if row["question"] == label]
        if own and hasattr(question, "draw"):
            question.draw(own, folder / f"{prefix}{label}.png")


def write_docs(questions: dict[str, ModuleType], text: str, rows: list[Row]) -> None:
    images = ROOT / "docs" / "images"
    images.mkdir(parents=True, exist_ok=True)
    draw_all(questions, rows, images, prefix="past-memory-")
    (ROOT / "docs" / PAGE).write_text(f"# Past memory, measured\n\n{text}")
    say(f"wrote docs/{PAGE} and docs/images/past-memory-*.png")


def page(
    questions: dict[str, ModuleType], machine: dict[str, Any], rows: list[Row], folder: str
) -> str:
    def picture(label: str) -> str | None:
        has_one = hasattr(questions[label], "draw")
        return f"{folder}{label}.png" if has_one else None

    return markdown(machine, rows, questions, left_out=machine["left_out"], picture=picture)


def check_folder(folder: str | None) -> str | None:
    if folder is not None and not Path(folder).is_dir():
        msg = f"--data {folder}: there is no such folder. Leave --data out to go without real data."
        raise click.UsageError(msg)
    return None if folder is None else str(Path(folder).resolve())


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Toy sizes, under a minute: does everything run?")
@click.option(
    "--only", multiple=True, type=click.Choice(list(QUESTIONS)), help="Only these questions."
)
@click.option("--data", "folder", help="Folder with mnist.npz and other real data; else left out.")
@click.option(
    "--limit", default=300.0, show_default=True, help="Skip slower runs where that is fair, s."
)
@click.option("--repeat", default=3, show_default=True, help="Fits a run, when one takes < 5 s.")
@click.option(
    "--report", "earlier", help="Measure nothing: the text of an earlier run's JSON file."
)
@click.option("--update-docs", is_flag=True, help=f"Write docs/{PAGE} and its pictures.")
def main(
    *,
    quick: bool,
    only: tuple[str, ...],
    folder: str | None,
    limit: float,
    repeat: int,
    earlier: str | None,
    update_docs: bool,
) -> None:
    """Exact fits past memory, and approximations: time, memory, and what they are worth."""
    if update_docs and (quick or only):
        raise click.UsageError(NOT_WHOLE)  # before it is measured
    setting = Setting(quick, check_folder(folder), limit, 1 if quick else repeat)
    machine, rows, path = measured(setting, only) if earlier is None else read(earlier)
    if update_docs and (machine["quick"] or set(machine["questions"]) != set(QUESTIONS)):
        raise click.UsageError(NOT_WHOLE)
    questions = {label: QUESTIONS[label] for label in machine["questions"]}
    finish(questions, machine, rows, path)
    if update_docs:
        write_docs(questions, page(questions, machine, rows, "images/past-memory-"), rows)


def finish(
    questions: dict[str, ModuleType], machine: dict[str, Any], rows: list[Row], path: Path
) -> None:
    """The text on the terminal and beside the JSON file, with its pictures."""
    prefix = f"{path.stem}-"
    text = page(questions, machine, rows, prefix)
    click.echo(text)
    path.with_suffix(".md").write_text(text)
    try:
        draw_all(questions, rows, path.parent, prefix=prefix)
    except ImportError:
        say('no pictures: matplotlib is not installed (pip install "mercer[plot]")')


if __name__ == "__main__":
    main()
