"""Sections in words: rows and kernel, what was proved about the fit, and how to get the same again."""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import numpy as np

from mercer._core.version import VERSION
from mercer._core.wording import brief
from mercer.kernels.base import Kernel
from mercer.kernels.names import as_kernel
from mercer.model import Fit
from mercer.report.markup import Html, bullets, folded, grid, joined, paragraph, tag
from mercer.report.subject import Subject
from mercer.views.variance import how_sure, trust
from mercer.views.wording import count, counted, few, number, power_of_ten, share, small_share

MOST_COLUMNS = 40
MOST_LED = 10  # runs of alarms whose leaders are among them
MOST_LINES = 12  # a longer table is folded
# Notes of a fit on what the preparation tells by itself.
SAID = re.compile(r"standardised \d|columns are not scaled|the detector standardises")
RULES = {
    "median": "the median rule: as wide as the median distance between training rows",
    "scale": "scikit-learn's rule 'scale': 1/(number of columns × variance of all entries)",
}
MOST_CANDIDATES = 30
PACKAGES = ("numpy", "scipy", "scikit-learn")
NO_KERNEL = (
    "There is no kernel: this is linear PCA, whose components are directions of the columns "
    "themselves."
)
NO_EVIDENCE = (
    "This model is the drop-in for scikit-learn's class: it keeps that class's attributes, and no evidence "
    "beside them. A model of `mercer fit` hands over residuals, bounds and the validity of its kernel."
)


# ── data ────────────────────────────────────────────────────────────────────
def data(subject: Subject) -> list[Any]:
    """What was read, what was done to it, columns and labels."""
    what = "" if subject.data_file is None else f" in {subject.data_file}"
    made, d = subject.fitted.preparation, subject.fitted.d
    own = d if made is None else len(made.numbers) + len(made.categories)
    rows = f"{counted(subject.n, 'row')} of {counted(own, 'column')}{what}"
    rows += ". " if own == d else f", {count(d)} after words became columns. "
    parts: list[Any] = [paragraph(rows, _same(subject)), bullets(_done(subject)), _columns(subject)]
    looks = subject.looks
    if looks.names:
        lots = zip(looks.names, looks.counts, strict=True)
        labels = [[name, count(n), share(n / subject.n)] for name, n in lots]
        parts.append(_table(["label", "rows", "share"], labels, "Labels"))
    return [*parts, paragraph(looks.remark) if looks.remark else None]


def _same(subject: Subject) -> str:
    """Whether these are the rows of the fit, by their hash."""
    theirs, n = subject.entry("data", "digest", object), subject.entry("data", "n", int)
    whose = "the detector was last taught" if subject.is_retrained else "the model was fitted to"
    if theirs is None or subject.digest is None:
        if n is not None:
            return f"{whose.capitalize()} {counted(n, 'row')}."
        return "Whether the model was fitted to these rows is not known."
    if theirs == subject.digest:
        return f"These are the rows that {whose}: their digest is the same."
    many = counted(n, "other row") if n is not None and n > 1 else "other rows"
    text = f"{whose.capitalize()} {many}, whose digest differs from that of these."
    events = subject.entry("about", "events", dict) or {}
    known = ((event, rows) for event, rows in events.items() if isinstance(rows, dict))
    alike = [repr(event) for event, rows in known if rows.get("digest") == subject.digest]
    return f"{text} These are the rows by which it knows {', '.join(alike)}." if alike else text


def _done(subject: Subject) -> list[Any]:
    lines: list[Any] = [_sentence(note) for note in subject.notes]
    lines += [_sentence(line) for line in _preparation(subject) if _sentence(line) not in lines]
    # Notes of the command that fitted the model, where they are not among these.
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
    d, led = subject.fitted.d, set()  # the columns that led when the longest runs of alarms began
    if subject.fitted.detector is not None:
        seen = subject.watched[0]
        led = {name for run in seen.longest(MOST_LED) for name, _ in seen.began_with(run)}
    order = sorted(range(d), key=lambda j: (subject.names[j] not in led, j))
    shown = sorted(order[:MOST_COLUMNS])
    rows = [[subject.names[j], *map(number, subject.measured.columns[:, j])] for j in shown]
    what = "Kernel values" if subject.fitted.is_precomputed else "Columns, in the units of the file"
    if d > MOST_COLUMNS:
        what += f": {MOST_COLUMNS} of {count(d)}, {'with those that led alarms' if led else 'the first'}"
    head = ["column", "least", "mean", "standard deviation", "largest"]
    if subject.missing is not None:
        head.append("missing")
        rows = [[*row, count(int(subject.missing[j]))] for row, j in zip(rows, shown, strict=True)]
    return _table(head, rows, what)


def _table(head: list[str], rows: list[list[str]], caption: str) -> Html:
    """A table; a long one opens when asked for."""
    made = grid(head, rows, caption=caption)
    return made if len(rows) <= MOST_LINES else folded(f"{caption} ({len(rows)} lines)", made)


# ── kernel ──────────────────────────────────────────────────────────────────
def kernel(subject: Subject) -> list[Any]:
    """What the kernel is, why it is valid, its parameters, and whether it was compared with others."""
    ours, given = subject.fitted.kernel, subject.fitted.given_kernel
    if ours is None and not subject.fitted.is_precomputed:
        if given is not None:  # a drop-in, which keeps what it was given
            gamma = vars(subject.fitted.projector).get("gamma_")
            width = "" if gamma is None else f" with gamma={number(gamma)}"
            given = tag("code", str(given))
            return [paragraph("The kernel is ", given, f"{width}, given by hand.")]
        return [paragraph(NO_KERNEL)]
    valid = (
        "Nothing guarantees that it is valid for all data; the evidence below says what was seen."
    )
    if isinstance(ours, Kernel) and (reason := ours.why_valid()) is not None:
        valid = f"It is valid whatever the data: {reason}."
    chosen = subject.entry("about", "selection", dict)  # `mercer select`, whose winner this is
    return [
        paragraph("The kernel is ", tag("code", kernel_text(subject)), ". ", valid),
        _parameters(subject),
        *([paragraph(_by_hand(subject))] if chosen is None else _by_comparison(chosen)),
    ]


def kernel_text(subject: Subject) -> str:
    """The kernel as one writes it, its numbers to four digits."""
    text = subject.header.get("kernel")
    if not (isinstance(text, str) and text):
        if subject.fitted.kernel is None:
            return "precomputed" if subject.fitted.is_precomputed else "linear"
        text = repr(subject.fitted.kernel)
    return brief(text)


def _parameters(subject: Subject) -> Html | None:
    """Each number, beside what was asked for."""
    if not isinstance(subject.fitted.kernel, Kernel):
        return None
    asked, head = _asked(subject), ["parameter", "value", "asked for"]
    rows = [
        [name, _value(value), _value(asked.get(name, "—"))]
        for name, value in _numbers(subject.fitted.kernel).items()
        if value is not None  # another way to say the same, such as sigma for gamma
    ]
    return grid(head, rows, caption="Parameters of the kernel") if rows else None


def _numbers(ours: Kernel) -> dict[str, Any]:
    params = ours.get_params(deep=True)
    return {name: value for name, value in params.items() if not isinstance(value, Kernel)}


def _asked(subject: Subject) -> dict[str, Any]:
    """Parameters of the kernel that was given, with its rules still rules."""
    given = None if subject.fitted.chose_kernel else subject.fitted.given_kernel
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
    asked = _asked(subject).items()
    rules = [f"{name} by {RULES[v]}" for name, v in asked if isinstance(v, str) and v in RULES]
    if rules:
        return f"It was not compared with others: {'; '.join(rules)}."
    if subject.fitted.detector is not None and not subject.entry("about", "command", str):
        return (
            "Whether it was compared with others is not known here. `mercer.select_detector` compares "
            "kernels for a detector, on rows that are held out."
        )
    return (
        "It was given by hand, and not compared with others. `mercer select` compares kernels on rows that "
        "are held out."
    )


def _by_comparison(chosen: Mapping[str, Any]) -> list[Any]:
    reasons, table = chosen.get("reasons", []), chosen.get("table", [])
    lines = reasons if isinstance(reasons, list) else [reasons]  # a header may hold anything
    rows = [row for row in table if isinstance(row, dict)] if isinstance(table, list) else []
    parts: list[Any] = [
        paragraph("It was chosen by comparison on rows that were held out:"),
        bullets(brief(line) for line in lines),
    ]
    if rows:
        head = list(rows[0])
        cells = [[_value(row.get(name, "")) for name in head] for row in rows[:MOST_CANDIDATES]]
        caption = "Candidates, the best first"
        if len(rows) > MOST_CANDIDATES:
            caption += f": {MOST_CANDIDATES} of {len(rows)}"
        parts.append(folded(caption, grid(head, cells, caption=caption, texts=2)))
    return parts


# ── evidence ────────────────────────────────────────────────────────────────
def evidence(subject: Subject) -> list[Any]:
    """Warnings first, then what is known of eigenvalues, variance, kernel and scores."""
    fit = subject.fitted.fit
    if fit is None:
        return [paragraph(NO_EVIDENCE)]
    # Warnings of the fit, and those of the command that made it.
    warned = [" ".join(text.split()) for text in map(str, fit.warnings())]
    theirs = map(str, subject.entry("about", "warnings", list) or [])
    warned += [text for text in theirs if text not in warned]
    facts = bullets(_sentences(fit, subject), class_="facts")
    first = [facts, paragraph("The fit gave no warning.", class_="good")]
    if warned:
        strong = tag("strong", "The fit warned." if len(warned) == 1 else "The fit gave warnings.")
        first = [tag("div", paragraph(strong), bullets(warned), class_="warning"), facts]
    n = subject.entry("data", "n", int)
    whose = "" if n is None or subject.is_retrained else f" of {count(n)} rows"
    limits = (
        f"All this is about the arithmetic: that the numbers are those of the matrix{whose}. It does "
        "not say that the kernel suits the data, or that a component means something."
    )
    return [*first, paragraph(limits), folded("As mercer prints it", tag("pre", str(fit)))]


def in_short(subject: Subject, fit: Fit) -> tuple[str, tuple[str, str, str]]:
    """The evidence in one sentence and as a key figure, for the summary."""
    certificate = fit.certificate
    if certificate is None:
        worst = power_of_ten(float(np.max(fit.residuals)))
        matrix = "matrix" if subject.fitted.kernel is None else "kernel matrix"
        how = f"a product with the {matrix} at the end of the fit proves it"
        if fit.pairs.unseen is not None:
            how = f"rows of the {matrix}, drawn at random at the end of the fit, confirm it"
        text = f"Each eigenvalue is within {worst} of a true one, in units of the largest: {how}."
        return text, ("largest residual", worst, "of the largest eigenvalue")
    if certificate.kind == "estimate":
        text = "The eigenvalues are approximate: an estimate, not a bound, puts them within "
        text += f"{number(certificate.left_out, 3)} of the true ones."
        return text, ("estimated error", power_of_ten(certificate.left_out), "of each eigenvalue")
    left_out = small_share(fit.trace_error)
    text = f"The fit is an approximation that left out {left_out} of the trace of the kernel "
    text += "matrix, which bounds every eigenvalue."
    return text, ("left out", left_out, "of the trace")


def _sentences(fit: Fit, subject: Subject) -> list[Html]:
    plan, reasons = str(fit.plan).splitlines()[0], "; ".join(fit.plan.reasons)
    uncorrelated = power_of_ten(fit.orthogonality)
    sentences = {
        "Eigenvalues.": trust(fit),
        "Variance.": (
            f"The components hold {how_sure(fit)}{share(float(fit.explained.sum()), 2)} of the whole, "
            f"{number(fit.total, 6)}: that is the trace, not the sum of what was kept."
        ),
        "Validity.": _validity(fit, subject),
        "Scores.": f"Those of different components are uncorrelated to {uncorrelated}.",
        "How it was computed.": f"{plan}{f': {reasons}' if reasons else ''}.",
    }
    return [tag("span", tag("b", head), " ", text) for head, text in sentences.items()]


def _validity(fit: Fit, subject: Subject) -> str:
    if subject.fitted.kernel is None:
        return "Linear PCA: there is no kernel that could be invalid."
    if fit.low_end is None:
        return "The kernel is positive semi-definite whatever the data: there is a feature space behind it."
    part = "" if fit.low_end.complete else " in the part of the spectrum that was looked at"
    sign = "clearly negative" if fit.is_indefinite else "which is rounding"
    lowest = number(fit.low_end.lowest, 3)
    return f"Nothing guarantees this kernel. The smallest eigenvalue{part} is {lowest}, {sign}."


# ── how to get the same again ───────────────────────────────────────────────
def reproduce(subject: Subject) -> list[Any]:
    """Commands, versions, seed and hashes."""
    return [
        paragraph("With the same files and versions these commands give the same numbers:"),
        tag("pre", "\n".join(_commands(subject)), class_="commands", tabindex="0"),
        _versions(subject),
        _facts(subject),
    ]


def _commands(subject: Subject) -> list[str]:
    """The fit, the use and this report, as one types them."""
    files = subject.model_file or "model.mercer", subject.source or "data.csv"
    model, data = map(shlex.quote, files)
    in_python = f"# fitted in Python: {' '.join(repr(subject.fitted.model).split())}"
    fit = subject.entry("about", "command", str) or in_python
    taught = map(str, subject.entry("about", "retrained", list) or [])
    use = f"mercer transform {model} {data} -o scores.csv"
    if subject.fitted.detector is not None:
        use = f"mercer monitor {model} {data} -o alarms.csv"
    made = subject.commands or (f"mercer report {model} {data} -o report.html",)
    return [fit, *taught, use, *made]


def _facts(subject: Subject) -> Html:
    seed = subject.fitted.seed
    n, theirs = subject.entry("data", "n", int), subject.entry("data", "digest", object)
    whose = "rows taught last" if subject.is_retrained else "training rows"
    known = {
        "seed": "fixed (none was given)" if seed is None else str(seed),
        whose: None if n is None else count(n),
        f"digest of the {whose}": tag("code", theirs) if theirs else None,
        "digest of these rows": None if subject.digest is None else tag("code", subject.digest),
    }
    rows = [[what, value] for what, value in known.items() if value is not None]
    return grid(["what", "which"], rows, caption="Seed and hashes", texts=2)


def _versions(subject: Subject) -> Html:
    """The versions that made the fit and the page, side by side: a difference is seen at once."""
    here = {"mercer": VERSION, "python": platform.python_version()}
    here |= {name: metadata.version(name) for name in PACKAGES}
    versions = subject.header.get("versions")
    fitted = {"mercer": subject.header.get("mercer_version")}
    fitted |= versions if isinstance(versions, dict) else {}
    if not any(fitted.values()):  # a model that was never in a file
        return paragraph(f"Made with {', '.join(' '.join(one) for one in here.items())}.")
    rows = [[n, *(str(made.get(n) or "—") for made in (fitted, here))] for n in here | fitted]
    return grid(["version of", "at the fit", "of this page"], rows, caption="Versions")
