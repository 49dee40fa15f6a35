"""`mercer explore`: a page on this machine where kernels are tried by hand."""

from __future__ import annotations

import os
import socket
import webbrowser

import click

from mercer.cli.ending import OK, flushed, refuse
from mercer.cli.options import option
from mercer.cli.verb import Call, verb

EXAMPLE = """\
mercer demo --csv circles.csv
mercer explore circles.csv --id id --label label"""
LOCAL = {"127.0.0.1", "localhost", "::1"}


@verb("reading", example=EXAMPLE)
@click.argument("data", required=False)
@click.argument("rows", required=False)
@option("--port", "0 is any free one.", click.IntRange(0, 65535), default=0)
@option("--browser/--no-browser", "Whether to open the page.", default=True)
@option(
    "--host",
    "Address to listen at; others than this machine's own need --allow-remote.",
    default="127.0.0.1",
    metavar="ADDRESS",
)
@option(
    "--allow-remote",
    "Let other machines in that know the whole address, token included. It is not encrypted.",
    bool,
)
def explore(
    call: Call,
    *,
    data: str | None,
    rows: str | None,
    port: int,
    browser: bool,
    host: str,
    allow_remote: bool,
) -> None:
    """Open a page on this machine where kernels are tried by hand.

    DATA is a file of rows, a model file (then ROWS may be a file of rows for it), or the name of a built-in
    data set: circles, moons, faces, digits or tank. Without it the page begins with two circles; files can
    be dropped onto it. Drag a width and see what happens to scores, level sets and spectrum; walk along a
    component; save the model. Ctrl-C or the button on the page ends it.
    """
    if host not in LOCAL and not allow_remote:
        refuse(
            f"--host {host} lets other machines in. If that is meant, add --allow-remote: who knows the "
            "address with its token sees the data, and nothing is encrypted."
        )
    from mercer.data.frames import need

    for package in ("starlette", "uvicorn"):
        need(package, extra="explore")
    from mercer.web.launch import begin, made
    from mercer.web.session import Session

    session = Session()
    try:
        with call.timed("read"), call.following():
            # Where both are given, DATA is a model.
            files = (data,) if rows is None else (rows, data)
            begin(session, *files, reading=call.reading)
        data_shown = session.table((session.start or {}).get("table"))
        for note in (*data_shown.guessed, *data_shown.noted):
            call.note(note)
        names = () if host in LOCAL else _names(host)
        page = made(session, host=host, port=port, names=names)
    except BaseException:
        session.close()
        raise
    if host not in LOCAL:
        call.warn(
            "Other machines that know this address see the data; nothing is encrypted.", "remote"
        )
    call.tell({"url": page.url}, page.url)
    call.say("Ctrl-C, or the button on the page, ends it")
    if browser:
        webbrowser.open(page.url)
    page.serve()
    call.say("the page is closed")
    # Where a library reads on, Python would wait for it, to tidy up its memory.
    if session.desk.is_busy and flushed():
        os._exit(OK)


def _names(host: str) -> tuple[str, ...]:
    """What this machine may be called in an address from elsewhere."""
    if host in ("0.0.0.0", "::"):
        name = socket.gethostname()
        try:
            return socket.gethostbyname(name), name
        except OSError:
            return (name,)
    return (f"[{host}]" if ":" in host else host,)
