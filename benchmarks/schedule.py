"""How long would a run take? Read off the same run at a smaller n, never guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.case import Case

# LAPACK's reduction is n³; a kernel matrix and its products with a block are n², and iterations
# grow slowly with n. The exponents err on the slow side.
EXPONENT = {"sklearn dense": 3.0, "sklearn auto": 3.0, "sklearn arpack": 2.3}
OTHERWISE = 2.2


def predicted_seconds(case: Case, who: str, rows: Iterable[dict[str, Any]]) -> float | None:
    """Seconds one fit should take, or None where no smaller run was measured."""
    smaller = [
        row
        for row in rows
        if row["who"] == who
        and row["status"] == "measured"
        and row["case"]["n"] < case.n
        and {**row["case"], "n": case.n} == case.as_dict()
    ]
    if not smaller:
        return None
    # The least disturbed of its fits: noise only ever adds, and n³ would multiply it.
    row = max(smaller, key=lambda row: row["case"]["n"])
    return row["seconds_min"] * (case.n / row["case"]["n"]) ** EXPONENT.get(who, OTHERWISE)


def skipped_before(case: Case, who: str, rows: Iterable[dict[str, Any]]) -> bool:
    """Whether the same run was already too slow, or failed for its time, at a smaller n."""
    return any(
        row["who"] == who
        and row["status"] in ("skipped", "timed out")
        and row["case"]["n"] < case.n
        and {**row["case"], "n": case.n} == case.as_dict()
        for row in rows
    )
