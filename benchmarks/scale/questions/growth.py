"""How does the cost of a fit grow with the number of rows?

Standard normal points in float64, 50 features, 20 components, as far as each entrant gets within the
limits of time and memory. *mercer exact* may use most of the free memory and keeps half of the kernel
matrix in single precision; with *nothing held* it gets as few bytes as it can run in. The approximations
have 500 landmarks. The exponent p of cost ∝ nᵖ is a least-squares fit in logarithms over the upper half
of the sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.report import NOTHING, number, table
from benchmarks.scale.case import NOTHING_HELD, Case, Job, Options, Setting
from benchmarks.scale.entrants import ARPACK, EXACT, EXACT_UNHELD, NYSTROEM, RPCHOLESKY
from benchmarks.scale.report import exponent

if TYPE_CHECKING:
    from pathlib import Path

TITLE = "Cost against n"
DATASETS: tuple[str, ...] = ()
WHO = (EXACT, EXACT_UNHELD, RPCHOLESKY, ARPACK, NYSTROEM)


def jobs(setting: Setting) -> list[Job]:
    full = (1000, 2000, 5000, 10_000, 20_000, 50_000)
    sizes = (600, 1200) if setting.quick else full
    rank = 100 if setting.quick else 500
    options = dict.fromkeys(WHO, Options())
    options |= dict.fromkeys((RPCHOLESKY, NYSTROEM), Options(rank=rank))
    options[EXACT_UNHELD] = Options(memory=NOTHING_HELD)
    return [
        Job(Case("gaussian", n, 50, 20, "float64"), who, options=options[who], limited=True)
        for n in sizes
        for who in WHO
    ]


def series(rows: list[dict[str, Any]], who: str, key: str) -> tuple[list[int], list[float]]:
    """Sizes and costs of one entrant, ascending."""
    points = sorted(
        (row["case"]["n"], row[key]) for row in rows if row["who"] == who and key in row
    )
    return [n for n, _ in points], [cost for _, cost in points]


def section(rows: list[dict[str, Any]]) -> str:
    parts = ["Seconds of a fit:\n", costs(rows, "seconds", 1.0)]
    parts += ["Peak memory above the data, MB:\n", costs(rows, "peak_bytes", 1e6)]
    return "\n".join(parts)


def costs(rows: list[dict[str, Any]], key: str, unit: float) -> str:
    sizes = sorted({row["case"]["n"] for row in rows})
    header = ["who", "exponent", *(f"n={n}" for n in sizes)]
    return table(header, [costs_line(rows, who, key, unit, sizes) for who in WHO])


def costs_line(
    rows: list[dict[str, Any]], who: str, key: str, unit: float, sizes: list[int]
) -> list[str]:
    found = dict(zip(*series(rows, who, key), strict=True))
    absent = {
        row["case"]["n"]: row["status"] for row in rows if row["who"] == who and key not in row
    }
    cells = [number(found[n] / unit) if n in found else absent.get(n, NOTHING) for n in sizes]
    return [who, number(exponent(*series(rows, who, key)), ".2f"), *cells]


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    from benchmarks.scale.plot import draw_growth

    draw_growth({who: series(rows, who, "seconds") for who in WHO}, path)
