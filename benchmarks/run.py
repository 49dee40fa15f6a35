"""mercer against every scikit-learn solver: ``python -m benchmarks.run --help``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click

from benchmarks import cases as case_lists
from benchmarks.case import DATASETS, FACES, Case
from benchmarks.competitors import competitors, same_route
from benchmarks.data import FACES_FILE, kernel_gamma, load
from benchmarks.machine import facts
from benchmarks.report import markdown
from benchmarks.schedule import predicted_seconds, skipped_before

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def say(text: str) -> None:
    click.echo(text, err=True)


ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
CRASHED = -11  # killed by a segmentation fault


def run_child(
    job: dict[str, Any], *, timeout: float, module: str = "benchmarks.measure"
) -> dict[str, Any]:
    """One measurement in a fresh process; whatever happens to it becomes a row.

    A BLAS that crashes on several threads, as some do on large matrices, is given a second try on one:
    that is what a user would do.
    """
    row = _measured(job, timeout=timeout, module=module, env=None)
    if row.get("remark") != f"exit status {CRASHED}":
        return row
    again = _measured(job, timeout=timeout, module=module, env=os.environ | ONE_THREAD)
    note = "crashed (segmentation fault) on several BLAS threads; measured on one"
    return {**again, "remark": note} if again["status"] == "measured" else row


def _measured(
    job: dict[str, Any], *, timeout: float, module: str, env: dict[str, str] | None
) -> dict[str, Any]:
    command = [sys.executable, "-m", module, json.dumps(job)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout, env=env
        )
    except subprocess.TimeoutExpired:
        return {"status": "timed out", "remark": f"stopped after {timeout:.0f} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        complaint = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return {"status": "failed", "remark": complaint.replace(f"{ROOT}/", "")}
    return {"status": "measured", **json.loads(lines[-1])}


def one_row(
    case: Case, who: str, job: dict[str, Any], rows: list[dict[str, Any]], *, limit: float
) -> dict[str, Any]:
    """Measured, shared with the same route under another name, or skipped with its reason."""
    twin = same_route(case, who)
    for row in rows:
        if twin is not None and row["who"] == twin and row["case"] == case.as_dict():
            how = "measured once" if "seconds" in row else row["remark"]
            return {**row, "remark": f"the same call as {twin}: {how}"}
    seconds = predicted_seconds(case, who, rows)
    if who.startswith("sklearn") and seconds is not None and seconds > limit:
        remark = f"a fit would take about {seconds:.0f} s, over the limit of {limit:.0f} s"
        return {"status": "skipped", "remark": remark}
    if who.startswith("sklearn") and skipped_before(case, who, rows):
        return {"status": "skipped", "remark": "too slow at a smaller n already"}
    return run_child({**job, "who": who}, timeout=4 * limit)


def run_case(
    case: Case,
    rows: list[dict[str, Any]],
    *,
    only: tuple[str, ...],
    faces_dir: str | None,
    repeat: int,
    limit: float,
) -> None:
    """All competitors on one case, one after the other, so that noise hits them alike."""
    gamma = kernel_gamma(case, load(case, faces_dir))
    job = {"case": case.as_dict(), "gamma": gamma, "faces_dir": faces_dir, "repeat": repeat}
    entrants = [who for who in competitors(case) if not only or who in only]
    entrants.sort(key=lambda who: same_route(case, who) is not None)  # twins come last
    for who in entrants:
        started = time.perf_counter()
        row = one_row(case, who, job, rows, limit=limit)
        rows.append({**row, "case": case.as_dict(), "name": case.name, "who": who, "gamma": gamma})
        took = f"{row['seconds']:.3g} s" if "seconds" in row else row["status"]
        note = f" ({row['remark']})" if row.get("remark") else ""
        say(f"  {who:20} {took}{note}  [{time.perf_counter() - started:.0f} s in all]")


def write_results(machine: dict[str, Any], rows: list[dict[str, Any]], name: str) -> Path:
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    return path


def write_docs(text: str, rows: list[dict[str, Any]]) -> None:
    from benchmarks.plot import save_plot

    images = ROOT / "docs" / "images"
    images.mkdir(parents=True, exist_ok=True)
    save_plot(rows, images / "benchmark.png")
    picture = "![Time against n, and ratios](images/benchmark.png)\n"
    (ROOT / "docs" / "benchmarks.md").write_text(f"# Benchmarks\n\n{picture}\n{text}")
    say("wrote docs/benchmarks.md and docs/images/benchmark.png")


def check_faces(faces_dir: str | None) -> str | None:
    if faces_dir is not None and not (Path(faces_dir) / FACES_FILE).is_file():
        msg = f"--data {faces_dir}: no {FACES_FILE} there. Leave --data out for synthetic faces."
        raise click.UsageError(msg)
    return None if faces_dir is None else str(Path(faces_dir).resolve())


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="About a minute: does everything run?")
@click.option("--full", is_flag=True, help="The whole grid of n, d, k and kernels: hours.")
@click.option("--large", is_flag=True, help="Add n = 20 000.")
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    type=click.Choice(DATASETS),
    default=("gaussian", "decaying"),
    help="Data sets, the main one first; may be given more than once.",
)
@click.option("--data", "faces_dir", help=f"Folder with {FACES_FILE}; else synthetic faces.")
@click.option(
    "--case", "words", default="", help='Only cases with these words, such as "rbf n=5000".'
)
@click.option("--competitor", "only", multiple=True, help='Only these, such as "mercer".')
@click.option("--repeat", default=3, show_default=True, help="Fits a run, when one takes < 5 s.")
@click.option("--limit", default=300.0, show_default=True, help="Skip slower scikit-learn runs, s.")
@click.option("--list", "list_only", is_flag=True, help="Print the cases and stop.")
@click.option("--update-docs", is_flag=True, help="Write docs/benchmarks.md and its plot.")
def main(
    *,
    quick: bool,
    full: bool,
    large: bool,
    datasets: tuple[str, ...],
    faces_dir: str | None,
    words: str,
    only: tuple[str, ...],
    repeat: int,
    limit: float,
    list_only: bool,
    update_docs: bool,
) -> None:
    """Time, peak memory and residual of mercer and of every scikit-learn solver, in one run."""
    if quick and full:
        msg = "--quick and --full exclude each other. Give one of them, or none for the headline."
        raise click.UsageError(msg)
    if quick and update_docs:
        msg = "--quick gives no figures to quote. Leave out --quick or --update-docs."
        raise click.UsageError(msg)
    faces_dir = check_faces(faces_dir)
    choose = case_lists.full if full else case_lists.smoke if quick else case_lists.headline
    chosen = [case for case in choose(datasets, large=large) if case.matches(words)]
    if list_only or not chosen:
        click.echo("\n".join(case.name for case in chosen) or f"No case has the words {words!r}.")
        return
    started = time.perf_counter()
    machine = facts(ROOT) | {"faces": "ORL" if faces_dir else "synthetic"}
    name = f"benchmark-{machine['date'].replace(':', '').replace('+0000', 'Z')}"
    rows: list[dict[str, Any]] = []
    for number, case in enumerate(chosen, 1):
        say(f"[{number}/{len(chosen)}] {case.name}")
        # The folder is told to the faces alone: results must not depend on where files lie.
        faces_of_case = faces_dir if case.dataset == FACES else None
        run_case(case, rows, only=only, faces_dir=faces_of_case, repeat=repeat, limit=limit)
        path = write_results(machine, rows, name)  # after each case: a stopped run keeps its rows
    text = markdown(machine, rows)
    click.echo(text)
    path.with_suffix(".md").write_text(text)
    finish(path, rows, time.perf_counter() - started)
    if update_docs:
        write_docs(text, rows)


def finish(path: Path, rows: list[dict[str, Any]], seconds: float) -> None:
    say(f"wrote {path.relative_to(ROOT)} after {seconds / 60:.1f} minutes")
    try:
        from benchmarks.plot import save_plot
    except ImportError:
        say('no plot: matplotlib is not installed (pip install "mercer[plot]")')
        return
    save_plot(rows, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
