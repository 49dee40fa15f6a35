"""What stands around the picture of the scores: the choice of components, the legend, and the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.report.looks import shape
from mercer.report.markup import Html, grid, joined, tag
from mercer.report.shown import count, number
from mercer.report.svg import points

if TYPE_CHECKING:
    from mercer.report.looks import Looks
    from mercer.report.measure import Measured
    from mercer.report.subject import Subject

MOST_LISTED = 20


def choice(names: list[str]) -> Html:
    """Which two components; the script shows it, for without it nothing would happen."""

    def chooser(which: str, words: str, chosen: int) -> Html:
        options = [
            tag("option", name, value=str(j), selected=j == chosen) for j, name in enumerate(names)
        ]
        return tag("label", words, " ", tag("select", *options, id=f"scores-{which}"))

    inside = [chooser("x", "across", 0), chooser("y", "up", 1)]
    return tag("div", *inside, class_="controls", hidden=True)


def tip() -> Html:
    """Where the script writes what is under the pointer; whoever can't see it hears it."""
    return tag("div", class_="tip", id="scores-tip", role="status", aria_live="polite", hidden=True)


def legend(looks: Looks) -> Html | None:
    """Names with their looks; each is a switch."""
    if not looks.names:
        return None
    entries = []
    for code, (name, n) in enumerate(zip(looks.names, looks.counts, strict=True)):
        swatch = tag(
            "svg",
            points(
                np.array([7.0]),
                np.array([7.0]),
                shape(code),
                4.0,
                class_=f"mark {looks.colour(code)}",
            ),
            viewBox="0 0 14 14",
            width="14",
            height="14",
            aria_hidden="true",
        )
        words = tag("span", name, class_="name")
        many = tag("span", count(n), class_="count")
        button = tag(
            "button", swatch, words, many, type="button", aria_pressed="true", data_code=code
        )
        entries.append(tag("li", button))
    return tag("ul", *entries, class_="legend", aria_label="Labels")


def table(subject: Subject, measured: Measured, looks: Looks) -> Html:
    """The first rows, and the mean score of each label."""
    c = min(measured.scores.shape[1], 4)
    heads = [f"component {j + 1}" for j in range(c)]
    shown = min(subject.n, MOST_LISTED)
    rows = []
    for i in range(shown):
        label = [] if not looks.names else [_label_of(looks, i)]
        rows.append([subject.id_of(i), *label, *map(number, measured.scores[i, :c].tolist())])
    title = (
        "Scores"
        if shown == subject.n
        else f"Scores of the first {shown} of {count(subject.n)} rows"
    )
    first = [subject.row_name, *(["label"] if looks.names else [])]
    tables = [grid([*first, *heads], rows, caption=title, texts=len(first))]
    if looks.names:
        means = [
            [name, count(n), *map(number, measured.scores[looks.codes == code, :c].mean(axis=0))]
            for code, (name, n) in enumerate(zip(looks.names, looks.counts, strict=True))
            if n
        ]
        tables.append(grid(["label", "rows", *heads], means, caption="Mean scores of each label"))
    return joined(tables)


def _label_of(looks: Looks, row: int) -> str:
    if looks.texts is not None:
        return looks.texts[row]
    return looks.names[int(looks.codes[row])]
