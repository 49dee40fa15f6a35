"""The page in a notebook: the same questions, as messages of a widget."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mercer.data.frames import need
from mercer.web.answers import job_of, place_for, received
from mercer.web.bundle import module, sheet
from mercer.web.desk import Job
from mercer.web.launch import begin, begin_in_memory
from mercer.web.packets import JSON, PACKET, Reply
from mercer.web.refusals import failed
from mercer.web.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from mercer.web.answers import Question


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
        if model is None or isinstance(model, (str, os.PathLike)):
            begin(session, None if model is None else os.fspath(model))
        else:
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
                job, work, question = _work(self.session, content, buffers)
                if question is not None and question.at_once:
                    self._answer(number, work(job))
                    return None
                fits = question is not None and question.fits
                future = self.session.desk.submit(job, work, fits=fits)
            except Exception as error:  # whatever happens has an answer in words
                self._answer(number, failed(error))
                return None
            future.add_done_callback(lambda done: self._answer(number, _outcome(done)))
            return future

        def _answer(self, number: Any, reply: Reply) -> None:
            kind = {JSON: "json", PACKET: "packet"}.get(reply.kind, "file")
            kind = "file" if reply.name is not None else kind
            told = {"id": number, "status": reply.status, "type": kind, "name": reply.name}
            self.send(told, [reply.body])

        def close(self) -> None:
            """End the session with the widget."""
            self.session.close()
            super().close()

    return ExploreWidget


def _work(
    session: Session, content: Any, buffers: Any
) -> tuple[Job, Callable[[Job], Reply], Question | None]:
    """What a message asks for; a file, which is no question, has its bytes beside it."""
    if content.get("ask") == "upload":
        name = str(content.get("body", {}).get("name", ""))
        path = place_for(session, name)
        path.write_bytes(b"".join(bytes(part) for part in buffers))
        return Job("upload", "upload"), lambda _: received(session, path, name), None
    body = content.get("body", {})
    question, job = job_of(content.get("ask"), body)
    return job, lambda own: question.answer(session, body, own), question


def _outcome(done: Future[Reply]) -> Reply:
    error = done.exception()
    return done.result() if error is None else failed(error)
