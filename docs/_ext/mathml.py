"""Formulas as MathML, which every browser draws by itself: no script, no fonts, nothing to fetch.

LaTeX goes through docutils' own converter; what it can't say is a warning, and so an error of `make docs`.
"""

import re

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging

log = logging.getLogger(__name__)
# Names that LaTeX has and the converter lacks, with what they look like.
SAME = {r"\dots": r"\ldots", r"\big": "", r"\Big": "", r"\bigl": "", r"\bigr": ""}
KNOWN = re.compile(r"\\(?:dots|bigl|bigr|big|Big)(?![a-zA-Z])")


def markup(node, *, block):
    """The <math> element of a node; its LaTeX where that can't be converted."""
    tex = KNOWN.sub(lambda found: SAME[found[0]], node.astext())
    if block and "\\\\" in tex and r"\begin" not in tex:
        tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"
    tex = re.sub(r"(begin|end)\{(?:align|gather|equation)\*?\}", r"\1{aligned}", tex)
    try:
        return latex2mathml.tex2mathml(tex, as_block=block)
    except MathError as error:
        log.warning("%s in %r", error, node.astext(), location=node)
        return f"<code>{nodes.Text(node.astext())}</code>"


def visit_inline(self, node):
    """A formula in a sentence."""
    self.body.append(f'<span class="math">{markup(node, block=False)}</span>')
    raise nodes.SkipNode


def visit_block(self, node):
    """A formula on its own line, with its number where it has one."""
    number = node.get("number")
    here = f' id="{node["ids"][0]}"' if node.get("ids") else ""
    self.body.append(f'<div class="math" tabindex="0"{here}>{markup(node, block=True)}')
    if number:
        self.body.append(f'<span class="eqno">({number})</span>')
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Sphinx calls this once."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect(
        "config-inited", lambda _app, config: setattr(config, "html_math_renderer", "mathml")
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
