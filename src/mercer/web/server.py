"""The page and its questions over HTTP: a few routes behind the guard."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from uvicorn.protocols.http.h11_impl import H11Protocol

from mercer._core.errors import MercerError, ParameterError, StoppedError
from mercer._core.memory import format_bytes
from mercer.web.answers import MOST_BODY, UPLOAD_BYTES, job_of, place_for, received
from mercer.web.desk import Job
from mercer.web.guard import HEADERS, Guard, decoded
from mercer.web.packets import JSON, PACKET, STATIC, MediaTypeError, Reply, failed, json_reply
from mercer.web.session import FullError, Session

UNINVITED = """<!doctype html><html lang="en"><meta charset="utf-8"><title>mercer explore</title>
<h1>This page opens by its whole address</h1>
<p>The terminal in which <code>mercer explore</code> runs has printed an address that ends in a token. Open
that one: it keeps other programs and pages away from your data.</p></html>"""
LOG = logging.getLogger("mercer.explore")
HEAD_SECONDS = 10.0  # for a request to arrive up to its body


class Impatient(H11Protocol):
    """HTTP/1.1 whose requests must begin in time; their bodies are for the guard and the routes to judge.

    Half a request each would take every place of the server: a connection that asks nothing is closed.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look(before=transport)  # what no request is

    def _look(self, before: Any) -> None:
        """Close where nothing has been asked since the last look, and nothing is being answered."""
        now = self.cycle
        if now is before and (now is None or now.response_complete):
            self.transport.close()
        else:
            self.loop.call_later(HEAD_SECONDS, self._look, now)


class Door:
    """Middleware: what the guard refuses never reaches a route, and every answer has its headers."""

    def __init__(self, app: Any, guard: Guard) -> None:
        self.app, self.guard = app, guard

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = decoded(scope["headers"])
        is_page, query = scope["path"] == "/", scope["query_string"].decode("latin-1")
        invited = is_page and self.guard.invited(query)
        refusal = self.guard.refusal(headers)
        answer = self.app
        if refusal is not None:
            answer = _forbidden(refusal)
        elif not invited and not self.guard.knows(headers):
            refused = _forbidden("The token of this server is missing. Open the page anew.")
            answer = HTMLResponse(UNINVITED, 403) if is_page else refused
        elif "\0" in scope["path"]:
            # No file has such a name, but old versions of Starlette ask the system for it.
            answer = Response(status_code=404)

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = {**HEADERS, **({"set-cookie": self.guard.set_cookie()} if invited else {})}
                given = [pair for pair in message["headers"] if pair[0].decode().lower() not in own]
                extra = [(name.encode(), value.encode()) for name, value in own.items()]
                message = {**message, "headers": [*given, *extra]}
            await send(message)

        await answer(scope, receive, sent)


def _forbidden(words: str) -> Response:
    return _response(json_reply({"error": {"code": "forbidden", "message": words}}, 403))


def _response(reply: Reply) -> Response:
    headers = dict(reply.headers)
    if reply.name is not None:
        headers["content-disposition"] = f"attachment; filename*=utf-8''{quote(reply.name)}"
    return Response(reply.body, reply.status, headers, media_type=reply.kind)


def application(session: Session, guard: Guard, shut_down: Callable[[], None]) -> Any:
    """The ASGI application of one session."""

    async def page(_request: Request) -> Response:
        return HTMLResponse((STATIC / "index.html").read_bytes())

    async def ask(request: Request) -> Reply:
        _require_type(request, JSON)
        body = _parsed(await _body(request))
        question, job = job_of(request.path_params["name"], body)
        if question.at_once:
            return question.answer(session, body, job)
        answer = partial(question.answer, session, body)
        return await _answered(session, request, job, answer, fits=question.fits)

    async def upload(request: Request) -> Reply:
        _require_type(request, PACKET)
        name = request.query_params.get("name", "")
        path = place_for(session, name)
        job = Job(f"upload {path.parent.name}", "upload")
        try:
            with path.open("wb") as file:

                def take(piece: bytes) -> None:
                    session.hold(path, len(piece))
                    file.write(piece)

                await _streamed(request, UPLOAD_BYTES, take)
            read: Callable[[Job], Reply] = lambda _: received(session, path, name)  # noqa: E731
            return await _answered(session, request, job, read, fits=False)
        except BaseException:  # too long, broken off, one too many: nothing of it stays
            session.discard(path)
            raise

    async def shutdown(request: Request) -> Reply:
        _require_type(request, JSON)
        await _body(request)
        asyncio.get_running_loop().call_later(0.2, shut_down)
        return json_reply({"words": "The server has stopped."})

    routes = [
        Route("/", page, methods=["GET"]),
        Route("/api/upload", _worded(upload), methods=["POST"]),
        Route("/api/shutdown", _worded(shutdown), methods=["POST"]),
        Route("/api/{name}", _worded(ask), methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC, check_dir=False)),
    ]
    return Door(Starlette(routes=routes), guard)


def _worded(answer: Callable[[Request], Awaitable[Reply]]) -> Callable[..., Any]:
    """A route that has an answer in words, whatever happens."""

    async def answered(request: Request) -> Response:
        try:
            return _response(await answer(request))
        except Exception as error:
            return _failed(error)

    return answered


# ── bodies ──────────────────────────────────────────────────────────────────
def _require_type(request: Request, kind: str) -> None:
    """Raise unless the body is of this kind, which a form of another page can't claim without asking."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != kind:
        raise MediaTypeError.about(parameter="content-type", value=given, must_be=kind)


async def _streamed(request: Request, most: int, take: Callable[[bytes], Any]) -> None:
    """Hand a body on as it arrives, and end it where it grows too long, whatever it says of its length."""
    words = f"A file must have at most {format_bytes(most)} here. Use the command line for a larger one."
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > most:
        raise FullError(words)
    taken = 0
    try:
        async for piece in request.stream():
            taken += len(piece)
            if taken > most:
                raise FullError(words)
            take(piece)
    except ClientDisconnect:
        msg = "The request was broken off."
        raise StoppedError(msg) from None


async def _body(request: Request) -> bytes:
    pieces: list[bytes] = []
    await _streamed(request, MOST_BODY, pieces.append)
    return b"".join(pieces)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise ParameterError.about(parameter="body", value=body[:60], must_be="JSON") from None


# ── answers ─────────────────────────────────────────────────────────────────
async def _answered(
    session: Session, request: Request, job: Job, work: Callable[[Job], Reply], *, fits: bool
) -> Reply:
    """The answer of the worker or of a helper; a client that goes away stops it."""
    future = asyncio.wrap_future(session.desk.submit(job, work, fits=fits))
    gone = asyncio.ensure_future(_gone(request))
    try:
        both: set[asyncio.Future[Any]] = {future, gone}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not future.done():
            job.cancel(StoppedError)
        return await future
    except (CancelledError, asyncio.CancelledError):
        job.cancel(StoppedError)
        if not (future.cancel() or future.cancelled()):
            future.exception()  # which is reported as lost where nobody asks for it
        msg = "The server is stopping."
        raise StoppedError(msg) from None
    finally:
        gone.cancel()
        with suppress(asyncio.CancelledError):
            await gone


async def _gone(request: Request) -> None:
    """Returns when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _failed(error: Exception) -> Response:
    if not isinstance(error, MercerError):
        LOG.error("A question failed.", exc_info=error)
    reply = failed(error)
    if isinstance(error, FullError):  # the rest of its body is not read
        reply.headers["connection"] = "close"
    return _response(reply)
