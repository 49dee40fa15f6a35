"""`mercer check`: the verdict in sentences, and exit code 4 where a witness was found."""

from __future__ import annotations

from typing import Any

import click

from mercer._core.types import Array
from mercer.app.check import Checked, CheckRequest
from mercer.cli.ending import ALARM, OK, refuse
from mercer.cli.options import flagged, option
from mercer.cli.verb import Call, verb
from mercer.diagnostics import Verdict
from mercer.diagnostics.witness import Witness

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


EXAMPLE = """
mercer demo --csv circles.csv
mercer check circles.csv --id id --label label --kernel "rbf(gamma=0.5) + 0.1*linear()"
"""


@verb("preparing", "reading", "seed", "memory", example=EXAMPLE)
@click.argument("data", required=False)
@option("--kernel", 'As in Python, such as "rbf(gamma=0.5) + 0.1*linear()".')
@option("--matrix", "DATA is a kernel matrix: judge the matrix itself.", bool)
def check(call: Call, *, data: str | None, kernel: str | None, matrix: bool) -> int:
    """Is it a kernel? Look for a witness that it is not.

    With DATA the kernel is judged on its rows, as `mercer fit` would prepare them; without, data sets of
    many shapes and scales are searched for a counterexample. With --matrix, DATA is a square matrix. The
    exit code is 4 where a witness was found: points and a vector v with vᵀKv < 0, or two points with
    k(x, y) ≠ k(y, x).
    """
    if matrix and flagged("kernel"):
        refuse("--kernel and --matrix exclude each other: judge a kernel on rows, or a matrix.")
    request = call.request(
        CheckRequest, data=data or "", kernel=None if matrix else kernel, matrix=matrix
    )
    checked = call.run(request).value
    call.tell(checked.facts, check_text(checked))
    return ALARM if checked.is_refuted else OK


# ── for people ──────────────────────────────────────────────────────────────
def check_text(checked: Checked) -> str:
    """The verdict in sentences."""
    verdict, points = checked.verdict, checked.points
    if "asymmetry" in checked.facts:
        return matrix_text(checked.facts, verdict)
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


def matrix_text(facts: dict[str, Any], verdict: Verdict) -> str:
    """The verdict on a matrix in sentences."""
    gap, witness = facts["asymmetry"], verdict.witness
    even = "It is symmetric." if gap == 0 else f"K and its transpose differ by {gap:.3g} at most."
    shown = [verdict.reason, even]
    if verdict.smallest_eigenvalue is not None:
        shown.append(
            f"Its smallest eigenvalue is {verdict.smallest_eigenvalue:.3g}; rounding alone may account for "
            f"-{facts['rounding']:.1g} times the largest."
        )
    if witness is not None:
        lines = []
        for i, row in enumerate(witness.points[:SHOWN_POINTS]):
            values = ", ".join(f"{value:.4g}" for value in witness.matrix[i][:SHOWN_POINTS])
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
    return "" if witness.vector is None else f"v = {witness.vector[i]:+.4g}"


def _point(point: Array, names: list[str]) -> str:
    shown = [f"{name} = {value:.4g}" for name, value in zip(names, point, strict=True)]
    more = len(shown) - SHOWN_FEATURES
    return ", ".join(shown[:SHOWN_FEATURES]) + (f", … {more} more" if more > 0 else "")
