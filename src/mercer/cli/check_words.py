"""What `mercer check` found: a document for programs, and sentences for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.diagnostics.witness import precision, rounding
from mercer.kernels.text import kernel_text

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices
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
