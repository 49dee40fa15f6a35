"""Which approximation leaves out least, at a rank and at a time?

Real data (letters, protein homology with standardised columns, MNIST) and made data with rare clusters:
two clusters with nearly all of 20 000 rows, sixty of ten rows each, all far apart, RBF with γ = 0.5.
There one landmark a cluster would do, but uniform landmarks meet a cluster of ten rows with probability
1 - (1 - 1/2000)^m only, while RPCholesky draws rows in proportion to what is not explained of them. Medians
over 5 seeds; *left out* is tr(K - K̂)/tr K over all rows. Random features leave out no trace in this sense
(K - K̂ is not positive semi-definite), so ‖K - K̂‖/‖K‖ in the Frobenius norm over the entries of 2000 sampled
rows is given for all. The rank of random features is their number.

Below it, error against time on one data set: the clock runs over the fit, alone in its process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.report import number, table
from benchmarks.scale.case import Case, Job, Options, Setting
from benchmarks.scale.data import RARE, is_there
from benchmarks.scale.entrants import FOURIER, KMEANS, NYSTROM, RPCHOLESKY
from benchmarks.scale.report import median_of, megabytes, quotient, seconds_or_status

if TYPE_CHECKING:
    from pathlib import Path

TITLE = "Error of the approximations"
DATASETS = ("letters", "kdd04_bio", "mnist")
METHODS = (RPCHOLESKY, NYSTROM, KMEANS, FOURIER)
TIMED = (RPCHOLESKY, NYSTROM, FOURIER)
ALL = "all methods"

LETTERS = Case("letters", 20_000, 16, 20)
CASES = (LETTERS, Case("kdd04_bio", 30_000, 74, 20), Case("mnist", 10_000, 784, 20))
TOY_ROWS = 2000


def at_size(case: Case, setting: Setting) -> Case:
    return Case(case.dataset, TOY_ROWS, case.d, case.k) if setting.quick else case


def jobs(setting: Setting) -> list[Job]:
    rare = at_size(Case(RARE, 20_000, 10, 20), setting)
    cases = [at_size(case, setting) for case in CASES if is_there(case.dataset, setting.folder)]
    ranks = (60, 120) if setting.quick else (100, 300, 1000)
    options = Options(ranks=ranks, n_seeds=2 if setting.quick else 5)
    errors = [Job(case, ALL, task="errors", options=options) for case in [rare, *cases]]
    # Letters where they are at hand, else points as wide as they.
    letters = is_there("letters", setting.folder)
    timed = at_size(LETTERS if letters else Case("decaying", 20_000, 16, 20), setting)
    ladder = ranks[:1] if setting.quick else (100, 200, 500, 1000, 2000)
    times = [Job(timed, who, options=Options(rank=r)) for r in ladder for who in TIMED]
    return errors + times


def medians(rows: list[dict[str, Any]], key: str) -> dict[tuple[str, int], dict[str, float | None]]:
    """Data set and rank -> method -> median over the seeds."""
    found: dict[tuple[str, int], dict[str, float | None]] = {}
    for row in rows:
        for rank in row["options"]["ranks"] if "errors" in row else ():
            found[row["name"], rank] = {
                who: median_of(
                    error[key]
                    for error in row["errors"]
                    if error["who"] == who and error["rank"] == rank
                )
                for who in METHODS
            }
    return found


def short(who: str) -> str:
    return who.removeprefix("mercer ")


def section(rows: list[dict[str, Any]]) -> str:
    parts = ["Share of the trace left out:\n", left_out_table(rows)]
    parts += ["Relative error in the Frobenius norm:\n", frobenius_table(rows)]
    parts += ["Error against time:\n", time_table(rows)]
    return "\n".join(parts)


def left_out_table(rows: list[dict[str, Any]]) -> str:
    header = [
        "case",
        "rank",
        *map(short, METHODS[:3]),
        "uniform ÷ RPCholesky",
        "k-means++ ÷ RPCholesky",
    ]
    lines = []
    for (name, rank), of in medians(rows, "left_out").items():
        ratios = [quotient(of[who], of[RPCHOLESKY]) for who in (NYSTROM, KMEANS)]
        cells = [number(of[who], ".2e") for who in METHODS[:3]]
        lines.append([name, str(rank), *cells, *(number(ratio) for ratio in ratios)])
    return table(header, lines)


def frobenius_table(rows: list[dict[str, Any]]) -> str:
    header = ["case", "rank", *map(short, METHODS)]
    return table(
        header,
        [
            [name, str(rank), *(number(of[who], ".2e") for who in METHODS)]
            for (name, rank), of in medians(rows, "frobenius").items()
        ],
    )


def time_table(rows: list[dict[str, Any]]) -> str:
    header = [
        "case",
        "who",
        "rank",
        "seconds",
        "left out, told",
        "left out, ruler",
        "Frobenius",
        "peak MB",
    ]
    return table(header, [time_line(row) for row in rows if row["task"] == "fit"])


def time_line(row: dict[str, Any]) -> list[str]:
    # The ruler's trace of random features is no share of anything: K - FFᵀ is not above zero.
    ruled = None if row["who"] == FOURIER else row.get("left_out")
    return [
        Case(**row["case"]).name,
        short(row["who"]),
        str(row["options"]["rank"]),
        seconds_or_status(row),
        number(row.get("told_left_out"), ".2e"),
        number(ruled, ".2e"),
        number(row.get("frobenius"), ".2e"),
        megabytes(row.get("peak_bytes")),
    ]


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    from benchmarks.scale.plot import draw_error

    timed = [row for row in rows if row["task"] == "fit" and "seconds" in row]
    draw_error(timed, medians(rows, "left_out"), path)
