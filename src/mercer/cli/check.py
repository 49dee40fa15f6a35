"""`mercer check`: is an expression a kernel, is a matrix a kernel matrix? A witness where it is not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn

import click
import numpy as np

from mercer import check_kernel
from mercer._core.errors import InputError, MemoryBudgetError
from mercer._core.memory import format_bytes, parse_bytes
from mercer.cli.check_words import Points, facts, matrix_facts, told, told_matrix
from mercer.cli.data import preparing_options, reading_options, say_read
from mercer.cli.flags import flagged
from mercer.cli.frame import ALARM, OK, verb
from mercer.data.formats import open_table
from mercer.diagnostics.mercer_check import MAX_ROWS
from mercer.io.preparation import Preparation
from mercer.io.prepare import prepared_rows
from mercer.kernels.expression import parse_kernel

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices
    from mercer.cli.frame import Talk
    from mercer.data.table import Reading, TableFile
    from mercer.diagnostics import Verdict
    from mercer.io.prepare import Sheet
    from mercer.kernels import Kernel

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
