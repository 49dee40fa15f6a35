"""HTML that can't be broken by what it shows: text is escaped unless it was made here."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from mercer.views import Listing, View

# Elements without an end tag.
VOID = frozenset({"meta", "img", "br", "hr", "link"})


class Html(str):
    """Text that is markup already. Only this module makes any, from parts that were escaped."""

    __slots__ = ()


def escaped(value: Any) -> Html:
    """Any value as text for people: markup in it is shown, not obeyed.

    Control characters have no place in HTML (U+0000 is an error there) and are shown as U+FFFD.

    >>> escaped("<script>")
    '&lt;script&gt;'
    """
    if isinstance(value, Html):
        return value
    text = "".join(c if c.isprintable() or c in "\n\t" or ord(c) > 159 else "�" for c in str(value))
    # A lone surrogate, as in a file name that is not UTF-8, can't be written as UTF-8 either.
    return Html(html.escape(text.encode("utf-8", "replace").decode("utf-8"), quote=True))


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """An element; `children` that are not markup are escaped, and so are the values of attributes.

    Attributes may end in an underscore (``class_``) and have underscores for hyphens; None and False leave
    one out, True is one without a value.

    >>> tag("p", "1 < 2", class_="note")
    '<p class="note">1 &lt; 2</p>'
    """
    opened = ""
    for key, value in attributes.items():
        if value is not None and value is not False:
            written = "" if value is True else f'="{escaped(value)}"'
            opened += f" {key.rstrip('_').replace('_', '-')}{written}"
    if name in VOID:
        return Html(f"<{name}{opened}>")
    return Html(f"<{name}{opened}>{joined(children)}</{name}>")


def joined(parts: Iterable[Any]) -> Html:
    """Parts one after the other, each escaped unless it is markup; None is nothing."""
    return Html("".join(escaped(part) for part in parts if part is not None))


def static(name: str) -> Html:
    """Our own style sheet or script, as it stands; it must not end its element early."""
    text = resources.files("mercer.report").joinpath("static", name).read_text("utf-8")
    if "</" in text:
        msg = "A script or a style sheet in the page must not contain '</'."
        raise ValueError(msg)
    return Html(text)


def data_block(value: Any, *, id_: str) -> Html:
    """Data for the script: JSON in which nothing can end the element or open a comment."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return tag("script", Html(text), type="application/json", id=id_)


def packed(values: Any, dtype: str) -> str:
    """Numbers as base64 of little-endian bytes, for the script."""
    array = np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<"))
    return base64.b64encode(array.tobytes()).decode("ascii")


def worded(text: Any) -> Html:
    """A sentence of ours in which `names` stand in backquotes: they become code.

    >>> worded("see `a < b`")
    'see <code>a &lt; b</code>'
    """
    if isinstance(text, Html):
        return text
    pieces = str(text).split("`")
    if len(pieces) % 2 == 0:  # one of them is without its partner: a text that isn't ours
        return escaped(text)
    return joined(tag("code", p) if i % 2 else p for i, p in enumerate(pieces))


def paragraph(*parts: Any, class_: str | None = None) -> Html:
    """A paragraph."""
    return tag("p", *map(worded, parts), class_=class_)


def bullets(lines: Iterable[Any], class_: str | None = None) -> Html:
    """A list."""
    return tag("ul", *(tag("li", worded(line)) for line in lines), class_=class_)


def grid(
    head: Sequence[Any], rows: Iterable[Sequence[Any]], *, caption: str, texts: int = 1
) -> Html:
    """A table whose first `texts` columns are words, the others numbers; wide ones scroll."""

    def line(name: str, cells: Sequence[Any], scope: str | None = None) -> Html:
        kinds = [None if j < texts else "number" for j in range(len(head))]
        lots = zip(cells, kinds, strict=True)
        return tag("tr", *(tag(name, cell, class_=kind, scope=scope) for cell, kind in lots))

    top, body = line("th", head, "col"), (line("td", row) for row in rows)
    table = tag("table", tag("caption", caption), tag("thead", top), tag("tbody", *body))
    # Without a mouse one scrolls by keyboard, which needs a focus.
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)


def listed(table: Listing) -> Html:
    """The table of a view."""
    return grid(table.head, table.rows, caption=table.caption, texts=table.texts)


def folded(summary: str, *parts: Any) -> Html:
    """Something that opens when asked for; on paper it is there if it was open."""
    return tag("details", tag("summary", summary), *parts)


def figure(picture: Any, what: View | str, *, id_: str, class_: str | None = None) -> Html:
    """A picture, what it shows in words, and its numbers for those who want them."""
    caption, tables = (what, ()) if isinstance(what, str) else (what.caption, what.tables)
    words = tag("figcaption", caption, id=f"{id_}-words")
    numbers = folded("The numbers of this picture", *map(listed, tables)) if tables else None
    inside = tag("div", picture, class_="picture")
    return tag("figure", inside, words, numbers, id=id_, class_=class_)


def tiles(facts: Iterable[tuple[str, str, str]]) -> Html:
    """Key figures: the number large, what it is, and a remark."""
    cells = []
    for what, value, remark in facts:
        number = tag("dd", tag("b", value), tag("span", remark) if remark else None)
        cells.append(tag("div", tag("dt", what), number))
    return tag("dl", *cells, class_="tiles")
