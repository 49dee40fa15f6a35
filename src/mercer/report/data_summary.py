"""What the data are: rows, columns, labels, and everything that was done to them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mercer.report.markup import Html, bullets, folded, grid, joined, paragraph, tag
from mercer.report.shown import count, counted, few, number, share

if TYPE_CHECKING:
    from mercer.report.subject import Subject

MOST_COLUMNS = 40
# Notes of a fit on what the preparation tells by itself.
SAID = re.compile(r"standardised \d|columns are not scaled|the detector standardises")


def data(subject: Subject) -> list[Any]:
    """What was read, what was done to it, columns and labels."""
    what = "" if subject.data_file is None else f" in {subject.data_file}"
    rows = f"{counted(subject.n, 'row')} of {counted(subject.d, 'column')}{what}. "
    return [
        paragraph(rows, _same(subject)),
        bullets(_done(subject)),
        _columns(subject),
        _labels(subject),
    ]


def _same(subject: Subject) -> str:
    """Whether these are the rows of the fit, by their hash."""
    theirs, n = subject.told("data", "digest", object), subject.told("data", "n", int)
    if theirs is None or subject.digest is None:
        if n is not None:
            return f"The model was fitted to {counted(n, 'row')}."
        return "Whether the model was fitted to these rows is not known."
    if theirs == subject.digest:
        return "These are the rows that the model was fitted to: their digest is the same."
    many = counted(n, "other row") if n is not None and n > 1 else "other rows"
    return f"The model was fitted to {many}: the digest of these is another."


def _done(subject: Subject) -> list[Any]:
    """Everything that was done to the rows, in sentences."""
    lines: list[Any] = [_sentence(note) for note in subject.notes]
    lines += [_sentence(line) for line in _preparation(subject) if _sentence(line) not in lines]
    # What the command that fitted the model said about its rows, where it is not said already.
    notes = map(str, subject.told("about", "notes", list) or [])
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
    made, lines = subject.preparation, list[str]()
    detector = subject.detector
    if detector is not None and detector.scale:
        lines.append("The detector brings every column to mean 0 and standard deviation 1 itself")
    if made is None:
        return lines
    if getattr(made, "center", None) is not None:
        lines.append("Columns are standardised with the mean and the spread of the training rows")
    elif not lines:
        lines.append("Columns are used in their own units: they were not scaled")
    if getattr(made, "fills", None) is not None:
        lines.append("Missing values are filled in with numbers learned from the training rows")
    for column, levels in getattr(made, "categories", ()):
        lines.append(
            f"Column {column} became {counted(len(levels), 'column')} of 0 and 1: {few(levels)}"
        )
    return lines


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _columns(subject: Subject) -> Html:
    shown = min(subject.d, MOST_COLUMNS)
    found = subject.measured.columns[:, :shown].T  # (shown, 4)
    rows = [[name, *map(number, row)] for name, row in zip(subject.names, found, strict=False)]
    what = "Kernel values" if subject.is_precomputed else "Columns, in the units of the file"
    if shown < subject.d:
        what += f": the first {shown} of {count(subject.d)}"
    head = ["column", "least", "mean", "standard deviation", "largest"]
    if subject.missing is not None:
        head.append("missing")
        rows = [[*row, count(int(m))] for row, m in zip(rows, subject.missing, strict=False)]
    table = grid(head, rows, caption=what)
    return table if shown <= 12 else folded(f"{what} ({shown} lines)", table)


def _labels(subject: Subject) -> Html:
    looks = subject.looks
    if not looks.names:
        return paragraph(
            "There are no labels: `--label COLUMN` names a column that is kept beside the rows."
        )
    lots = zip(looks.names, looks.counts, strict=True)
    rows = [[name, count(n), share(n / subject.n)] for name, n in lots]
    remark = paragraph(looks.remark) if looks.remark else None
    return joined([grid(["label", "rows", "share"], rows, caption="Labels"), remark])
