"""Excerpts for the search of a site that is opened from the disk, where a page may not fetch another one.

It may load a script, and so the texts of all pages are one, which the search page alone loads. `search.js`
ranks results by them and shows the words around what was searched for.
"""

import json
import re
import unicodedata
from pathlib import Path

from docutils import nodes

SCORER = Path(__file__).with_name("search.js")


def text_of(page):
    """What a reader sees of a page below its title, in two lines: prose, then code."""
    for hidden in list(page.findall(is_no_prose)):
        hidden.parent.remove(hidden)
    for title in list(page.findall(nodes.title))[:1]:
        title.parent.remove(title)
    for formula in list(page.findall(nodes.math)):
        formula.parent.replace(formula, nodes.Text(in_letters(formula.astext())))
    code = list(page.findall(nodes.literal_block)) + list(page.findall(nodes.doctest_block))
    for block in code:
        block.parent.remove(block)
    lines = page.astext(), " ".join(block.astext() for block in code)
    return [" ".join(line.split()) for line in lines]


def is_no_prose(node):
    """Whether a node has no words of the page: markup, a formula, the gallery's note on downloads."""
    note = isinstance(node, nodes.note) and "sphx-glr-download-link-note" in node["classes"]
    return note or isinstance(node, nodes.raw | nodes.comment | nodes.math_block)


def in_letters(formula):
    r"""A formula as text: ``\theta_1`` is θ_1, and what only sets it is left out."""

    def letter(command):
        try:
            return unicodedata.lookup(f"GREEK SMALL LETTER {command[1]}")
        except KeyError:
            return " "

    return re.sub(r"[{}]", "", re.sub(r"\\([a-zA-Z]+|.)", letter, formula))


def write(app, exception):
    """Write the texts beside the index of words."""
    if exception is None and app.builder.name == "html":
        texts = {name: text_of(app.env.get_doctree(name)) for name in sorted(app.env.found_docs)}
        script = f"const TEXTS = {json.dumps(texts, ensure_ascii=False)};\n"
        (Path(app.outdir) / "_static" / "texts.js").write_text(script, encoding="utf-8")


def load(app, page, _template, _context, _doctree):
    """Let the search page load them."""
    if page == "search":
        app.add_js_file("texts.js")


def setup(app):
    """Sphinx calls this once."""
    app.connect(
        "config-inited", lambda _, config: setattr(config, "html_search_scorer", str(SCORER))
    )
    app.connect("html-page-context", load)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
