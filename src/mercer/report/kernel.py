"""The kernel, its parameters, and how they were chosen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mercer.kernels.base import Kernel
from mercer.kernels.names import as_kernel
from mercer.report.markup import Html, bullets, folded, grid, paragraph, tag
from mercer.report.shown import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mercer.report.subject import Subject

RULES = {
    "median": "the median rule: as wide as the median distance between training rows",
    "scale": "scikit-learn's rule 'scale': 1/(number of columns × variance of all entries)",
}
MOST_CANDIDATES = 30
LONG = re.compile(r"\b\d+\.\d{6,}(?:e[-+]?\d+)?\b")


def kernel(subject: Subject) -> list[Any]:
    """What it is, why it is one, its parameters, and whether it was compared with others."""
    if subject.kernel is None and not subject.is_precomputed:
        return [_without(subject)]
    named = tag("code", kernel_text(subject))
    chosen = subject.told("about", "selection", dict)  # `mercer select`, whose winner this is
    return [
        paragraph("The kernel is ", named, ". ", _why_valid(subject)),
        _parameters(subject),
        *([paragraph(_by_hand(subject))] if chosen is None else _by_comparison(chosen)),
    ]


def kernel_text(subject: Subject) -> str:
    """The kernel as one writes it, its numbers to six digits."""
    text = subject.header.get("kernel")
    if not (isinstance(text, str) and text):
        if subject.kernel is None:
            return "precomputed" if subject.is_precomputed else "linear"
        text = repr(subject.kernel)
    return _rounded(text)


def _rounded(text: str) -> str:
    """Numbers of many digits with six of them."""
    return LONG.sub(lambda found: f"{float(found[0]):.6g}", text)


def _without(subject: Subject) -> Html:
    given = getattr(subject.projector, "kernel", None)
    if given is not None:  # a drop-in, which keeps what it was given
        gamma = getattr(subject.projector, "gamma_", None)
        width = "" if gamma is None else f" with gamma={number(gamma)}"
        return paragraph("The kernel is ", tag("code", str(given)), f"{width}, given by hand.")
    return paragraph(
        "There is no kernel: this is linear PCA, whose components are directions of the columns themselves."
    )


def _why_valid(subject: Subject) -> str:
    ours = subject.kernel
    reason = ours.why_valid() if isinstance(ours, Kernel) else None
    if reason is None:
        return "Nothing guarantees that it is valid for all data; the evidence below says what was seen."
    return f"It is valid whatever the data: {reason}."


def _parameters(subject: Subject) -> Html | None:
    """Each number, beside what was asked for."""
    if not isinstance(subject.kernel, Kernel):
        return None
    asked = _asked(subject)
    rows = [
        [name, _value(value), _value(asked.get(name, "—"))]
        for name, value in _numbers(subject.kernel).items()
        if value is not None  # another way to say the same, such as sigma for gamma
    ]
    if not rows:
        return None
    return grid(["parameter", "value", "asked for"], rows, caption="Parameters of the kernel")


def _numbers(ours: Kernel) -> dict[str, Any]:
    params = ours.get_params(deep=True)
    return {name: value for name, value in params.items() if not isinstance(value, Kernel)}


def _asked(subject: Subject) -> dict[str, Any]:
    if _is_own_choice(subject):
        return {}
    # With its rules still rules.
    given = getattr(subject.projector, "kernel", None)
    given = as_kernel(given) if isinstance(given, str) else given
    return _numbers(given) if isinstance(given, Kernel) else {}


def _is_own_choice(subject: Subject) -> bool:
    """Whether a detector chose its kernel by itself."""
    detector = subject.detector
    if detector is None or detector.model is not None:
        return False
    return isinstance(detector.kernel, str) and detector.kernel == "auto"


def _value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    return number(value, 6) if isinstance(value, (int, float)) else str(value)


def _by_hand(subject: Subject) -> str:
    if _is_own_choice(subject):
        return (
            "It is the detector's own choice: a Gaussian sixteen times as wide as the median distance "
            "between training rows, which is nearly linear and safe."
        )
    if subject.is_precomputed:
        return "It was computed elsewhere and came as a matrix."
    texts = {name: v for name, v in _asked(subject).items() if isinstance(v, str)}
    rules = [f"{name} by {RULES[text]}" for name, text in texts.items() if text in RULES]
    if rules:
        return f"It was not compared with others: {'; '.join(rules)}."
    return (
        "It was given by hand, and not compared with others. `mercer select` compares kernels on rows that "
        "are held out."
    )


# ── chosen by comparison ────────────────────────────────────────────────────
def _by_comparison(chosen: Mapping[str, Any]) -> list[Any]:
    reasons = chosen.get("reasons", [])
    lines = reasons if isinstance(reasons, list) else [reasons]  # a header may hold anything
    table = chosen.get("table", [])
    rows = [row for row in table if isinstance(row, dict)] if isinstance(table, list) else []
    parts: list[Any] = [
        paragraph("It was chosen by comparison on rows that were held out:"),
        bullets(_rounded(str(line)) for line in lines),
    ]
    if rows:
        shown = rows[:MOST_CANDIDATES]
        head = list(shown[0])
        cells = [[_value(row.get(name, "")) for name in head] for row in shown]
        caption = "Candidates, the best first"
        if len(rows) > len(shown):
            caption += f": {len(shown)} of {len(rows)}"
        parts.append(folded(caption, grid(head, cells, caption=caption, texts=2)))
    return parts
