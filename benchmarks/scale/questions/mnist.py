"""Real pictures: how do time, memory and eigenvalues compare with scikit-learn's solvers?

MNIST, 20 000 pictures of 784 grey levels from 0 to 1, 20 components, mercer with `memory="1GB"`. Both
sides get the same numbers in the same precision. *λ against ARPACK* is the largest relative difference of
an eigenvalue from that of ARPACK in float64; the residual is the benchmark's own, from sampled rows.
`dense` is run where the smaller size says that it ends within the limit.
"""

from __future__ import annotations

from typing import Any

from benchmarks.report import number, table
from benchmarks.scale.case import Case, Job, Options, Setting
from benchmarks.scale.data import is_there
from benchmarks.scale.entrants import ARPACK, DENSE, EXACT, RANDOMIZED
from benchmarks.scale.report import find, megabytes, quotient, seconds_or_status, share

TITLE = "MNIST against scikit-learn"
DATASETS = ("mnist",)
PIXELS = 784


def jobs(setting: Setting) -> list[Job]:
    if not is_there("mnist", setting.folder):
        return []
    sizes = (600,) if setting.quick else (2500, 20_000)
    options = Options(memory="1GB", forecast=True)
    found = []
    for n in sizes:
        for dtype in ("float64", "float32"):
            case = Case("mnist", n, PIXELS, 20, dtype)
            # LAPACK on all of K needs minutes: once is enough.
            theirs = [ARPACK, RANDOMIZED, DENSE] if dtype == "float64" else [ARPACK, RANDOMIZED]
            found.append(Job(case, EXACT, options=options))
            found += [
                Job(case, who, limited=True) for who in (theirs[:1] if setting.quick else theirs)
            ]
    return found


def section(rows: list[dict[str, Any]]) -> str:
    header = ["case", "who", "seconds", "÷ mercer", "peak MB", "÷ mercer's", "residual"]
    header += ["λ against ARPACK", "products", "K held", "planned MB"]
    return table(header, [line(row, rows) for row in rows])


def eigenvalue_difference(values: list[float], reference: list[float]) -> float:
    """max_i |λ_i - reference_i| / reference_i"""
    return max(abs(a - b) / b for a, b in zip(values, reference, strict=True))


def line(row: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    n, dtype = row["case"]["n"], row["case"]["dtype"]
    mercer = find(rows, who=EXACT, n=n, dtype=dtype) or {}
    arpack = find(rows, who=ARPACK, n=n, dtype="float64")
    difference = None
    if arpack is not None and "eigenvalues" in row:
        difference = eigenvalue_difference(row["eigenvalues"], arpack["eigenvalues"])
    return [
        f"n={n} {dtype}",
        row["who"],
        seconds_or_status(row),
        number(quotient(row.get("seconds"), mercer.get("seconds")), ".2f"),
        megabytes(row.get("peak_bytes")),
        number(quotient(row.get("peak_bytes"), mercer.get("peak_bytes")), ".2f"),
        number(row.get("residual"), ".1e"),
        number(difference, ".1e"),
        number(row.get("n_products"), "d"),
        share(row.get("held")),
        megabytes(row.get("planned_bytes")),
    ]
