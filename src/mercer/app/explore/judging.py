"""Is it a kernel, which one of several, and what would an exact fit cost: use cases of mercer as panels."""

from __future__ import annotations

import re
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import app
from mercer._core.errors import KernelError
from mercer._core.memory import format_bytes, format_seconds
from mercer.app.explore.planes import Panel
from mercer.app.outcome import as_dict, plain, refuse_value
from mercer.kernels.text import kernel_text, parse_kernel
from mercer.views.base import listing
from mercer.views.wording import count, number

if TYPE_CHECKING:
    from mercer.app.explore.dataset import Dataset
    from mercer.app.explore.recipe import Recipe
    from mercer.app.outcome import Observer

MOST_KERNELS = 12
VERDICT = ("valid", "how", "smallest_eigenvalue", "n_points", "n_data_sets")
LONG = re.compile(r"\d+\.\d{5,}(?:e[+-]?\d+)?")  # more digits than a sentence needs
SELECT_ROWS = 1000  # compared on a page: seconds, not minutes; the note says so
NOT_RANKED = ("standard_error", "rank", "components")
TOLD = {"rank", "kernel", "parameters", "components"}


def _of_rows(data: Dataset, scale: str) -> dict[str, Any]:
    return {
        "data": str(data.path),
        "reading": data.reading,
        "scale": scale,
        "impute": data.impute,
        "one_hot": data.one_hot,
    }


def check(kernel: Any, data: Dataset | None, scale: str, observer: Observer | None = None) -> Panel:
    """The verdict on an expression, on rows or by a search, with a witness where there is one."""
    if not isinstance(kernel, str):
        refuse_value("kernel", kernel, "a kernel expression")
    given: dict[str, Any] = {} if data is None else _of_rows(data, scale)
    outcome = app.run(app.CheckRequest(kernel=kernel, **given), observer)
    verdict, facts = outcome.value.verdict, outcome.value.facts
    header = {
        **{name: plain(facts[name]) for name in VERDICT},
        "verdict": verdict.reason,
        "kernel": facts["judged"],
        "witness": None,
        "caption": verdict.reason,
        "findings": [as_dict(finding) for finding in outcome.findings],
    }
    found = verdict.witness
    if found is None:
        return Panel(header)
    where = facts["witness"]
    header["witness"] = {
        "kind": found.kind,
        "rows": where.get("rows"),
        "ids": where.get("ids") and list(map(str, where["ids"])),
        "value": float(found.value),
        "words": str(found),
        "names": where.get("features"),
    }
    arrays = {"matrix": found.matrix, "points": np.atleast_2d(found.points)}
    if found.vector is not None:
        arrays["vector"] = found.vector
    return Panel(header, arrays)


def select(
    recipe: Recipe,
    data: Dataset,
    kernels: Any,
    components: Any,
    observer: Observer | None = None,
    *,
    supervised: bool = False,
) -> Panel:
    """Kernels side by side on rows held out, as a table one can choose from."""
    for name, given in (("kernels", kernels), ("components", components)):
        if given is not None and not (isinstance(given, list) and 0 < len(given) <= MOST_KERNELS):
            refuse_value(name, given, f"1 to {MOST_KERNELS} of them, or None")
    if not all(isinstance(text, str) for text in kernels or ()):
        refuse_value("kernels", kernels, "texts, each a kernel expression")
    request = app.SelectRequest(
        **_of_rows(data, recipe.scale),
        kernels=tuple(kernels or ()),
        components=None if components is None else tuple(components),
        max_rows=min(SELECT_ROWS, data.n),
        supervised=supervised,
    )
    outcome = app.run(request, observer)
    found, table = outcome.value.selection, outcome.value.selection.table_
    rank = next(
        name
        for name in table.columns
        if name not in TOLD | {*NOT_RANKED} and np.asarray(table[name]).dtype.kind == "f"
    )
    columns = [str(name) for name in table.columns]
    rows = [[_cell(row[name]) for name in columns] for row in table]
    candidates = [_candidate(row, rank) for row in table]
    winner = outcome.value.winner  # the first of the table, with all its digits
    candidates[0] |= {"kernel": winner["kernel"], "best": True}
    heads = [name.replace("_", " ") for name in columns]
    figures = listing("All figures", heads, rows, texts=heads.index("components"))
    header = {
        "winner": winner,
        "conclusive": found.conclusive_,
        "reasons": _said(
            outcome.value.facts["reasons"], candidates[0]["name"] if kernels else "the median width"
        ),
        "measure": MEASURES[rank][0],
        "sense": MEASURES[rank][1],
        "candidates": candidates,
        "tables": [plain(asdict(figures))],
        "findings": [as_dict(finding) for finding in outcome.findings],
    }
    return Panel(header, {"bars": np.asarray(table[rank], dtype=np.float64)})


# What the bars are, and which way is better.
MEASURES = {
    "shared": (
        "components that neighbours share",
        "Longer bars are better, and components should also be stable: a kernel replaces the first one only "
        "if it is better by more than four standard errors on both.",
    ),
    "captured": ("captured", "Longer bars are better."),
    "score": ("score on rows held out", "Longer bars are better."),
    "error": ("error on rows held out", "Shorter bars are better."),
}


def _said(reasons: list[str], kept: str) -> list[str]:
    """Reasons as sentences, the verdict first; the page has its own way to be judged by labels."""
    undecided = (
        f"These rows alone do not decide between the candidates, so {kept} is kept. If there are labels, "
        "judge by predicting them."
    )
    texts = [undecided if text.startswith("no criterion can tell") else text for text in reasons]
    texts = [LONG.sub(lambda digits: number(float(digits[0])), text) for text in texts]
    told = [text[:1].upper() + text[1:].rstrip(".") + "." for text in texts]
    verdict = [text for text in told if not text.startswith(("Criterion", "Judge", "Judged"))]
    return [*verdict, *(text for text in told if text not in verdict)]


def _candidate(row: Any, rank: str) -> dict[str, Any]:
    """A row of the table as parts of a recipe, to the digits shown, with its figure and its verdict."""
    name = f"{row['kernel']}({row['parameters']})"
    try:
        text: str | None = kernel_text(parse_kernel(name))
    except KernelError:
        text = None
    told = [str(row[column]) for column in ("verdict", "symptoms") if row.get(column)]
    return {
        "name": name,
        "kernel": text,
        "components": int(row["components"]),
        "figure": plain(float(row[rank])),
        "error": plain(float(row["standard_error"])),
        "words": "; ".join(told),
        "best": False,
    }


def _cell(value: Any) -> str:
    return number(float(value)) if isinstance(value, (float, np.floating)) else str(value)


def plan(recipe: Recipe, data: Dataset, observer: Observer | None = None) -> dict[str, Any]:
    """What an exact fit, or that of the recipe, would do and cost."""
    request = recipe.request(data)
    shared = {each.name: getattr(request, each.name) for each in fields(app.PlanRequest)}
    outcome = app.run(app.PlanRequest(**shared), observer)
    planned = outcome.value
    words = str(planned.plan or planned.refusal or "; ".join(planned.notes))
    cost = words
    if planned.plan is not None and planned.plan.seconds is not None:
        cost = (
            f"An exact fit to all {count(data.n)} rows takes about {format_seconds(planned.plan.seconds)} "
            f"and at most {format_bytes(planned.plan.n_bytes)}."
        )
    return plain({"words": words, "cost": cost, **planned.facts})
