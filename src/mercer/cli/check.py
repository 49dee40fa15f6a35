"""`mercer check`: is an expression a kernel, is a matrix a kernel matrix? A witness where it is not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click
import numpy as np

from mercer import check_kernel
from mercer._core.errors import InputError, MemoryBudgetError
from mercer._core.memory import format_bytes
from mercer.cli.data import learn_rows, open_data
from mercer.cli.ending import ALARM, OK, refuse
from mercer.cli.options import flagged
from mercer.cli.verb import Call, verb
from mercer.diagnostics.mercer_check import MAX_ROWS
from mercer.diagnostics.witness import precision, rounding
from mercer.kernels.text import kernel_text, parse_kernel

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices
    from mercer.data.table import Table
    from mercer.diagnostics import Verdict
    from mercer.diagnostics.witness import Witness
    from mercer.kernels import Kernel
    from mercer.preprocessing.align import Sheet

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

    def place(self, i: int) -> str:
        """Where point i stands in the file."""
        return f"row {self.rows[i]}" + ("" if self.ids is None else f" ({self.ids[i]})")


# ── for programs ────────────────────────────────────────────────────────────
def facts(kernel: Kernel, verdict: Verdict, points: Points | None = None) -> dict[str, Any]:
    """The verdict on a kernel."""
    judged = kernel if verdict.kernel is None else verdict.kernel
    found = {"kernel": kernel_text(kernel), "judged": kernel_text(judged), **_facts(verdict)}
    if points is not None:
        found["witness"] |= {"rows": points.rows, "ids": points.ids, "features": points.features}
    return found


def matrix_facts(K: Array, verdict: Verdict) -> dict[str, Any]:
    """The verdict on a matrix, whose witness has numbers of rows for points."""
    found = _facts(verdict)
    if verdict.witness is not None:
        found["witness"]["rows"] = found["witness"].pop("points")
    return {"n": len(K), **found, "asymmetry": asymmetry(K), "rounding": _rounding(K)}


def _facts(verdict: Verdict) -> dict[str, Any]:
    def told(value: Any, *names: str) -> dict[str, Any]:
        return {name: getattr(value, name) for name in names}

    found = told(
        verdict, "valid", "how", "reason", "smallest_eigenvalue", "n_points", "n_data_sets"
    )
    found |= {"how": verdict.how.value, "witness": None}
    if verdict.witness is not None:
        found["witness"] = told(verdict.witness, "kind", "points", "vector", "value", "matrix")
    return found


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
    names = [f"x{j}" for j in range(witness.points.shape[1])] if points is None else points.features
    lines = []
    for i, point in enumerate(witness.points[:SHOWN_POINTS]):
        where = "" if points is None else points.place(i)
        lines.append("  ".join(filter(None, [where, _weight(witness, i), _point(point, names)])))
    shown = [verdict.reason, *_witness_lines(witness, "Witness:", lines, "points")]
    if points is not None:
        units = "standardised columns" if points.scaled else "units of the file"
        shown.append(f"  (rows counted from 0, values in {units})")
    return "\n".join(shown)


def told_matrix(K: Array, verdict: Verdict) -> str:
    """The verdict on a matrix in sentences."""
    gap, witness = asymmetry(K), verdict.witness
    even = "It is symmetric." if gap == 0 else f"K and its transpose differ by {gap:.3g} at most."
    shown = [verdict.reason, even]
    if verdict.smallest_eigenvalue is not None:
        shown.append(
            f"Its smallest eigenvalue is {verdict.smallest_eigenvalue:.3g}; rounding alone may account for "
            f"-{_rounding(K):.1g} times the largest."
        )
    if witness is not None:
        lines = []
        for i, row in enumerate(witness.points[:SHOWN_POINTS]):
            values = ", ".join(f"{value:.6g}" for value in witness.matrix[i][:SHOWN_POINTS])
            own = [f"row {int(row)}", _weight(witness, i), f"K = {values}"]
            lines.append("  ".join(filter(None, own)))
        shown += _witness_lines(witness, "Witness (rows counted from 0):", lines, "rows")
    return "\n".join(shown)


def _witness_lines(witness: Witness, title: str, lines: list[str], what: str) -> list[str]:
    """Why it is one, and a line for each of its points that is shown."""
    more = len(witness.points) - len(lines)
    left = [f"… and {more} more {what}; --json has all"] if more else []
    return [WHY[witness.kind], "", title, *(f"  {line}" for line in (*lines, *left))]


def _weight(witness: Witness, i: int) -> str:
    return "" if witness.vector is None else f"v = {witness.vector[i]:+.4f}"


def _point(point: Array, names: list[str]) -> str:
    shown = [f"{name} = {value:.4g}" for name, value in zip(names, point, strict=True)]
    more = len(shown) - SHOWN_FEATURES
    return ", ".join(shown[:SHOWN_FEATURES]) + (f", … {more} more" if more > 0 else "")


EXAMPLE = """
mercer demo --csv circles.csv
mercer check circles.csv --id id --label label --kernel "rbf(gamma=0.5) + 0.1*linear()"
"""
# Arrays of the size of the data that a check holds at once: the rows, their copy in float64, one to spare.
COPIES = 3
# A matrix, its copy in float64, its symmetric part, what LAPACK works on, and the order of its entries.
MATRICES = 8


@verb("preparing", "reading", "seed", "memory", example=EXAMPLE)
@click.argument("data", required=False)
@click.option("--kernel", help='As in Python, such as "rbf(gamma=0.5) + 0.1*linear()".')
@click.option("--matrix", is_flag=True, help="DATA is a kernel matrix: judge the matrix itself.")
def check(call: Call, *, data: str | None, kernel: str | None, matrix: bool) -> int:
    """Is it a kernel? Look for a witness that it is not.

    With DATA the kernel is judged on its rows, as `mercer fit` would prepare them; without, data sets of
    many shapes and scales are searched for a counterexample. With --matrix, DATA is a square matrix. The
    exit code is 4 where a witness was found: points and a vector v with vᵀKv < 0, or two points with
    k(x, y) ≠ k(y, x).
    """
    if matrix and flagged("kernel"):
        refuse("--kernel and --matrix came: judge a kernel on rows, or a matrix by itself.")
    judged = None if kernel is None or matrix else parse_kernel(kernel)
    if matrix or (judged is not None and judged.is_precomputed):
        return _matrix(call, data)
    if judged is None:
        refuse('Give --kernel "rbf(gamma=0.5)", or a matrix file with --matrix.')
    if data is not None:
        return _on_rows(call, judged, data)
    verdict = _verdict(call, judged)
    call.tell(facts(judged, verdict), told(verdict))
    return _code(verdict)


def _verdict(call: Call, *judged: Any) -> Verdict:
    with call.timed("check"):
        return check_kernel(*judged, random_state=call.params["seed"])


def _code(verdict: Verdict) -> int:
    """Only a witness is an alarm: no proof and no witness is no finding."""
    return ALARM if verdict.valid is False else OK


# ── a kernel, on rows ───────────────────────────────────────────────────────
def _on_rows(call: Call, kernel: Kernel, data: str) -> int:
    sheet, preparation = learn_rows(call, open_data(call, data), **call.preparing)
    n, d = sheet.rows.shape
    rows, positions = _some(call, sheet)
    verdict = _verdict(call, kernel, rows)
    scaled = preparation.center is not None
    points = Points.of(verdict, rows, positions, sheet, scaled=scaled)
    call.tell({**facts(kernel, verdict, points), "n": n, "d": d}, told(verdict, points))
    return _code(verdict)


def _some(call: Call, sheet: Sheet) -> tuple[Array, Indices]:
    """The rows in memory, and their positions: all of them, or a seeded sample that the budget holds."""
    (n, d), budget, seed = sheet.rows.shape, call.budget, call.params["seed"]
    most = budget // (2 * COPIES * 8 * d)
    # Of many rows their kernel matrix is what counts.
    if min(most, n, MAX_ROWS) ** 2 * 8 * MATRICES > budget // 2:
        most = math.isqrt(budget // (2 * 8 * MATRICES))
    most = max(2, most)
    if n <= most:
        return np.asarray(sheet.rows[:]), np.arange(n)
    positions = np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
    call.note(
        f"{most} of {n} rows are looked at, drawn with seed {seed}: --memory holds no more of them"
    )
    return np.asarray(sheet.rows[positions]), positions


# ── a matrix ────────────────────────────────────────────────────────────────
def _matrix(call: Call, data: str | None) -> int:
    if data is None:
        refuse("A matrix was to be judged, but no file came: mercer check K.npy --matrix.")
    table = open_data(call, data)
    with call.timed("read"):
        K = _square(table, budget=call.budget)
    call.say(f"read {table.source}: {len(K)} rows and columns")
    verdict = _verdict(call, K)
    call.tell(matrix_facts(K, verdict), told_matrix(K, verdict))
    return _code(verdict)


def _square(table: Table, *, budget: int) -> Array:
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
