"""The page in a notebook: the same questions, as messages of a widget.

A page over HTTP loads `static/*.js` as they are. A widget gets one text, so each module becomes a function
that is called once and returns its exports. That takes three forms of `import` and `export`, each on a line
of its own; a module that is written in another way is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from typing import Any

from mercer.data.frames import need
from mercer.web.answers import Question, job_of, place_for, received
from mercer.web.desk import Job
from mercer.web.launch import begin_in_memory
from mercer.web.packets import JSON, PACKET, STATIC, Reply, failed
from mercer.web.session import Session

SHEETS = ("tokens.css", "app.css", "panels.css", "widget.css")
IMPORT = re.compile(
    r'^import (?:\{ (?P<names>[^}]+) \}|(?P<default>\w+)) from "(?P<path>[^"]+)";$', re.M
)
DECLARED = re.compile(r"^export (?:async )?(?:function|class|const|let) (\w+)", re.M)
LISTED = re.compile(r"^export \{\s*([^}]+?)\s*\};$", re.M)
DEFAULT = re.compile(r"^export default ", re.M)


def widget(model: Any = None, X: Any = None, *, labels: Any = None, names: Any = None) -> Any:
    """The page of `mercer.explore` as a widget of a notebook; no server runs.

    Parameters are those of `mercer.explore`.

    Returns
    -------
    anywidget.AnyWidget
        Shown by the notebook where it is the last value of a cell.

    Examples
    --------
    >>> from mercer.web.widget import widget
    >>> page = widget("moons")
    >>> page.session.start["table"]
    't1'
    >>> page.close()
    """
    kind, session = _kind(), Session()
    try:
        begin_in_memory(session, model, X, labels, names)
        return kind(session)
    except BaseException:
        session.close()
        raise


@lru_cache(maxsize=1)
def _kind() -> Any:
    """The class of the widget, which needs a package that is only there for notebooks."""
    base: Any = need("anywidget", extra="notebook").AnyWidget

    class ExploreWidget(base):  # type: ignore[misc]
        """A page in a cell: what it asks is answered by the session."""

        _esm = module()
        _css = sheet()

        def __init__(self, session: Session) -> None:
            super().__init__()
            self.session = session
            self.on_msg(lambda _, content, buffers: self.asked(content, buffers))

        def asked(self, content: Any, buffers: Any) -> Future[Reply] | None:
            """Answer a message, in a thread of the session: the kernel of the notebook stays free."""
            number = content.get("id") if isinstance(content, dict) else None
            try:
                question, job, work = _work(self.session, content, buffers)
                if question.at_once:
                    self._answer(number, work(job))
                    return None
                future = self.session.desk.submit(job, work, fits=question.fits)
            except Exception as error:  # whatever happens has an answer in words
                self._answer(number, failed(error))
                return None

            def answered(done: Future[Reply]) -> None:
                wrong = done.exception()
                self._answer(number, done.result() if wrong is None else failed(wrong))

            future.add_done_callback(answered)
            return future

        def _answer(self, number: Any, reply: Reply) -> None:
            kind = {JSON: "json", PACKET: "packet"}.get(reply.kind, "file")
            kind = "file" if reply.name is not None else kind
            about = {"id": number, "status": reply.status, "type": kind, "name": reply.name}
            self.send(about, [reply.body])

        def close(self) -> None:
            """End the session with the widget."""
            self.session.close()
            super().close()

    return ExploreWidget


def _work(
    session: Session, content: Any, buffers: Any
) -> tuple[Question, Job, Callable[[Job], Reply]]:
    """The question of a message, its job and its answer; a file is a question with bytes beside it."""
    body = content.get("body", {})
    if content.get("ask") == "upload":
        name = str(body.get("name", ""))
        path = place_for(session, name)
        path.write_bytes(b"".join(bytes(part) for part in buffers))
        question = Question(lambda _: received(session, path, name))
        job = Job("upload", "upload")
    else:
        question, job = job_of(content.get("ask"), body)
    return question, job, lambda own: question.answer(session, body, own)


# ── the modules of the page as one ──────────────────────────────────────────
def module() -> str:
    """One ES module: `widget.js` and all that it imports, each once, in an order that has what each needs.

    >>> from mercer.web.widget import module
    >>> text = module()
    >>> "import " in text.splitlines()[0], text.rstrip().splitlines()[-1]
    (False, 'export default widget_js.default;')
    """
    written: dict[Path, str] = {}

    def add(path: Path) -> None:
        if path not in written:
            text = path.read_text(encoding="utf-8")
            for found in IMPORT.finditer(text):
                add((path.parent / found["path"]).resolve())
            written[path] = f"const {_name(path)} = (() => {{\n{_inlined(path, text)}}})();\n"

    start = (STATIC / "widget.js").resolve()
    add(start)
    return "".join([*written.values(), f"export default {_name(start)}.default;\n"])


def sheet() -> str:
    """The style sheets of the page and of the widget as one text."""
    return "\n".join((STATIC / name).read_text(encoding="utf-8") for name in SHEETS)


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
