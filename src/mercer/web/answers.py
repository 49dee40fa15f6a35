"""The questions that a page may ask, each a name and a function: the same over HTTP and in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mercer._core.errors import (
    InputError,
    MercerError,
    ParameterError,
    nearest,
)
from mercer._core.params import OneOf, require
from mercer._core.version import VERSION
from mercer.app.explore import (
    BUILTINS,
    Recipe,
    expression,
    judging,
    keeping,
    meaning,
    panels,
)
from mercer.app.explore.dataset import MOST_COLUMNS
from mercer.app.explore.fitting import DRAG_ROWS, POINTS, REST_ROWS, SAMPLE, quietly
from mercer.app.explore.panels import GRID, back_panel
from mercer.app.explore.planes import rows_panel
from mercer.data.formats import SUFFIXES
from mercer.preimage import PREIMAGES
from mercer.views.classes import PALETTE, SHAPES
from mercer.web.desk import Job, SupersededError
from mercer.web.packets import Reply, json_reply, packet
from mercer.web.refusals import told
from mercer.web.session import MODEL_SUFFIX, NotFoundError, is_readable, safe_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer.app.explore.keeping import Kept
    from mercer.web.session import Session

UPLOAD_BYTES = 512 * 2**20
MOST_BODY = 32 * 2**20  # of a question: a selection of two million rows is the longest
MOST_TEXT = 20_000


class Question(NamedTuple):
    """What answers it, whether it is as long as a fit, and whether it is answered at once.

    A stop has to arrive while everything else waits.
    """

    answer: Callable[[Session, dict[str, Any], Job], Reply]
    fits: bool = False
    at_once: bool = False


# ── where things stand ──────────────────────────────────────────────────────
def state(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """All that a page needs to begin."""
    del body, job
    limits = {
        "upload_bytes": UPLOAD_BYTES,
        "columns": MOST_COLUMNS,
        "points": POINTS,
        "sample": SAMPLE,
        "drag_rows": DRAG_ROWS,
        "rest_rows": REST_ROWS,
        "grid_drag": GRID["drag"],
        "grid_rest": GRID["rest"],
        "suffixes": sorted([*SUFFIXES, MODEL_SUFFIX]),
    }
    builtins = [
        {"name": name, "title": own.title, "words": own.words}
        for name, own in BUILTINS.items()
        if not own.hidden
    ]
    return json_reply(
        {
            "version": VERSION,
            "tables": [session.described(key) for key in list(session.tables)],
            "models": [session.described_model(key) for key in list(session.models)],
            "start": session.start,
            "builtins": builtins,
            "kernels": expression.catalogue(),
            "limits": limits,
            "preimages": list(PREIMAGES),
            "palette": list(PALETTE),
            "shapes": list(SHAPES),
        }
    )


def open_(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """A built-in data set."""
    del job
    return json_reply(session.described(session.open_builtin(body.get("builtin"))))


def place_for(session: Session, name: str) -> Path:
    """Where a file that is handed over goes: its name says how it is read, and nothing else."""
    if not is_readable(name):
        must_be = f"a file that can be read: {', '.join([*SUFFIXES, MODEL_SUFFIX])}"
        raise ParameterError.about(parameter="name", value=name, must_be=must_be)
    return session.place()[1] / safe_name(name)


def received(session: Session, path: Path, name: str) -> Reply:
    """A file that lies in its place; one that can't be read is taken away again."""
    shown = Path(name.replace("\\", "/")).name[:200]
    try:
        if path.suffix != MODEL_SUFFIX:
            return json_reply({"table": session.described(session.open_file(path, shown))})
        key = session.open_model_file(path, shown)
        table = session.keep_rows(key)
    except BaseException:
        session.discard(path)
        raise
    rows = None if table is None else session.described(table)
    return json_reply({"model": session.described_model(key), "table": rows})


def reread(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """A file that is open, read in another way."""
    del job
    return json_reply(session.described(session.reread(body.get("table", ""), body)))


def close(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """Let a table go."""
    del job
    session.drop(body.get("table", ""))
    return json_reply({})


def progress(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """How far the fit of a tab is."""
    del body
    return json_reply(session.desk.progress(job.client))


def stop(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """Stop the fit of a tab."""
    del body
    return json_reply({"stopped": session.desk.stop(job.client, job)})


# ── panels ──────────────────────────────────────────────────────────────────
def kernel(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """An expression while it is being written: half a text is an answer like any other, not a failure."""
    del job
    if "complete" in body:
        return json_reply({"items": expression.completed(str(body["complete"])[:MOST_TEXT])})
    data = None if body.get("table") is None else session.table(body["table"])
    try:
        return json_reply(expression.described(body.get("text"), data, _scale(body)))
    except MercerError as error:
        if not isinstance(body.get("text"), str):
            raise
        return json_reply({"wrong": told(error)})


def rows(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """The data panel."""
    data, shown = session.table(body.get("table")), None
    if body.get("recipe") is not None:
        shown = _shown(session, body, job)
    panel = rows_panel(data, _scale(body), body.get("plane"), body.get("color", "label"), shown)
    return packet(panel)


def fit(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """A fit, and all panels of it that are wanted."""
    quality, wanted = body.get("quality", "rest"), body.get("panels", {})
    if not isinstance(wanted, dict):
        raise ParameterError.about(
            parameter="panels", value=wanted, must_be="an object of panels and their options"
        )
    shown = session.shown(body.get("table"), Recipe.read(body.get("recipe", {})), quality, job)
    if job.reason is SupersededError:
        job.check()
    panel = panels(shown, wanted, quality, job)
    panel.header.update(generation=job.generation, slot=job.slot, table=body["table"])
    # What a stopped fit has found is worth showing, and nothing is built on it.
    panel.header["stopped"] = job.cancelled.is_set()
    return packet(panel)


def back(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """Pre-images, of rows that are too many for them to follow a finger."""
    shown = _shown(session, body, job)
    with quietly("rest", len(shown.sheet)):
        return packet(back_panel(shown, body.get("plane"), job))


def walk(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """A walk along a component."""
    steps, at = body.get("steps", 41), body.get("at", "mean")
    shown = _shown(session, body, job)
    with quietly("rest", len(shown.sheet)):
        return packet(meaning.walk(shown, body.get("component", 0), at, steps, body.get("plane")))


def importance(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """Which variables move a component."""
    shown = _shown(session, body, job)
    with quietly("rest", len(shown.sheet)):
        return packet(meaning.importance(shown))


def image(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """Rows as pictures."""
    del job
    return packet(meaning.images(session.table(body.get("table")), body.get("rows")))


def row(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """The row under the pointer."""
    del job
    return json_reply(meaning.row(session.table(body.get("table")), body.get("row")))


def detector(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """Statistics over time."""
    shown = _shown(session, body, job)
    return packet(meaning.timeline(shown, _watched(session, body), job))


def contributions(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """The variables behind one row."""
    shown = _shown(session, body, job)
    return packet(meaning.contributions(shown, _watched(session, body), body.get("row")))


def check(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """Is it a kernel?"""
    data = None if body.get("table") is None else session.table(body["table"])
    return packet(judging.check(body.get("kernel"), data, _scale(body), job))


def select(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """Kernels side by side."""
    data, recipe = session.table(body.get("table")), Recipe.read(body.get("recipe", {}))
    supervised = body.get("supervised") is True
    wanted = body.get("kernels"), body.get("components")
    return packet(judging.select(recipe, data, *wanted, job, supervised=supervised))


def separate(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """What a straight line tells of the labels, with two kernels, or with a kernel and with PCA."""
    a, other, say = _shown(session, body, job), body.get("other"), judging.separated
    if other is None:
        other, say = {"kind": "pca", "scale": a.recipe.scale}, judging.beside_pca
    b = _shown(session, {**body, "recipe": other}, job)
    return json_reply(say(a, b, body.get("components")))


def plan(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """What a fit would cost."""
    recipe = Recipe.read(body.get("recipe", {}))
    return json_reply(judging.plan(recipe, session.table(body.get("table")), job))


# ── to take away ────────────────────────────────────────────────────────────
def code(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """The fit as a program, and as a command."""
    del job
    data, recipe = session.table(body.get("table")), Recipe.read(body.get("recipe", {}))
    if recipe.model is not None:
        msg = "A model that was opened has no recipe here. Its file says how it was made: mercer info."
        raise InputError(msg)
    return json_reply({"python": recipe.python(data), "command": recipe.command(data)})


def save(session: Session, body: dict[str, Any], job: Job) -> Reply:
    """A file to keep."""
    what, data = body.get("what"), session.table(body.get("table"))
    if what == "data":
        return _file(keeping.file(data))
    if what == "selection":
        return _file(keeping.selection(data, body.get("rows"), body.get("format")))
    asked = SAVED[require("what", what, OneOf(tuple(SAVED)))]
    return _file(asked(_shown(session, body, job), body, session))


def _picture(shown: Any, body: dict[str, Any], session: Session) -> Kept:
    from mercer.web.pictures import picture

    return picture(shown, body, _watched(session, body))


SAVED: dict[str, Callable[[Any, dict[str, Any], Session], Kept]] = {
    "model": lambda shown, _body, _session: keeping.model(shown),
    "scores": lambda shown, body, _: keeping.scores(shown, body.get("format")),
    "report": lambda shown, body, _: keeping.report(shown, body.get("title")),
    "picture": _picture,
}


def _file(kept: Kept) -> Reply:
    return Reply(kept.body, kept.kind, name=kept.name)


# ── what they share ─────────────────────────────────────────────────────────
def _scale(body: dict[str, Any]) -> str:
    scale = body.get("scale", "standard")
    if scale not in ("standard", "none"):
        raise ParameterError.about(parameter="scale", value=scale, must_be="'standard' or 'none'")
    return str(scale)


def _shown(session: Session, body: dict[str, Any], job: Job) -> Any:
    recipe = Recipe.read(body.get("recipe", {}))
    return session.shown(body.get("table"), recipe, body.get("quality", "rest"), job)


def _watched(session: Session, body: dict[str, Any]) -> Any:
    return None if body.get("watch") is None else session.table(body["watch"])


QUESTIONS: dict[str, Question] = {
    "state": Question(state),
    "open": Question(open_),
    "reread": Question(reread),
    "close": Question(close),
    "progress": Question(progress, at_once=True),
    "stop": Question(stop, at_once=True),
    "kernel": Question(kernel),
    "rows": Question(rows),
    "fit": Question(fit, fits=True),
    "back": Question(back),
    "walk": Question(walk),
    "importance": Question(importance),
    "image": Question(image),
    "row": Question(row),
    "detector": Question(detector),
    "contributions": Question(contributions),
    "check": Question(check),
    "select": Question(select, fits=True),
    "separate": Question(separate),
    "plan": Question(plan),
    "code": Question(code),
    "save": Question(save),
}


def job_of(name: Any, body: Any) -> tuple[Question, Job]:
    """What was asked, and a job for it; raises where it is not a question."""
    if name not in QUESTIONS:
        msg = f"There is no question {name!r}. {nearest(str(name), QUESTIONS)}"
        raise NotFoundError(msg)
    if not isinstance(body, dict):
        raise ParameterError.about(parameter="body", value=body, must_be="a JSON object")
    client, generation = body.get("client", ""), body.get("generation", 0)
    slot = body.get("slot", "")
    if not all(isinstance(text, str) and len(text) <= 64 for text in (client, slot)):
        raise ParameterError.about(
            parameter="client and slot", value=client, must_be="texts of at most 64 letters"
        )
    if type(generation) is not int or not 0 <= generation < 2**53:
        raise ParameterError.about(
            parameter="generation", value=generation, must_be="a whole number"
        )
    return QUESTIONS[name], Job(client, slot or name, generation)
