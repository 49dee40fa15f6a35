"""What went in: the rows and everything that was done to them, the kernel and how it was chosen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mercer.kernels.base import Kernel
from mercer.kernels.names import as_kernel
from mercer.report.markup import Html, bullets, folded, grid, joined, paragraph, tag
from mercer.views.wording import count, counted, few, number, share

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mercer.report.subject import Subject

MOST_COLUMNS = 40
MOST_LINES = 12  # a longer table is folded
# Notes of a fit on what the preparation tells by itself.
SAID = re.compile(r"standardised \d|columns are not scaled|the detector standardises")
RULES = {
    "median": "the median rule: as wide as the median distance between training rows",
    "scale": "scikit-learn's rule 'scale': 1/(number of columns × variance of all entries)",
}
MOST_CANDIDATES = 30
LONG = re.compile(r"\b\d+\.\d{6,}(?:e[-+]?\d+)?\b")


# ── data ────────────────────────────────────────────────────────────────────
def data(subject: Subject) -> list[Any]:
    """What was read, what was done to it, columns and labels."""
    what = "" if subject.data_file is None else f" in {subject.data_file}"
    rows = f"{counted(subject.n, 'row')} of {counted(subject.fitted.d, 'column')}{what}. "
    return [
        paragraph(rows, _same(subject)),
        bullets(_done(subject)),
        _columns(subject),
        _labels(subject),
    ]


def _same(subject: Subject) -> str:
    """Whether these are the rows of the fit, by their hash."""
    theirs, n = subject.entry("data", "digest", object), subject.entry("data", "n", int)
    if theirs is None or subject.digest is None:
        if n is not None:
            return f"The model was fitted to {counted(n, 'row')}."
        return "Whether the model was fitted to these rows is not known."
    if theirs == subject.digest:
        return "These are the rows that the model was fitted to: their digest is the same."
    many = counted(n, "other row") if n is not None and n > 1 else "other rows"
    return f"The model was fitted to {many}, whose digest differs from that of these."


def _done(subject: Subject) -> list[Any]:
    """Everything that was done to the rows, in sentences."""
    lines: list[Any] = [_sentence(note) for note in subject.notes]
    lines += [_sentence(line) for line in _preparation(subject) if _sentence(line) not in lines]
    # What the command that fitted the model said about its rows, where it is not said already.
    notes = map(str, subject.entry("about", "notes", list) or [])
    at_fit = [note for note in notes if note not in subject.notes and not SAID.match(note)]
    if at_fit:
        lines.append(joined(["When the model was fitted:", bullets(map(_sentence, at_fit))]))
    if not lines:
        lines.append("Nothing was dropped, filled in or scaled.")
    if subject.digest is not None:
        lines.append(joined(["Digest of the rows: ", tag("code", subject.digest)]))
    return lines


def _preparation(subject: Subject) -> list[str]:
    """How rows become the model's: what the preparation keeps, in sentences."""
    made, lines = subject.fitted.preparation, list[str]()
    detector = subject.fitted.detector
    if detector is not None and detector.scale:
        lines.append("The detector brings every column to mean 0 and standard deviation 1 itself")
    if made is None:
        return lines
    if made.center is not None:
        lines.append("Columns are standardised with the mean and the spread of the training rows")
    elif not lines:
        lines.append("Columns are used in their own units: they were not scaled")
    if made.fills is not None:
        lines.append("Missing values are filled in with numbers learned from the training rows")
    for column, levels in made.categories:
        zeros = "; any other word is zeros" if column in made.ignoring else ""
        hot = f"{counted(len(levels), 'column')} of 0 and 1: {few(levels)}{zeros}"
        lines.append(f"Column {column} became {hot}")
    return lines


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _columns(subject: Subject) -> Html:
    shown = min(subject.fitted.d, MOST_COLUMNS)
    found = subject.measured.columns[:, :shown].T  # (shown, 4)
    rows = [[name, *map(number, row)] for name, row in zip(subject.names, found, strict=False)]
    what = "Kernel values" if subject.fitted.is_precomputed else "Columns, in the units of the file"
    if shown < subject.fitted.d:
        what += f": the first {shown} of {count(subject.fitted.d)}"
    head = ["column", "least", "mean", "standard deviation", "largest"]
    if subject.missing is not None:
        head.append("missing")
        rows = [[*row, count(int(m))] for row, m in zip(rows, subject.missing, strict=False)]
    table = grid(head, rows, caption=what)
    return table if shown <= MOST_LINES else folded(f"{what} ({shown} lines)", table)


def _labels(subject: Subject) -> Html | None:
    looks = subject.looks
    if not looks.names:
        return None
    lots = zip(looks.names, looks.counts, strict=True)
    rows = [[name, count(n), share(n / subject.n)] for name, n in lots]
    remark = paragraph(looks.remark) if looks.remark else None
    table = grid(["label", "rows", "share"], rows, caption="Labels")
    table = table if len(rows) <= MOST_LINES else folded(f"Labels ({len(rows)} lines)", table)
    return joined([table, remark])


# ── kernel ──────────────────────────────────────────────────────────────────
def kernel(subject: Subject) -> list[Any]:
    """What it is, why it is one, its parameters, and whether it was compared with others."""
    ours, given = subject.fitted.kernel, subject.fitted.given_kernel
    if ours is None and not subject.fitted.is_precomputed:
        if given is not None:  # a drop-in, which keeps what it was given
            gamma = vars(subject.fitted.projector).get("gamma_")
            width = "" if gamma is None else f" with gamma={number(gamma)}"
            given = tag("code", str(given))
            return [paragraph("The kernel is ", given, f"{width}, given by hand.")]
        text = (
            "There is no kernel: this is linear PCA, whose components are directions of the columns "
            "themselves."
        )
        return [paragraph(text)]
    reason = ours.why_valid() if isinstance(ours, Kernel) else None
    valid = f"It is valid whatever the data: {reason}."
    if reason is None:
        valid = "Nothing guarantees that it is valid for all data; the evidence below says what was seen."
    chosen = subject.entry("about", "selection", dict)  # `mercer select`, whose winner this is
    return [
        paragraph("The kernel is ", tag("code", kernel_text(subject)), ". ", valid),
        _parameters(subject),
        *([paragraph(_by_hand(subject))] if chosen is None else _by_comparison(chosen)),
    ]


def kernel_text(subject: Subject) -> str:
    """The kernel as one writes it, its numbers to six digits."""
    text = subject.header.get("kernel")
    if not (isinstance(text, str) and text):
        if subject.fitted.kernel is None:
            return "precomputed" if subject.fitted.is_precomputed else "linear"
        text = repr(subject.fitted.kernel)
    return _rounded(text)


def _rounded(text: str) -> str:
    """Numbers of many digits with six of them."""
    return LONG.sub(lambda found: f"{float(found[0]):.6g}", text)


def _parameters(subject: Subject) -> Html | None:
    """Each number, beside what was asked for."""
    if not isinstance(subject.fitted.kernel, Kernel):
        return None
    asked = _asked(subject)
    rows = [
        [name, _value(value), _value(asked.get(name, "—"))]
        for name, value in _numbers(subject.fitted.kernel).items()
        if value is not None  # another way to say the same, such as sigma for gamma
    ]
    if not rows:
        return None
    return grid(["parameter", "value", "asked for"], rows, caption="Parameters of the kernel")


def _numbers(ours: Kernel) -> dict[str, Any]:
    params = ours.get_params(deep=True)
    return {name: value for name, value in params.items() if not isinstance(value, Kernel)}


def _asked(subject: Subject) -> dict[str, Any]:
    if subject.fitted.chose_kernel:
        return {}
    # With its rules still rules.
    given = subject.fitted.given_kernel
    given = as_kernel(given) if isinstance(given, str) else given
    return _numbers(given) if isinstance(given, Kernel) else {}


def _value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    return number(value, 6) if isinstance(value, (int, float)) else str(value)


def _by_hand(subject: Subject) -> str:
    if subject.fitted.chose_kernel:
        return (
            "It is the detector's own choice: a Gaussian sixteen times as wide as the median distance "
            "between training rows, which is nearly linear and safe."
        )
    if subject.fitted.is_precomputed:
        return "It was computed elsewhere and given as a matrix."
    texts = {name: v for name, v in _asked(subject).items() if isinstance(v, str)}
    rules = [f"{name} by {RULES[text]}" for name, text in texts.items() if text in RULES]
    if rules:
        return f"It was not compared with others: {'; '.join(rules)}."
    return (
        "It was given by hand, and not compared with others. `mercer select` compares kernels on rows that "
        "are held out."
    )


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
