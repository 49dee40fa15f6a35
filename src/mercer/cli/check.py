"""`mercer check`: is an expression a kernel, is a matrix a kernel matrix? A witness where it is not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click
import numpy as np

from mercer import check_kernel
from mercer._core.errors import InputError, MemoryBudgetError
from mercer._core.memory import format_bytes, parse_bytes
from mercer.cli.data import preparing_options, reading_options, say_read
from mercer.cli.frame import ALARM, OK, verb
from mercer.cli.option_types import flagged
from mercer.data.formats import open_table
from mercer.diagnostics.mercer_check import MAX_ROWS
from mercer.diagnostics.witness import precision, rounding
from mercer.io.preparation import Preparation
from mercer.io.prepare import prepared_rows
from mercer.kernels.text import kernel_text, parse_kernel

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices
    from mercer.cli.frame import Talk
    from mercer.data.table import Reading, TableFile
    from mercer.diagnostics import Verdict
    from mercer.io.prepare import Sheet
    from mercer.kernels import Kernel

SHOWN_POINTS = 10
SHOWN_FEATURES = 8
WHY = {
    "negative": "A kernel is k(x, y) = φ(x)·φ(y), so vᵀKv = ‖Σ vᵢφ(xᵢ)‖² could not be negative.",
    "asymmetric": "A kernel is k(x, y) = φ(x)·φ(y), so the two could not differ.",
}
NOTHING = (
    "No witness was found, and nothing proves it a kernel either. Judge it on your rows: mercer check "
    "data.csv --kernel …"
)


@dataclass(frozen=True)
class Points:
    """The witness in terms of the file: which rows its points are, under which names."""

    rows: list[int]  # positions in the file, from 0
    ids: list[Any] | None
    features: list[str]
    scaled: bool

    @classmethod
    def of(
        cls, verdict: Verdict, rows: Array, positions: Indices, sheet: Sheet, *, scaled: bool
    ) -> Points | None:
        """Where the points of the witness stand; None without one."""
        if verdict.witness is None:
            return None
        # The same numbers went in: equal rows are alike in every respect, and the first will do.
        where = [
            int(positions[np.argmax(np.all(rows == point, axis=1))])
            for point in verdict.witness.points
        ]
        ids = None if sheet.ids is None else [sheet.ids[i] for i in where]
        return cls(where, ids, [str(name) for name in sheet.names], scaled)


# ── for programs ────────────────────────────────────────────────────────────
def facts(kernel: Kernel, verdict: Verdict, points: Points | None = None) -> dict[str, Any]:
    """The verdict on a kernel."""
    judged = kernel if verdict.kernel is None else verdict.kernel
    found = {"kernel": kernel_text(kernel), "judged": kernel_text(judged), **_verdict(verdict)}
    if points is not None:
        found["witness"] |= {"rows": points.rows, "ids": points.ids, "features": points.features}
    return found


def matrix_facts(K: Array, verdict: Verdict) -> dict[str, Any]:
    """The verdict on a matrix, whose witness has numbers of rows for points."""
    found = _verdict(verdict)
    if verdict.witness is not None:
        found["witness"]["rows"] = found["witness"].pop("points")
    return {"n": len(K), **found, "asymmetry": asymmetry(K), "rounding": _rounding(K)}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    witness = verdict.witness
    return {
        "valid": verdict.valid,
        "how": verdict.how.value,
        "reason": verdict.reason,
        "smallest_eigenvalue": verdict.smallest_eigenvalue,
        "n_points": verdict.n_points,
        "n_data_sets": verdict.n_data_sets,
        "witness": None
        if witness is None
        else {
            "kind": witness.kind,
            "points": witness.points,
            "vector": witness.vector,
            "value": witness.value,
            "matrix": witness.matrix,
        },
    }


def asymmetry(K: Array) -> float:
    """The largest |K - Kᵀ|, row by row."""
    return float(max(np.abs(K[i] - K[:, i]).max() for i in range(len(K))))


def _rounding(K: Array) -> float:
    """The share of the largest eigenvalue by which rounding may push one below zero."""
    n = min(len(K), 2000)
    return rounding(n, 1.0, precision(np.asarray(K[:n, :n], dtype=np.float64)))


# ── for people ──────────────────────────────────────────────────────────────
def told(verdict: Verdict, points: Points | None = None) -> str:
    """The verdict on a kernel in sentences."""
    witness = verdict.witness
    if witness is None:
        return verdict.reason if verdict.valid is not None else f"{verdict.reason}\n{NOTHING}"
    lines = [verdict.reason, WHY[witness.kind], "", "Witness:"]
    names = [f"x{j}" for j in range(witness.points.shape[1])] if points is None else points.features
    for i, point in enumerate(witness.points[:SHOWN_POINTS]):
        where = "" if points is None else f"row {points.rows[i]}"
        if points is not None and points.ids is not None:
            where += f" ({points.ids[i]})"
        weight = "" if witness.vector is None else f"v = {witness.vector[i]:+.4f}"
        lines.append("  " + "  ".join(filter(None, [where, weight, _point(point, names)])))
    if len(witness.points) > SHOWN_POINTS:
        lines.append(f"  … and {len(witness.points) - SHOWN_POINTS} more points; --json has all")
    if points is not None:
        units = "standardised columns" if points.scaled else "units of the file"
        lines.append(f"  (rows counted from 0, values in {units})")
    return "\n".join(lines)


def _point(point: Array, names: list[str]) -> str:
    shown = [f"{name} = {value:.4g}" for name, value in zip(names, point, strict=True)]
    more = len(shown) - SHOWN_FEATURES
    return ", ".join(shown[:SHOWN_FEATURES]) + (f", … {more} more" if more > 0 else "")


def told_matrix(K: Array, verdict: Verdict) -> str:
    """The verdict on a matrix in sentences."""
    gap, witness = asymmetry(K), verdict.witness
    even = "It is symmetric." if gap == 0 else f"K and its transpose differ by {gap:.3g} at most."
    lines = [verdict.reason, even]
    if verdict.smallest_eigenvalue is not None:
        share = _rounding(K)
        lines.append(
            f"Its smallest eigenvalue is {verdict.smallest_eigenvalue:.3g}; rounding alone may account for "
            f"-{share:.1g} times the largest."
        )
    if witness is None:
        return "\n".join(lines)
    lines += [WHY[witness.kind], "", "Witness (rows counted from 0):"]
    for i, row in enumerate(witness.points[:SHOWN_POINTS]):
        values = ", ".join(f"{value:.6g}" for value in witness.matrix[i][:SHOWN_POINTS])
        weight = "" if witness.vector is None else f"v = {witness.vector[i]:+.4f}  "
        lines.append(f"  row {int(row)}  {weight}K = {values}")
    if len(witness.points) > SHOWN_POINTS:
        lines.append(f"  … and {len(witness.points) - SHOWN_POINTS} more rows; --json has all")
    return "\n".join(lines)


EXAMPLE = """
mercer demo --csv circles.csv
mercer check circles.csv --id id --label label --kernel "rbf(gamma=0.5) + 0.1*linear()"
"""
# Arrays of the size of the data that a check holds at once: the rows, their copy in float64, one to spare.
COPIES = 3
# A matrix, its copy in float64, its symmetric part, what LAPACK works on, and the order of its entries.
MATRICES = 8


@verb(example=EXAMPLE, seed=True, memory=True)
@click.argument("data", required=False)
@click.option(
    "--kernel", metavar="TEXT", help='As in Python, such as "rbf(gamma=0.5) + 0.1*linear()".'
)
@click.option("--matrix", is_flag=True, help="DATA is a kernel matrix: judge the matrix itself.")
@preparing_options
@reading_options
def check(
    talk: Talk,
    *,
    data: str | None,
    kernel: str | None,
    matrix: bool,
    reading: Reading,
    seed: int,
    memory: str,
    **preparing: Any,
) -> int:
    """Is it a kernel? Look for a witness that it is not.

    With DATA the kernel is judged on its rows, as `mercer fit` would prepare them; without, data sets of
    many shapes and scales are searched for a counterexample. With --matrix, DATA is a square matrix. The
    exit code is 4 where a witness was found: points and a vector v with vᵀKv < 0, or two points with
    k(x, y) ≠ k(y, x).
    """
    if matrix and flagged("kernel"):
        msg = "--kernel and --matrix came: judge a kernel on rows, or a matrix by itself."
        raise click.UsageError(msg)
    judged = None if kernel is None or matrix else parse_kernel(kernel)
    if matrix or (judged is not None and judged.is_precomputed):
        return _matrix(talk, data, reading, seed=seed, memory=memory)
    if judged is None:
        msg = 'Give --kernel "rbf(gamma=0.5)", or a matrix file with --matrix.'
        raise click.UsageError(msg)
    if data is None:
        with talk.timed("check"):
            verdict = check_kernel(judged, random_state=seed)
        talk.tell(facts(judged, verdict), told(verdict))
        return _code(verdict)
    return _on_rows(talk, judged, data, reading, seed=seed, memory=memory, **preparing)


def _code(verdict: Verdict) -> int:
    """Only a witness is an alarm: no proof and no witness is no finding."""
    return ALARM if verdict.valid is False else OK


# ── a kernel, on rows ───────────────────────────────────────────────────────
def _on_rows(
    talk: Talk,
    kernel: Kernel,
    data: str,
    reading: Reading,
    *,
    seed: int,
    memory: str,
    **preparing: Any,
) -> int:
    budget = parse_bytes(memory)
    with talk.timed("read"):
        table = open_table(data, reading)
        preparation, notes = Preparation.learn(table, memory_bytes=budget, **preparing)
        sheet = prepared_rows(table, preparation, memory_bytes=budget)
    say_read(talk, table, sheet, (*notes, *sheet.notes))
    n, d = sheet.rows.shape
    rows, positions = _some(talk, sheet, budget=budget, seed=seed)
    with talk.timed("check"):
        verdict = check_kernel(kernel, rows, random_state=seed)
    scaled = preparation.center is not None
    points = Points.of(verdict, rows, positions, sheet, scaled=scaled)
    talk.tell({**facts(kernel, verdict, points), "n": n, "d": d}, told(verdict, points))
    return _code(verdict)


def _some(talk: Talk, sheet: Sheet, *, budget: int, seed: int) -> tuple[Array, Indices]:
    """The rows in memory, and their positions: all of them, or a seeded sample that the budget holds."""
    n, d = sheet.rows.shape
    most = budget // (2 * COPIES * 8 * d)
    if (
        min(most, n, MAX_ROWS) ** 2 * 8 * MATRICES > budget // 2
    ):  # their kernel matrix is what counts
        most = math.isqrt(budget // (2 * 8 * MATRICES))
    most = max(2, most)
    if n <= most:
        return np.asarray(sheet.rows[:]), np.arange(n)
    positions = np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
    talk.note(
        f"{most} of {n} rows are looked at, drawn with seed {seed}: --memory holds no more of them"
    )
    return np.asarray(sheet.rows[positions]), positions


# ── a matrix ────────────────────────────────────────────────────────────────
def _matrix(talk: Talk, data: str | None, reading: Reading, *, seed: int, memory: str) -> int:
    if data is None:
        msg = "A matrix was to be judged, but no file came: mercer check K.npy --matrix."
        raise click.UsageError(msg)
    with talk.timed("read"):
        table = open_table(data, reading)
        K = _square(table, budget=parse_bytes(memory))
    talk.say(f"read {table.source}: {len(K)} rows and columns")
    with talk.timed("check"):
        verdict = check_kernel(K, random_state=seed)
    talk.tell(matrix_facts(K, verdict), told_matrix(K, verdict))
    return _code(verdict)


def _square(table: TableFile, *, budget: int) -> Array:
    """The matrix in a file, whose size is looked at before it is read."""
    m = len(table.columns)
    if table.n_rows not in (None, m):
        _not_square(f"{table.n_rows} x {m}")
    if m * m * 8 * MATRICES > budget:
        msg = (
            f"To judge a matrix of {m} x {m}, about {format_bytes(m * m * 8 * MATRICES)} are needed, but "
            f"--memory allows {format_bytes(budget)}. Raise it, or judge a part of the matrix."
        )
        raise MemoryBudgetError(msg)
    words = [column for column in table.columns if column.kind != "number"]
    if words:
        msg = f"The column {words[0].name!r} holds words; a kernel matrix has numbers only."
        raise InputError(msg)
    blocks: list[Array] = []
    height = 0
    for chunk in table.chunks(max(1, 2**20 // max(1, m))):
        blocks.append(chunk.numbers)
        height += len(chunk.numbers)
        if height > m:
            _not_square(f"more than {m} rows of {m}")
    if height != m or m == 0:
        _not_square(f"{height} x {m}")
    return np.concatenate(blocks)


def _not_square(shape: str) -> NoReturn:
    msg = f"A kernel matrix is square, but the file has {shape} numbers. Write k(X, X) whole."
    raise InputError(msg)
