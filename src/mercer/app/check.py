"""Is an expression a kernel, is a matrix a kernel matrix? A witness where it is not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from mercer import check_kernel
from mercer._core.errors import MemoryBudgetError, refuse_data
from mercer._core.memory import format_bytes
from mercer._core.types import Array, Indices
from mercer._core.wording import Message
from mercer.app.outcome import Request, Run, refuse
from mercer.app.rows import OfTraining, learn_rows, open_data
from mercer.data.table import Table
from mercer.diagnostics import Verdict
from mercer.diagnostics.mercer_check import MAX_ROWS
from mercer.diagnostics.witness import precision, rounding
from mercer.kernels import Kernel
from mercer.kernels.text import kernel_text, parse_kernel
from mercer.preprocessing.align import Sheet

# Arrays of the size of the data that a check holds at once: the rows, their copy in float64, one to spare.
COPIES = 3
# A matrix, its copy in float64, its symmetric part, what LAPACK works on, and the order of its entries.
MATRICES = 8
VERDICT = ("valid", "how", "reason", "smallest_eigenvalue", "n_points", "n_data_sets")
WITNESS = ("kind", "points", "vector", "value", "matrix")


@dataclass(frozen=True)
class Points:
    """The witness in terms of the file: which rows its points are, under which names."""

    rows: list[int]  # positions in the file, from 0
    ids: list[Any] | None
    features: list[str]
    scaled: bool

    @classmethod
    def of(cls, verdict: Verdict, rows: Array, positions: Indices, sheet: Sheet) -> Points | None:
        """Where the points of the witness stand; None without one."""
        if verdict.witness is None:
            return None
        # The same numbers went in: equal rows are alike in every respect, and the first will do.
        first = [np.argmax(np.all(rows == point, axis=1)) for point in verdict.witness.points]
        where = [int(i) for i in positions[first]]
        ids = None if sheet.ids is None else [sheet.ids[i] for i in where]
        scaled = sheet.preparation.center is not None
        return cls(where, ids, [str(name) for name in sheet.names], scaled)

    def place(self, i: int) -> str:
        return f"row {self.rows[i]}" + ("" if self.ids is None else f" ({self.ids[i]})")


@dataclass(frozen=True)
class Checked:
    """A verdict; the facts for programs; and where its witness is in the file."""

    verdict: Verdict
    facts: dict[str, Any]
    points: Points | None = None

    @property
    def is_refuted(self) -> bool:
        """Whether a counterexample was found; undecided is not a failure."""
        return self.verdict.valid is False


@dataclass(frozen=True, kw_only=True)
class CheckRequest(OfTraining, Request[Checked]):
    """Judge a kernel on rows, by itself on data sets of many shapes, or a kernel matrix.

    Parameters
    ----------
    kernel : str or Kernel, optional
        The kernel; None with `matrix`.
    data : str
        The file of the rows, or of the matrix; empty: data sets of many shapes and scales.
    matrix : bool
        Whether the file holds a kernel matrix.
    """

    data: str = ""
    kernel: str | Kernel | None = None
    matrix: bool = False

    def fulfil(self, run: Run) -> Checked:
        if self.matrix:
            return self._matrix(run)
        if self.kernel is None:
            refuse("Give {kernel:'rbf(gamma=0.5)'}, or a matrix file with {matrix:True}.")
        judged = parse_kernel(self.kernel) if isinstance(self.kernel, str) else self.kernel
        if judged.is_precomputed:
            return self._matrix(run)
        if self.data:
            return self._on_rows(run, judged)
        verdict = self._verdict(run, judged)
        return Checked(verdict, facts(judged, verdict))

    def _verdict(self, run: Run, *judged: Any) -> Verdict:
        with run.timed("check"):
            return check_kernel(*judged, random_state=self.seed)

    def _on_rows(self, run: Run, kernel: Kernel) -> Checked:
        sheet = learn_rows(run, open_data(run, self.data), **self.preparing)
        n, d = sheet.rows.shape
        rows, positions = _some(run, sheet, self.seed)
        verdict = self._verdict(run, kernel, rows)
        points = Points.of(verdict, rows, positions, sheet)
        return Checked(verdict, {**facts(kernel, verdict, points), "n": n, "d": d}, points)

    def _matrix(self, run: Run) -> Checked:
        if not self.data:
            refuse("A matrix needs its file: mercer check K.npy --matrix.")
        table = open_data(run, self.data)
        with run.timed("read"):
            K = _square(table, budget=run.budget)
        run.say(f"read {table.source}: {len(K)} rows and columns", "read", n=len(K))
        verdict = self._verdict(run, K)
        return Checked(verdict, matrix_facts(K, verdict))


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
    asymmetry = float(max(np.abs(K[i] - K[:, i]).max() for i in range(len(K))))  # row by row
    # The share of the largest eigenvalue by which rounding may push one below zero.
    n = min(len(K), 2000)
    share = rounding(n, 1.0, precision(np.asarray(K[:n, :n], dtype=np.float64)))
    return {"n": len(K), **found, "asymmetry": asymmetry, "rounding": share}


def _facts(verdict: Verdict) -> dict[str, Any]:
    witness = verdict.witness
    return {
        **{name: getattr(verdict, name) for name in VERDICT},
        "how": verdict.how.value,
        "witness": witness and {name: getattr(witness, name) for name in WITNESS},
    }


# ── rows ────────────────────────────────────────────────────────────────────
def _some(run: Run, sheet: Sheet, seed: int) -> tuple[Array, Indices]:
    """The rows in memory, and their positions: all of them, or a seeded sample that the budget holds."""
    (n, d), budget = sheet.rows.shape, run.budget
    most = budget // (2 * COPIES * 8 * d)
    # Of many rows their kernel matrix is what counts.
    if min(most, n, MAX_ROWS) ** 2 * 8 * MATRICES > budget // 2:
        most = math.isqrt(budget // (2 * 8 * MATRICES))
    most = max(2, most)
    if n <= most:
        return np.asarray(sheet.rows[:]), np.arange(n)
    positions = np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
    message = Message(
        "{most} of {n} rows are judged, drawn with seed {seed}: {memory} holds no more of them",
        most=most,
        n=n,
        seed=seed,
    )
    run.note(message, "sampled", rows=most, of=n)
    return np.asarray(sheet.rows[positions]), positions


# ── a matrix ────────────────────────────────────────────────────────────────
def _square(table: Table, *, budget: int) -> Array:
    """The matrix in a file, whose size is looked at before it is read."""
    m = len(table.columns)
    if table.n_rows not in (None, m):
        _not_square(f"{table.n_rows} x {m}")
    if m * m * 8 * MATRICES > budget:
        msg = Message(
            "To judge a matrix of {m} x {m}, about {needed} are needed, but {memory} allows {allowed}. Raise "
            "it, or judge a part of the matrix.",
            m=m,
            needed=format_bytes(m * m * 8 * MATRICES),
            allowed=format_bytes(budget),
        )
        raise MemoryBudgetError(msg)
    words = [column for column in table.columns if column.kind != "number"]
    if words:
        refuse_data(f"The column {words[0].name!r} holds words; a kernel matrix has numbers only.")
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
    found = f"A kernel matrix is square, but the file has {shape} numbers."
    refuse_data(found, "Write k(X, X) whole.")
