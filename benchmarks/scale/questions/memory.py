"""Does a fit stay within the memory it was given?

Standard normal points in float32, 50 features, 20 components, exact, with budgets from 0.3 to 4 GB.
*Planned* is the plan's upper bound, *measured* the highest resident set during the fit above the one
before it. Nothing may lie above the budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.report import number, table
from benchmarks.scale.case import Case, Job, Options, Setting
from benchmarks.scale.entrants import EXACT
from benchmarks.scale.report import megabytes, quotient, seconds_or_status, share

if TYPE_CHECKING:
    from pathlib import Path

TITLE = "Memory against the budget"
DATASETS: tuple[str, ...] = ()
BUDGETS = (300, 600, 1000, 2000, 4000)  # MB


def jobs(setting: Setting) -> list[Job]:
    sizes = (5000,) if setting.quick else (20_000, 50_000)
    budgets = (60, 90) if setting.quick else BUDGETS
    return [
        Job(Case("gaussian", n, 50, 20), EXACT, options=Options(memory=budget * 10**6))
        for n in sizes
        for budget in budgets
    ]


def section(rows: list[dict[str, Any]]) -> str:
    header = ["rows", "budget MB", "planned MB", "measured MB", "measured ÷ budget"]
    header += ["measured ÷ planned", "K held", "products", "seconds"]
    return table(header, [line(row) for row in rows])


def line(row: dict[str, Any]) -> list[str]:
    measured, planned = row.get("peak_bytes"), row.get("planned_bytes")
    return [
        str(row["case"]["n"]),
        megabytes(row["options"]["memory"]),
        megabytes(planned),
        megabytes(measured),
        number(quotient(measured, row["options"]["memory"]), ".2f"),
        number(quotient(measured, planned), ".2f"),
        share(row.get("held")),
        number(row.get("n_products"), "d"),
        seconds_or_status(row),
    ]


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    from benchmarks.scale.plot import draw_memory

    draw_memory([row for row in rows if "peak_bytes" in row], path)
