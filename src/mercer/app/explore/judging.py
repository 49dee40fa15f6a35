"""Is it a kernel, which one of several, what does it tell apart, and what would an exact fit cost."""

from __future__ import annotations

import re
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import app
from mercer._core.errors import KernelError
from mercer._core.memory import format_bytes, format_seconds
from mercer.app.explore.fitting import Shown, drawn, quietly, rows_at
from mercer.app.explore.planes import Panel, scores_at
from mercer.app.outcome import Observer, as_dict, plain, refuse_value
from mercer.kernels.text import kernel_text, parse_kernel
from mercer.views.base import listing
from mercer.views.wording import count, number

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.app.explore.dataset import Dataset
    from mercer.app.explore.recipe import Recipe

MOST_KERNELS = 12
VERDICT = ("valid", "how", "smallest_eigenvalue", "n_points", "n_data_sets")
LONG = re.compile(r"\d+\.\d{5,}(?:e[+-]?\d+)?")  # more digits than a sentence needs
SELECT_ROWS = 1000  # compared on a page: seconds, not minutes; the note says so


def check(kernel: Any, data: Dataset | None, scale: str, observer: Observer | None = None) -> Panel:
    """The verdict on an expression, on rows or by a search, with a witness where there is one."""
    if not isinstance(kernel, str):
        refuse_value("kernel", kernel, "a kernel expression")
    given: dict[str, Any] = {} if data is None else data.asked(scale)
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
        **data.asked(recipe.scale),
        kernels=tuple(kernels or ()),
        components=None if components is None else tuple(components),
        max_rows=min(SELECT_ROWS, data.n),
        supervised=supervised,
    )
    outcome = app.run(request, observer)
    found, table = outcome.value.selection, outcome.value.selection.table_
    rank = next(name for name in table.columns if name in MEASURES)
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
    sentences = [text[:1].upper() + text[1:].rstrip(".") + "." for text in texts]
    # False comes before True, and each half stays in its order.
    return sorted(sentences, key=lambda text: text.startswith(("Criterion", "Judge")))


def _candidate(row: Any, rank: str) -> dict[str, Any]:
    """A row of the table as parts of a recipe, to the digits shown, with its figure and its verdict."""
    name = f"{row['kernel']}({row['parameters']})"
    try:
        text: str | None = kernel_text(parse_kernel(name))
    except KernelError:
        text = None
    found = [str(row[column]) for column in ("verdict", "symptoms") if row.get(column)]
    return {
        "name": name,
        "kernel": text,
        "components": int(row["components"]),
        "figure": plain(float(row[rank])),
        "error": plain(float(row["standard_error"])),
        "words": "; ".join(found),
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


# ── labels predicted from components ────────────────────────────────────────
# Shares of the variance compare components of one kernel with each other. They say nothing across kernels,
# since each kernel has a space of its own; labels do. The components were fitted to all rows, without labels;
# only the line is fitted to some and judged on others.
FOLDS, MOST_ROWS = 5, 2000
MOST_KEPT = 50  # components for a line on all that are kept
SURE = 0.01  # the level of the test that two accuracies differ
# Why a kernel is better than PCA: of no more columns than are drawn (True), or of more.
WHY_BENT = {
    True: "PCA only turns these rows, so classes that no straight line parts stay mixed. Components of this "
    "kernel bend with the rows, as their level sets show.",
    False: "PCA looks at these rows from one side, where the classes overlap. Components of this kernel bend "
    "with the rows, as their level sets show.",
}
WHY = {
    1: "PCA does better here: this kernel mixes classes that lie side by side.",
    None: "The two differ by no more than chance explains: bending gains nothing here.",
}
UNLABELLED = (
    "Each kernel measures variance in a space of its own, so shares compare components of one kernel, not "
    "kernels: linear PCA of two columns holds all of it in two components, whatever they show. "
    "Without classes to tell apart, these numbers do not say which kernel is better."
)


def beside_pca(a: Shown, b: Shown, components: Any) -> dict[str, Any]:
    """What `separated` finds of a fit and of PCA, in words about both; none where there are no classes."""
    components = _asked(components, a.inside.k)
    found = _judged(a, b, components)
    if found["right"] is None:
        return {**found, "words": ""}
    commonest, straight = found["commonest"], a.recipe.kind == "pca"
    each = list(zip(found["right"], found["chance"], (" of the labels right", ""), strict=True))
    telling = [share > commonest and p <= SURE for share, p, _ in each]
    guess = f", no better than always naming the largest class ({100 * commonest:.0f} %)"
    own, of_pca = (
        f"{100 * share:.0f} %{words}{'' if better else guess}"
        for (share, _, words), better in zip(each, telling, strict=True)
    )
    line = f"A straight line on {_named(components)} of {'PCA' if straight else 'this kernel'} gets {own}"
    if straight:
        words = f"{line}. Choose kernel PCA to see what components that bend do."
    elif not any(telling):
        words = f"{line}; on those of PCA it does as badly."
    else:
        whys = {**WHY, 0: WHY_BENT[a.inside.d <= len(set(components))]}
        words = f"{line}; on those of PCA it gets {of_pca}. {whys[found['better']]}"
    return {**found, "words": words}


def separated(a: Shown, b: Shown, components: Any) -> dict[str, Any]:
    """How many labels a straight line tells from two fits to the same rows: components drawn, then all.

    There are ``words`` to lead with; with classes also ``right`` of both, ``commonest`` (the share of the
    largest class), ``chance`` (the p-values of both against always naming that), ``p_value`` of the exact
    sign test on rows that one of them gets right, and ``better``: 0, 1 or None. ``kept`` has the same of all
    components that each fit keeps, where more are kept than drawn.
    """
    found = _judged(a, b, components)
    if found["right"] is None or max(a.inside.k, b.inside.k) <= len(
        {*_asked(components, a.inside.k)}
    ):
        return found
    kept = _judged(a, b, list(range(MOST_KEPT)))
    return {**found, "kept": kept, "words": f"{found['words']} {_of_kept(a, b, kept)}"}


def _of_kept(a: Shown, b: Shown, kept: dict[str, Any]) -> str:
    """A component that is not drawn may separate a class."""
    first, second = (min(shown.inside.k, MOST_KEPT) for shown in (a, b))
    one, two = (f"{100 * share:.1f} %" for share in kept["right"])
    whose = f"all {first}" if first == second else f"all of each ({first} and {second})"
    verdict = "they differ there by no more than chance explains"
    if kept["better"] is not None:
        verdict = f"{'AB'[kept['better']]} separates the classes better there"
    return (
        f"On {whose} components that are kept a line gets {one} with A and {two} with B: {verdict}."
    )


def _judged(a: Shown, b: Shown, components: Any) -> dict[str, Any]:
    """A line on these components of both, on rows that it has not seen."""
    components = _asked(components, max(a.inside.k, b.inside.k))
    which = _classes(a.data)
    if isinstance(which, str):
        return {"words": f"{which} {UNLABELLED}", "right": None, "better": None}
    some = drawn(len(which), MOST_ROWS)
    with quietly("drag", len(which)):
        scores = [scores_at(each.inside, each.sheet.rows, some) for each in (a, b)]
    n_classes, which = which.max() + 1, rows_at(which, some)
    # Rows with gaps, and the first ones of a detector that looks back, have none.
    there = np.isfinite(np.hstack(scores)).all(axis=1)
    which = which[there]
    if np.bincount(which, minlength=n_classes).min() < 2:
        why = "Some class has fewer than two rows to hold out."
        return {"words": f"{why} {UNLABELLED}", "right": None, "better": None}
    hits = [_right(own[there], components, which) for own in scores]
    right = [float(hit.mean()) for hit in hits]
    alone = [int((hits[i] & ~hits[1 - i]).sum()) for i in (0, 1)]
    p = float(binomtest(alone[0], sum(alone)).pvalue) if sum(alone) else 1.0
    better = None if p > SURE else int(right[1] > right[0])
    commonest = float(np.bincount(which).max() / len(which))
    chance = [float(binomtest(int(hit.sum()), len(hit), commonest).pvalue) for hit in hits]
    found = {
        "right": right,
        "commonest": commonest,
        "chance": chance,
        "p_value": p,
        "better": better,
    }
    return {"words": _words(a.data, found, len(which), components), **found}


def _classes(data: Dataset) -> Any:  # (n,) numbers of classes, or why there are none
    labels = data.raw.labels
    if labels is None:
        return "These rows have no labels."
    if data.classes.shaded:
        return f"{data.raw.label_name or 'The label'} is a measurement, which has no classes."
    names, which = np.unique(np.asarray(labels).astype(str), return_inverse=True)
    return which if len(names) > 1 else "All rows have the same label."


def _right(scores: Array, components: list[int], which: Array) -> Any:  # (m,) bool
    """Whether a line that was fitted to other rows predicts the class of each row."""
    used = sorted({j for j in components if 0 <= j < scores.shape[1]}) or [0]
    folds = StratifiedKFold(min(FOLDS, int(np.bincount(which).min())), shuffle=True, random_state=0)
    line = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    with quietly("drag", len(which)):
        return np.asarray(cross_val_predict(line, scores[:, used], which, cv=folds) == which)


def _asked(components: Any, k: int) -> list[int]:
    """The components that are among the first k."""
    counted = isinstance(components, list) and all(type(j) is int and j >= 0 for j in components)
    if not counted or not components:
        refuse_value("components", components, "a list of components, from 0")
    return [j for j in components if j < k] or [0]


def _named(components: list[int]) -> str:
    *numbers, last = [str(j + 1) for j in sorted(set(components))]
    return f"components {', '.join(numbers)} and {last}" if numbers else f"component {last}"


def _words(data: Dataset, found: dict[str, Any], m: int, components: list[int]) -> str:
    shares = [f"{100 * share:.1f} %" for share in (*found["right"], found["commonest"])]
    verdict = "The two differ by no more than chance explains"
    if found["better"] is not None:
        verdict = f"On these components {'AB'[found['better']]} separates the classes better"
    rows = f"{count(m)} rows" if m == data.n else f"{count(m)} of {count(data.n)} rows"
    rows += ", seed 0" if data.n > MOST_ROWS else ""
    return (
        f"A straight line on {_named(components)} gets {shares[0]} of "
        f"the labels right with A and {shares[1]} with B; always naming the "
        f"largest class gets {shares[2]}. {verdict} (logistic regression, {rows}, each judged by a line that "
        "was fitted without it; the components were fitted to all rows, without labels)."
    )
