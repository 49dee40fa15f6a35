"""A million rows: what do time and memory buy?

1 000 000 points in float32, 20 features with variance 1/j along feature j, 20 components, 500 landmarks.
*Left out* is tr(K - K̂)/tr K: as mercer's certificate tells it for all rows, and by the benchmark's ruler,
which takes the landmarks of each, scikit-learn's `components_` too, and projects 20 000 sampled rows onto
their span in float64. *Frobenius* is ‖K - K̂‖/‖K‖ over the entries of 2000 sampled rows with each other.
Σλ̂/n adds the 20 eigenvalues each found: more is better, as long as K̂ is below K.
"""

from __future__ import annotations

from typing import Any

from benchmarks.report import number, table
from benchmarks.scale.case import Case, Job, Options, Setting
from benchmarks.scale.entrants import NYSTROEM, NYSTROM, RPCHOLESKY
from benchmarks.scale.report import find, megabytes, quotient, seconds_or_status

TITLE = "A million rows"
DATASETS: tuple[str, ...] = ()
WHO = (RPCHOLESKY, NYSTROM, NYSTROEM)


def jobs(setting: Setting) -> list[Job]:
    case = Case("decaying", 20_000 if setting.quick else 1_000_000, 20, 20)
    options = Options(rank=100 if setting.quick else 500)
    return [Job(case, who, options=options) for who in WHO]


def section(rows: list[dict[str, Any]]) -> str:
    header = ["case", "who", "landmarks", "seconds", "÷ RPCholesky", "peak MB", "planned MB"]
    header += ["left out, told", "left out, ruler", "Frobenius", "Σλ̂/n"]
    return table(header, [line(row, rows) for row in rows])


def line(row: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    n, values = row["case"]["n"], row.get("eigenvalues")
    first = find(rows, who=RPCHOLESKY) or {}
    return [
        f"n={n} d={row['case']['d']}",
        row["who"],
        str(row["options"]["rank"]),
        seconds_or_status(row),
        number(quotient(row.get("seconds"), first.get("seconds")), ".2f"),
        megabytes(row.get("peak_bytes")),
        megabytes(row.get("planned_bytes")),
        number(row.get("told_left_out"), ".4f"),
        number(row.get("left_out"), ".4f"),
        number(row.get("frobenius"), ".2e"),
        number(None if values is None else sum(values) / n, ".5f"),
    ]
