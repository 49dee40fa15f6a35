"""Rows of measurements become Markdown: a summary, the whole table, and what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.competitors import DEFAULT, MERCER

if TYPE_CHECKING:
    from collections.abc import Iterable

Row = dict[str, Any]

TRUSTED_RESIDUAL = 1e-6  # a fit with a larger one is fast, but not an answer
LOOSE_ORTHOGONALITY = 1e-6
QUIET_CORES = 0.1  # what others may use of the machine before a time is in doubt
NOTHING = "–"


def table(header: list[str], lines: Iterable[list[str]]) -> str:
    """A Markdown table; the first two columns are text, the others numbers."""
    rule = [":--" if column < 2 else "--:" for column in range(len(header))]
    body = [header, rule, *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in body) + "\n"


def number(value: float | None, digits: str = ".3g") -> str:
    return NOTHING if value is None else format(value, digits)


def by_case(rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["name"], []).append(row)
    return groups


def of(group: list[Row], who: str) -> Row | None:
    """The measured row of a competitor."""
    return next((row for row in group if row["who"] == who and "seconds" in row), None)


def ratio(row: Row | None, mercer: Row | None) -> float | None:
    """How many times mercer's time this took."""
    return None if row is None or mercer is None else row["seconds"] / mercer["seconds"]


def fastest(group: list[Row], *, residual: float = float("inf")) -> Row | None:
    """The fastest scikit-learn row, of those within the residual."""
    able = [
        row
        for row in group
        if row["who"].startswith("sklearn") and "seconds" in row and row["residual"] <= residual
    ]
    return min(able, key=lambda row: row["seconds"], default=None)


def memory_share(row: Row) -> float | None:
    """Peak over the bytes of one float64 kernel matrix; PCA has none."""
    if row["case"]["kernel"] == "linear":
        return None
    return row["peak_bytes"] / (8 * row["case"]["n"] ** 2)


def eigenvalue_gap(row: Row, group: list[Row]) -> float | None:
    """max_i |λ_i - best_i| / λ_1, where best_i is the largest value any trusted row found.

    A Ritz value never exceeds the eigenvalue it stands for, so the largest is the best known.
    This sees what a residual cannot: true eigenpairs that are not the leading ones.
    """
    values = row.get("eigenvalues")
    trusted = [
        other["eigenvalues"]
        for other in group
        if other.get("eigenvalues") and other["residual"] <= TRUSTED_RESIDUAL
    ]
    if not values or not trusted:
        return None
    best = [max(column) for column in zip(*trusted, strict=False)]
    return max(abs(a - b) for a, b in zip(values, best, strict=False)) / best[0]


def case_line(row: Row, group: list[Row]) -> list[str]:
    if "seconds" not in row:
        return [row["name"], row["who"], row["status"], *[NOTHING] * 7]
    times = ratio(row, of(group, MERCER))
    return [
        row["name"],
        row["who"],
        number(row["seconds"]),
        number(row["seconds_min"]),
        NOTHING if times is None else f"{times:.2f}",
        f"{row['peak_bytes'] / 1e6:.0f}",
        number(memory_share(row), ".2f"),
        number(row["residual"], ".1e"),
        number(eigenvalue_gap(row, group), ".1e"),
        number(row["eigenvalue_1"], ".10g"),
    ]


def measurements(rows: list[Row]) -> str:
    header = ["case", "who", "seconds", "min", "÷ mercer", "peak MB", "peak / 8n²"]
    header += ["max residual", "eigenvalue gap", "λ₁"]
    groups = by_case(rows).values()
    return table(header, (case_line(row, group) for group in groups for row in group))


def summary_line(name: str, group: list[Row]) -> list[str]:
    mercer, quickest = of(group, MERCER), fastest(group)
    right = fastest(group, residual=TRUSTED_RESIDUAL)
    default = of(group, DEFAULT[group[0]["case"]["kernel"] == "linear"])
    return [
        name,
        NOTHING if quickest is None else quickest["who"].removeprefix("sklearn "),
        number(mercer and mercer["seconds"]),
        number(ratio(quickest, mercer)),
        number(ratio(right, mercer)),
        number(ratio(default, mercer)),
        number(mercer and memory_share(mercer), ".2f"),
        number(mercer and mercer["residual"], ".1e"),
    ]


def summary(rows: list[Row]) -> str:
    header = ["case", "fastest scikit-learn", "mercer s", "fastest ÷ mercer"]
    header += ["fastest right one ÷ mercer", "default ÷ mercer", "peak / 8n²", "max residual"]
    return table(header, (summary_line(name, group) for name, group in by_case(rows).items()))


def remarks(rows: list[Row]) -> list[str]:
    """Everything a reader must know that is not a figure; nothing is left out in silence."""
    found = []
    for row in rows:
        told = [row["remark"]] if row.get("remark") else []
        told += [f"warned: {text.splitlines()[0]}" for text in row.get("warnings", []) if text]
        k = row["case"]["k"]
        if k is not None and row.get("n_returned", k) != k:
            told.append(f"returned {row['n_returned']} of {k} components")
        if row.get("orthogonality", 0.0) > LOOSE_ORTHOGONALITY:
            told.append(f"eigenvectors orthonormal only to {row['orthogonality']:.1e}")
        if (row.get("busy_elsewhere") or 0.0) > QUIET_CORES:
            told.append(f"other processes used {row['busy_elsewhere']:.1f} cores meanwhile")
        found += [f"- {row['name']}, {row['who']}: {text}" for text in told]
    return found


def machine_lines(machine: dict[str, Any]) -> str:
    gigabytes = machine["memory_bytes"] / 1e9
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {gigabytes:.0f} GB; {machine['system']}; "
        f"Python {machine['python']}, numpy {machine['numpy']}, scipy {machine['scipy']}, "
        f"scikit-learn {machine['scikit-learn']}, mercer {machine['mercer']} "
        f"({machine['commit']}); {'; '.join(machine['blas'])}; {machine['date']}; "
        f"faces: {machine['faces']}.\n"
    )


def markdown(machine: dict[str, Any], rows: list[Row]) -> str:
    notes = remarks(rows)
    parts = [
        "Made by `make bench`; float64 throughout. How to read it: `benchmarks/README.md`.\n",
        machine_lines(machine),
        "## mercer against scikit-learn\n",
        "A ratio of 3 means that scikit-learn took three times as long. A *right* one reached a "
        f"residual of {TRUSTED_RESIDUAL:.0e}.\n",
        summary(rows),
        "## Every measurement\n",
        "For `linear` (PCA) the residual is the relative reconstruction error.\n",
        measurements(rows),
    ]
    if notes:
        parts += ["## Remarks\n", "\n".join(notes) + "\n"]
    return "\n".join(parts)
