"""What does an exact fit cost when the kernel matrix does not fit, and is a pass over it near its bound?

Standard normal points in float32, 50 features, 20 components, `memory="1GB"`; the matrix alone would take
10 GB for 50 000 rows and 40 GB for 100 000. *Told* is the worst residual mercer reports, *ruler* the same
from sampled rows in float64 by the benchmark. Expected are the plan's numbers before the fit.

Below it, one product with the matrix and 32 columns, every tile made anew. The bound is twice the
time of its flops and exponentials, n²/2 · ((2(d + 2) + 4 · 32) / peak + exp), shared by all threads, with
the peak of a core (a 2048³ product) and the time of an exponential measured in the same process. A ratio
of 1 or less means that the bound is met.
"""

from __future__ import annotations

from typing import Any

from benchmarks.report import number, table
from benchmarks.scale.case import Case, Job, Options, Setting
from benchmarks.scale.entrants import EXACT
from benchmarks.scale.report import megabytes, seconds_or_status, share

TITLE = "Exact, past memory"
DATASETS: tuple[str, ...] = ()
PRODUCT = "mercer, one product"


def jobs(setting: Setting) -> list[Job]:
    sizes = (3500,) if setting.quick else (50_000, 100_000)
    options = Options(memory="50MB" if setting.quick else "1GB", forecast=True)
    fits = [Job(Case("gaussian", n, 50, 20), EXACT, options=options) for n in sizes]
    products = [
        Job(Case("gaussian", sizes[0], 50, 20, dtype), PRODUCT, task="product")
        for dtype in ("float32", "float64")
    ]
    return fits + products


def section(rows: list[dict[str, Any]]) -> str:
    return "\n".join([fits(rows), products(rows)])


def fits(rows: list[dict[str, Any]]) -> str:
    header = ["rows", "memory", "seconds", "expected s", "products", "expected", "peak MB"]
    header += ["planned MB", "K held", "residual told", "residual, ruler"]
    return table(header, [fit_line(row) for row in rows if row["task"] == "fit"])


def fit_line(row: dict[str, Any]) -> list[str]:
    return [
        str(row["case"]["n"]),
        str(row["options"]["memory"]),
        seconds_or_status(row),
        number(row.get("expected_seconds")),
        number(row.get("n_products"), "d"),
        number(row.get("expected_products"), "d"),
        megabytes(row.get("peak_bytes")),
        megabytes(row.get("planned_bytes")),
        share(row.get("held")),
        number(row.get("told_residual"), ".1e"),
        number(row.get("residual"), ".1e"),
    ]


def products(rows: list[dict[str, Any]]) -> str:
    header = [
        "rows",
        "precision",
        "product s",
        "bound s",
        "product ÷ bound",
        "peak GFlop/s of a core",
    ]
    header += ["exp, ns", "threads", "peak MB"]
    return table(header, [product_line(row) for row in rows if row["task"] == "product"])


def product_line(row: dict[str, Any]) -> list[str]:
    start = [str(row["case"]["n"]), row["case"]["dtype"], seconds_or_status(row)]
    if "seconds" not in row:
        return start + [number(None)] * 6
    return [
        *start,
        number(row["bound"]),
        number(row["seconds"] / row["bound"], ".2f"),
        number(row["peak_flops"] / 1e9),
        number(row["exp_seconds"] * 1e9),
        str(row["n_threads"]),
        megabytes(row["peak_bytes"]),
    ]
