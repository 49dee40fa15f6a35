"""The modules of the page as one, which is what a notebook's widget can load.

A page over HTTP loads `static/*.js` as they are. A widget gets one text, so each module becomes a function
that is called once and returns its exports. That takes three forms of `import` and `export`, each on a line
of its own; a module that is written in another way is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mercer.web.packets import STATIC

if TYPE_CHECKING:
    from pathlib import Path

SHEETS = ("tokens.css", "app.css", "panels.css", "widget.css")
IMPORT = re.compile(
    r'^import (?:\{ (?P<names>[^}]+) \}|(?P<default>\w+)) from "(?P<path>[^"]+)";$', re.M
)
DECLARED = re.compile(r"^export (?:async )?(?:function|class|const|let) (\w+)", re.M)
LISTED = re.compile(r"^export \{\s*([^}]+?)\s*\};$", re.M)
DEFAULT = re.compile(r"^export default ", re.M)


def module(entry: str = "widget.js") -> str:
    """One ES module: the entry and all that it imports, each once, in an order that has what each needs.

    Examples
    --------
    >>> from mercer.web.bundle import module
    >>> text = module()
    >>> "import " in text.splitlines()[0], text.rstrip().splitlines()[-1]
    (False, 'export default widget_js.default;')
    """
    written: dict[Path, str] = {}
    start = (STATIC / entry).resolve()
    _add(start, written)
    return "".join([*written.values(), f"export default {_name(start)}.default;\n"])


def sheet() -> str:
    """The style sheets of the page and of the widget as one text."""
    return "\n".join((STATIC / name).read_text(encoding="utf-8") for name in SHEETS)


def _add(path: Path, written: dict[Path, str]) -> None:
    if path in written:
        return
    text = path.read_text(encoding="utf-8")
    for found in IMPORT.finditer(text):
        _add((path.parent / found["path"]).resolve(), written)
    written[path] = f"const {_name(path)} = (() => {{\n{_inlined(path, text)}}})();\n"


def _name(path: Path) -> str:
    """A module's own variable: `core/dom.js` is core_dom_js."""
    return re.sub(r"\W", "_", path.relative_to(STATIC.resolve()).as_posix())


def _inlined(path: Path, text: str) -> str:
    """The body of a module, with its imports taken from variables and its exports returned."""

    def taken(found: re.Match[str]) -> str:
        names = (found["names"] or f"default as {found['default']}").replace(" as ", ": ")
        return f"const {{ {names} }} = {_name((path.parent / found['path']).resolve())};"

    body = IMPORT.sub(taken, text)
    given = DECLARED.findall(body)
    for listed in LISTED.findall(body):
        pairs = [name.strip().split(" as ") for name in listed.split(",")]
        given += [f"{pair[-1]}: {pair[0]}" for pair in pairs]
    if DEFAULT.search(body):
        given.append("default: _default")
    body = DEFAULT.sub("const _default = ", LISTED.sub("", body))
    body = re.sub(r"^export (?=(?:async )?(?:function|class|const|let) )", "", body, flags=re.M)
    if left := re.search(r"^(?:import|export)\b.*$", body, re.M):
        msg = f"{path.name}: {left[0]!r} is not a form of import or export that can be put into one module."
        raise SyntaxError(msg)
    return f"{body}\nreturn {{ {', '.join(given)} }};\n"
