"""Excerpts for the search of a site that is opened from the disk, where a page may not fetch another one.

It may load a script, and so the texts of all pages are one, which the search page alone loads. `search.js`
ranks results by them and shows the words around what was searched for.
"""

import json
from pathlib import Path

from docutils import nodes

SCORER = Path(__file__).with_name("search.js")


def text_of(page):
    """What a reader sees of a page, in one line."""
    for hidden in list(page.findall(lambda node: isinstance(node, nodes.raw | nodes.comment))):
        hidden.parent.remove(hidden)
    return " ".join(page.astext().split())


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
