"""Rows of measurements become one Markdown page: a section a question, and what went wrong."""

from __future__ import annotations

import inspect
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.report import NOTHING, number, remarks
from benchmarks.scale.data import FILES, is_there

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

Row = dict[str, Any]


def megabytes(size: float | None) -> str:
    return NOTHING if size is None else f"{size / 1e6:.0f}"


def share(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.0f} %"


def quotient(a: float | None, b: float | None) -> float | None:
    return None if a is None or not b else a / b


def seconds_or_status(row: Row) -> str:
    return number(row["seconds"]) if "seconds" in row else row["status"]


def find(rows: Iterable[Row], **wanted: Any) -> Row | None:
    """The measured row with these values; "n" and "dtype" are looked for in its case."""

    def value(row: Row, key: str) -> Any:
        return row["case"][key] if key in row["case"] else row.get(key)

    return next(
        (
            row
            for row in rows
            if row["status"] == "measured" and all(value(row, k) == v for k, v in wanted.items())
        ),
        None,
    )


def exponent(sizes: list[int], costs: list[float]) -> float | None:
    """p of cost ∝ nᵖ, by least squares in logarithms over the upper half of the sizes."""
    if len(sizes) < 2:
        return None
    order = np.argsort(sizes)
    upper = order[min(len(sizes) // 2, len(sizes) - 2) :]
    slope, _ = np.polyfit(np.log(np.array(sizes)[upper]), np.log(np.array(costs)[upper]), 1)
    return float(slope)


def median_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


# ── the page ────────────────────────────────────────────────────────────────
def question_text(question: ModuleType) -> str:
    return inspect.cleandoc(question.__doc__ or "")


def missing_data(datasets: Iterable[str], folder: str | None) -> list[str]:
    """A sentence for each real data set that was asked for and is not there."""
    return [
        f"- {name}: left out, since there is no {FILES[name]} in the folder given with `--data`"
        if folder is not None
        else f"- {name}: left out, since `--data` did not name a folder with {FILES[name]}"
        for name in datasets
        if not is_there(name, folder)
    ]


def machine_text(machine: dict[str, Any]) -> str:
    gigabytes = machine["memory_bytes"] / 1e9
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {gigabytes:.0f} GB; {machine['system']}; "
        f"Python {machine['python']}, numpy {machine['numpy']}, scipy {machine['scipy']}, "
        f"scikit-learn {machine['scikit-learn']}, mercer {machine['mercer']} "
        f"({machine['commit']}); {'; '.join(machine['blas'])}; {machine['date']}.\n"
    )


def told_remarks(rows: list[Row]) -> list[str]:
    """Remarks once each: lines of one case may differ in an option that the name does not show."""
    return list(dict.fromkeys(remarks(rows)))


def markdown(
    machine: dict[str, Any],
    rows: list[Row],
    questions: dict[str, ModuleType],
    *,
    left_out: list[str],
    picture: Callable[[str], str | None],
) -> str:
    """`picture` is where the picture of a question is, if it has one."""
    parts = [
        "Made by `make scale`; RBF kernel of median width unless it says otherwise, seconds of `fit`, "
        "peak resident memory above the data (10⁶ bytes). How to read it: `benchmarks/README.md`.\n",
        machine_text(machine),
    ]
    for name, question in questions.items():
        own = [row for row in rows if row["question"] == name]
        parts += [f"## {question.TITLE}\n", question_text(question) + "\n"]
        shown = picture(name) if own else None
        parts += [f"![{question.TITLE}]({shown})\n"] if shown else []
        parts.append(question.section(own) if own else "Not measured in this run.\n")
    notes = [*left_out, *told_remarks(rows)]
    parts += ["## Remarks\n", "\n".join(notes) + "\n"] if notes else []
    return "\n".join(parts)
