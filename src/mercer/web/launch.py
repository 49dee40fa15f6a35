"""From a call to a page: a free port on loopback, the server behind it, a browser in front of it."""

from __future__ import annotations

import logging
import os
import socket
import threading
import webbrowser
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from mercer._core.errors import InputError, ParameterError, refuse
from mercer.app.explore import BUILTINS, Dataset
from mercer.app.rows import Opened
from mercer.data.frames import need
from mercer.data.table import Reading
from mercer.views.classes import classes
from mercer.views.fitted import Fitted
from mercer.web.guard import LOOPBACK, Guard
from mercer.web.session import MODEL_SUFFIX, Session

START = "circles"


# ── what a page begins with ─────────────────────────────────────────────────
def begin(
    session: Session,
    data: str | None = None,
    model: str | None = None,
    *,
    reading: Reading | None = None,
) -> None:
    """Open a file, a model file, a built-in data set, or the two circles where nothing is named."""
    if model is None and data is not None and Path(data).suffix.lower() == MODEL_SUFFIX:
        data, model = None, data
    table = None
    if data is not None:
        builtin = data in BUILTINS and not Path(data).exists()
        table = session.open_builtin(data) if builtin else _opened(session, data, reading)
    recipe: dict[str, Any] | None = None
    if model is not None:
        key = session.open_model_file(Path(model), Path(model).name)
        recipe = {"model": key}
        if table is None:
            table = session.keep_rows(key)
        if table is None:
            msg = f"{model} keeps no rows of its own. Name their file too: mercer explore {model} DATA."
            raise InputError(msg)
    table = session.open_builtin(START) if table is None else table
    session.start = {"table": table, "recipe": recipe or session.table(table).suggested}


def _opened(session: Session, data: str, reading: Reading | None) -> str:
    path = Path(data).expanduser()
    return session.open_file(path, path.name, reading)


def begin_in_memory(
    session: Session, model: Any, X: Any, labels: Any = None, names: Any = None
) -> None:
    """A fitted model, and rows that are an array, a data frame or the path of a file; or paths and names."""
    if model is None or isinstance(model, (str, os.PathLike)):
        first = None if model is None else os.fspath(model)
        if X is None:
            begin(session, first)
        else:
            begin(session, os.fspath(X), first)
        return
    whole = Fitted.of(model)
    opened = Opened(whole.model, whole.preparation, {}, Path(type(whole.model).__name__))
    key = session.add_model(opened)
    if X is None:
        table = session.keep_rows(key)
    elif isinstance(X, (str, os.PathLike)):
        table = _opened(session, os.fspath(X), None)
    else:
        table = _in_memory(session, whole, X, labels, names)
    if table is None:
        msg = f"This {type(whole.model).__name__} keeps no rows of its own. Pass the rows to show it with."
        raise InputError(msg)
    session.start = {"table": table, "recipe": {"model": key}}


def _in_memory(session: Session, own: Fitted, X: Any, labels: Any, names: Any) -> str:
    """Rows of a program as a file of the session, which is then read as any other."""
    called = own.names(names, X)
    rows = np.asarray(X if own.steps is None else own.rows(X), dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != own.d:
        must_be = f"rows of {own.d} columns, as the model takes them"
        refuse("X", X, must_be, got=f"an array of shape {rows.shape}")
    arrays: dict[str, Any] = {"rows": rows, "names": np.array(called, dtype=np.str_)}
    if labels is not None:
        classes(labels, len(rows))  # refused in words, where there are too few
        arrays["labels"] = np.asarray(labels).astype(np.str_)
    number, folder = session.place()
    path = folder / "rows.npz"
    np.savez(path, **arrays)
    return session.add(Dataset(path, name="rows", image_shape=own.image_shape), number)


# ── the server ──────────────────────────────────────────────────────────────
def _require_server() -> Any:
    need("starlette", extra="explore")
    return need("uvicorn", extra="explore")


@dataclass(eq=False)
class Explorer:
    """A page that is being served. Open `url`; `stop` ends it, as does the button on the page.

    Attributes
    ----------
    url : str
        The address, with the token that lets a browser in.
    """

    session: Session
    guard: Guard
    _listening: socket.socket

    def __post_init__(self) -> None:
        uvicorn = _require_server()
        from mercer.web.server import Impatient, application

        config = uvicorn.Config(
            application(self.session, self.guard, self._shut_down),
            # Requests that are cut off by the end are no errors; those that fail are logged by this program.
            log_level=logging.CRITICAL,
            access_log=False,
            lifespan="off",
            http=Impatient,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=64 * 1024,
        )
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The address that opens the page."""
        return self.guard.url

    def _shut_down(self) -> None:
        self._server.should_exit = True

    def _close(self) -> None:
        self.session.close()
        self._listening.close()

    def serve(self) -> None:
        """Serve until Ctrl-C, or the page's own button."""
        try:
            with suppress(KeyboardInterrupt):  # the usual way to end it, not a failure
                self._server.run(sockets=[self._listening])
        finally:
            self._close()

    def start(self) -> Self:
        """Serve in the background."""
        self._server.install_signal_handlers = lambda: None  # the program around has its own
        self._thread = threading.Thread(target=self.serve, name="mercer-explore", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End it, and wait until the port is free."""
        self._shut_down()
        if self._thread is not None:
            self._thread.join(timeout=10)
        else:  # it was never served
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Explorer({self.url})"


def listening(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A socket that listens; port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named TCP, for which asyncio turns delays off: each answer would wait 40 ms for an acknowledgement else.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen()  # a browser that is quicker than the server waits instead of being refused
    except OSError as error:
        found.close()
        got, remedy = f"{port} ({error.strerror or error})", "Leave it out for a free port."
        wrong = ParameterError.about("port", port, must_be="free", got=got, remedy=remedy)
        raise wrong from error
    return found


def made(
    session: Session, *, host: str = "127.0.0.1", port: int = 0, names: tuple[str, ...] = ()
) -> Explorer:
    """A server for a session; `names` are what a machine that may be reached from elsewhere is called."""
    _require_server()
    found = listening(host, port)
    own = ("[::1]",) if host == "::1" else ()  # the address that is printed is one that answers
    hosts = tuple(dict.fromkeys([*names, *own, *LOOPBACK]))
    return Explorer(session, Guard(found.getsockname()[1], hosts), found)


def explore(
    model: Any = None,
    X: Any = None,
    *,
    labels: Any = None,
    names: Any = None,
    browser: bool = True,
    port: int = 0,
) -> Explorer:
    """Open a page on this machine that shows a fitted model, or data, and lets kernels be tried by hand.

    Parameters
    ----------
    model : fitted estimator, str or None
        A model of mercer's; the path of a model file or of rows; the name of a built-in data set (circles,
        moons, faces, digits, tank), which are the two circles where nothing is given.
    X : array-like of shape (n, d), data frame or path, optional
        Rows as the model takes them. A model that keeps its training rows, as an exact one does, needs none.
    labels : array-like of shape (n,), optional
        To colour rows by.
    names : sequence of d strings, optional
        Names of the columns.
    browser : bool, default=True
        Whether to open the page.
    port : int, default=0
        0 is any free one.

    Returns
    -------
    Explorer
        Its ``url`` is the address, ``stop()`` ends it. The server ends with the program.

    Examples
    --------
    >>> import mercer
    >>> page = mercer.explore("moons", browser=False)
    >>> page.url.startswith("http://127.0.0.1:")
    True
    >>> page.stop()
    """
    _require_server()
    session = Session()
    try:
        begin_in_memory(session, model, X, labels, names)
        page = made(session, port=port).start()
    except BaseException:
        session.close()
        raise
    if browser:
        webbrowser.open(page.url)
    return page
