"""Jobs become rows: one at a time, each in a fresh process, or skipped with its reason."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from benchmarks import run
from benchmarks.run import say
from benchmarks.scale.entrants import HOLDS_MATRIX
from benchmarks.schedule import predicted_seconds, skipped_before

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.scale.case import Case, Job, Setting

Row = dict[str, Any]

# What a fit may take of the machine's memory before it is not even tried.
MEMORY_SHARE = 0.8
PATIENCE = 4  # times the limit, before a process is stopped


def run_child(job: Job, setting: Setting) -> Row:
    """One measurement in a fresh process; whatever happens to it becomes a row."""
    told = {
        "case": job.case.as_dict(),
        "who": job.who,
        "task": job.task,
        "options": job.options.as_dict(),
        "folder": setting.folder,
        "repeat": setting.repeat,
    }
    row = run.run_child(told, timeout=PATIENCE * setting.limit, module="benchmarks.scale.child")
    # Said before anything was allocated: that is an answer, not an accident.
    if row["status"] == "failed" and "MemoryBudgetError" in row["remark"]:
        row["status"] = "refused"
    return row


def predicted_bytes(case: Case, who: str, rows: Iterable[Row]) -> float | None:
    """Peak of one who holds the kernel matrix, read off the same run at a smaller n."""
    smaller = [
        row
        for row in rows
        if row["who"] == who
        and "peak_bytes" in row
        and row["case"]["n"] < case.n
        and {**row["case"], "n": case.n} == case.as_dict()
    ]
    if who not in HOLDS_MATRIX or not smaller:
        return None
    row = max(smaller, key=lambda row: row["case"]["n"])
    return row["peak_bytes"] * (case.n / row["case"]["n"]) ** 2


def reason_to_skip(job: Job, rows: list[Row], setting: Setting) -> str | None:
    if not job.limited:
        return None
    seconds = predicted_seconds(job.case, job.who, rows)  # type: ignore[arg-type]
    if seconds is not None and seconds > setting.limit:
        return f"a fit would take about {seconds:.0f} s, over the limit of {setting.limit:.0f} s"
    size = predicted_bytes(job.case, job.who, rows)
    if size is not None and size > MEMORY_SHARE * setting.memory_bytes:
        return f"a fit would take about {size / 1e9:.0f} GB of {setting.memory_bytes / 1e9:.0f}"
    if skipped_before(job.case, job.who, rows):  # type: ignore[arg-type]
        return "too slow or too large at a smaller n already"
    return None


def run_jobs(question: str, jobs: list[Job], setting: Setting) -> list[Row]:
    """All jobs of a question, in order: what was measured says what need not be tried."""
    rows: list[Row] = []
    for number, job in enumerate(jobs, 1):
        started = time.perf_counter()
        reason = reason_to_skip(job, rows, setting)
        row = run_child(job, setting) if reason is None else {"status": "skipped", "remark": reason}
        label = {
            "question": question,
            "task": job.task,
            "who": job.who,
            "name": job.name,
            "case": job.case.as_dict(),
            "options": job.options.as_dict(),
        }
        rows.append(label | row)
        took = f"{row['seconds']:.3g} s" if "seconds" in row else row["status"]
        note = f" ({row['remark']})" if row.get("remark") else ""
        wall = time.perf_counter() - started
        say(f"  [{number}/{len(jobs)}] {job.name}, {job.who}: {took}{note}  [{wall:.0f} s in all]")
    return rows
