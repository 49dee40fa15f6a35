"""The page around the sections: one file that asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Any

from mercer.model.checkpoint import VERSION
from mercer.report.markup import Html, inline, joined, paragraph, tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer.report.section import Section


def page(title: str, lede: Sequence[Any], sections: Sequence[Section], *, date: str | None) -> str:
    """The whole document."""
    style, script = static("report.css"), static("report.js")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"mercer {VERSION}"),
        tag("title", title),
        # Otherwise a browser goes looking for one.
        tag("link", rel="icon", href="data:,"),
        tag("style", style),
    )
    body = tag("body", _header(title, lede, sections, date), _main(sections), tag("script", script))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def static(name: str) -> Html:
    """A file that comes with the package and goes into the page."""
    return inline(resources.files("mercer.report").joinpath("static", name).read_text("utf-8"))


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded, and only our own script runs: even a slip in escaping would do no harm."""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _header(title: str, lede: Sequence[Any], sections: Sequence[Section], date: str | None) -> Html:
    made = f"Made by mercer {VERSION}" + (f" on {date}." if date else ".")
    links = [tag("a", section.title, href=f"#{section.id}") for section in sections]
    return tag(
        "header",
        tag("h1", title),
        paragraph(made, class_="made"),
        *lede,
        tag("nav", tag("ul", *(tag("li", link) for link in links)), aria_label="Contents"),
    )


def _main(sections: Sequence[Section]) -> Html:
    return tag("main", joined(section.html() for section in sections))
