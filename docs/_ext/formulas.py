"""Formulas as SVG, set when the site is built: no script, no font, nothing to fetch, alike in every browser.

ziamath sets LaTeX with STIX Two Math. What it does not know is a warning, and so an error of `make docs`. A
screen reader gets the LaTeX.
"""

import re
from functools import cache
from html import escape
from xml.etree import ElementTree as ET

import ziamath
from docutils import nodes
from sphinx.util import logging
from ziamath.escapes import unescape
from ziamath.tex import tex2mml
from ziamath.zmath import denamespace

log = logging.getLogger(__name__)
ziamath.config.svg2 = (
    False  # glyphs as paths: names of symbols would be there once for each formula
)
PIXELS = {False: 17, True: 19}  # of a formula in a line, and on a line of its own
# LaTeX that ziamath sets otherwise than TeX does, and the same in other words.
REPHRASED = [
    (re.compile(r"\\[lr]Vert(?![a-zA-Z])"), r"\\| "),  # as high as what they enclose
    (re.compile(r"\\mathbf\s*\{?(\d)\}?"), lambda found: chr(0x1D7CE + int(found[1]))),
    (
        re.compile(r"\\(mathbf|mathbb|mathrm|mathcal|tilde|hat|bar)\s+(\\[a-zA-Z]+|[a-zA-Z0-9])"),
        r"\\\1{\2}",
    ),
]
UNKNOWN = re.compile(r"\\[a-zA-Z]+(?=[^<>]*<)")
OPENING = set("([{⟨,;:=<>≤≥≈≠∈→⇒⟹⟶·×+−±")  # what is no operand: a minus after it is a sign
QUADS = {"1em", "2em"}  # after such a space another formula begins


def signed(mathml):
    """MathML as a tree in which -1 is a sign and a number: unless a row begins so, ziamath subtracts."""
    tree = denamespace(ET.fromstring(unescape(mathml)))
    tree.set("mathcolor", "currentColor")
    for row in tree.iter():
        before = None
        for place, part in enumerate(row):
            if part.tag == "mspace":
                before = None if part.get("width") in QUADS else before
                continue
            no_operand = before is None or (before.tag == "mo" and before.text in OPENING)
            if place > 0 and no_operand and part.tag == "mo" and part.text == "−":
                part.set("form", "prefix")
            before = part
    return tree


@cache
def drawn(tex, *, block):
    """A formula as an <svg> element, and how many pixels it hangs below its line; or an error and None."""
    for pattern, words in REPHRASED:
        tex = pattern.sub(words, tex)
    if block and "\\\\" in tex and r"\begin" not in tex:
        tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"
    try:
        mathml = tex2mml(tex, inline=not block)
        unknown = UNKNOWN.search(mathml)
        if unknown:
            return f"unknown command {unknown[0]}", None
        formula = ziamath.Math(signed(mathml), size=PIXELS[block])
        return formula.svg(), formula.getyofst()
    except Exception as error:  # of a parser that has no common base for its errors
        return f"{type(error).__name__}: {error}", None


def element(node, *, block):
    """The markup of a node; its LaTeX where that can't be set."""
    tex = node.astext()
    svg, below = drawn(tex, block=block)
    if below is None:
        log.warning("formula %r: %s", tex, svg, location=node)
        return f"<code>{escape(tex)}</code>"
    label = escape(" ".join(tex.split()), quote=True)
    style = "" if block else f' style="vertical-align: {below:.1f}px"'
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}"{style} ', 1)


def visit_inline(self, node):
    """A formula in a sentence."""
    self.body.append(f'<span class="formula">{element(node, block=False)}</span>')
    raise nodes.SkipNode


def visit_block(self, node):
    """A formula on its own line, with its number where it has one."""
    here = f' id="{node["ids"][0]}"' if node.get("ids") else ""
    number = f'<span class="eqno">({node["number"]})</span>' if node.get("number") else ""
    drawing = element(node, block=True)
    self.body.append(f'<div class="formula" tabindex="0"{here}>{drawing}{number}</div>\n')
    raise nodes.SkipNode


def setup(app):
    """Sphinx calls this once."""
    app.add_html_math_renderer("svg", (visit_inline, None), (visit_block, None))
    app.connect("config-inited", lambda _app, config: setattr(config, "html_math_renderer", "svg"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
