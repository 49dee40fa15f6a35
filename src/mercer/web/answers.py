"""The questions that a page may ask, each a name and a function: the same over HTTP and in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mercer._core.errors import InputError, MercerError, nearest
from mercer._core.params import OneOf, require
from mercer._core.version import VERSION
from mercer.app.explore import BUILTINS, Recipe, expression, judging, keeping, meaning
from mercer.app.explore.dataset import MOST_COLUMNS, Dataset
from mercer.app.explore.fitting import DRAG_ROWS, POINTS, REST_ROWS, SAMPLE, Shown, quietly
from mercer.app.explore.keeping import Kept
from mercer.app.explore.panels import GRID, back_panel, panels
from mercer.app.explore.planes import Panel, rows_panel
from mercer.app.outcome import refuse_value
from mercer.data.formats import SUFFIXES
from mercer.preimage import PREIMAGES
from mercer.views.classes import PALETTE, SHAPES
from mercer.web.desk import Job, SupersededError
from mercer.web.packets import PACKET, Reply, in_words, json_reply, packed
from mercer.web.pictures import picture
from mercer.web.session import MODEL_SUFFIX, NotFoundError, Session, is_readable, safe_name

UPLOAD_BYTES = 512 * 2**20
MOST_BODY = 32 * 2**20  # of a question: a selection of two million rows is the longest
MOST_TEXT = 20_000


@dataclass(frozen=True)
class Asked:
    """A question that was put to a session, with the parts that several questions have."""

    session: Session
    body: dict[str, Any]
    job: Job

    def get(self, name: str, default: Any = None) -> Any:
        """A part of the question."""
        return self.body.get(name, default)

    @property
    def data(self) -> Dataset:
        """The table that it is about."""
        return self.session.table(self.get("table"))

    def table(self, part: str) -> Dataset | None:
        """A table, where that part of the question names one."""
        return None if self.get(part) is None else self.session.table(self.get(part))

    @property
    def recipe(self) -> Recipe:
        """How the fit is made."""
        return Recipe.read(self.get("recipe", {}))

    @property
    def shown(self) -> Shown:
        """The fit."""
        quality = self.get("quality", "rest")
        return self.session.shown(self.get("table"), self.recipe, quality, self.job)

    @property
    def scale(self) -> str:
        """How columns are scaled."""
        scale = self.get("scale", "standard")
        if scale not in ("standard", "none"):
            refuse_value("scale", scale, "'standard' or 'none'")
        return str(scale)


@dataclass(frozen=True)
class Question:
    """The function that answers, whether it takes as long as a fit, and whether it is called at once.

    A stop has to arrive while everything else waits.
    """

    find: Callable[[Asked], Any]
    fits: bool = False
    at_once: bool = False

    def answer(self, session: Session, body: dict[str, Any], job: Job) -> Reply:
        """The answer on the wire: a panel is a packet, a file is a file, all else is JSON."""
        found = self.find(Asked(session, body, job))
        if isinstance(found, Panel):
            return Reply(packed(found.header, found.arrays), PACKET)
        if isinstance(found, Kept):
            return Reply(found.body, found.kind, name=found.name)
        return found if isinstance(found, Reply) else json_reply(found)


# ── where things stand ──────────────────────────────────────────────────────
def state(ask: Asked) -> dict[str, Any]:
    """All that a page needs to begin."""
    session = ask.session
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
    return {
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


def place_for(session: Session, name: str) -> Path:
    """A path for an uploaded file: its name decides how it is read, and nothing else."""
    if not is_readable(name):
        refuse_value(
            "name", name, f"a file that can be read: {', '.join([*SUFFIXES, MODEL_SUFFIX])}"
        )
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


def close(ask: Asked) -> dict[str, Any]:
    """Let a table go."""
    ask.session.drop(ask.get("table", ""))
    return {}


# ── panels ──────────────────────────────────────────────────────────────────
def kernel(ask: Asked) -> dict[str, Any]:
    """An expression while it is being written: half a text is an answer like any other, not a failure."""
    if "complete" in ask.body:
        return {"items": expression.completed(str(ask.get("complete"))[:MOST_TEXT])}
    data = ask.table("table")
    try:
        return expression.described(ask.get("text"), data, ask.scale)
    except MercerError as error:
        if not isinstance(ask.get("text"), str):
            raise
        return {"wrong": in_words(error)}


def rows(ask: Asked) -> Panel:
    """The data panel."""
    data, shown = ask.data, None if ask.get("recipe") is None else ask.shown
    return rows_panel(data, ask.scale, ask.get("plane"), ask.get("color", "label"), shown)


def fit(ask: Asked) -> Panel:
    """A fit, and all panels of it that are wanted."""
    job, wanted = ask.job, ask.get("panels", {})
    if not isinstance(wanted, dict):
        refuse_value("panels", wanted, "an object of panels and their options")
    shown = ask.shown
    if job.reason is SupersededError:
        job.check()
    panel = panels(shown, wanted, ask.get("quality", "rest"), job)
    panel.header.update(generation=job.generation, slot=job.slot, table=ask.body["table"])
    # What a stopped fit has found is worth showing, and nothing is built on it.
    panel.header["stopped"] = job.cancelled.is_set()
    return panel


def quiet(make: Callable[[Asked, Shown], Panel]) -> Callable[[Asked], Panel]:
    """A panel of a fit, made without idle threads where its matrices are small."""

    def made(ask: Asked) -> Panel:
        shown = ask.shown
        with quietly("rest", len(shown.sheet)):
            return make(ask, shown)

    return made


def walk(ask: Asked, shown: Shown) -> Panel:
    """A walk along a component."""
    at, steps = ask.get("at", "mean"), ask.get("steps", 41)
    return meaning.walk(shown, ask.get("component", 0), at, steps, ask.get("plane"))


def select(ask: Asked) -> Panel:
    """Kernels side by side."""
    data, recipe = ask.data, ask.recipe
    wanted, supervised = (ask.get("kernels"), ask.get("components")), ask.get("supervised") is True
    return judging.select(recipe, data, *wanted, ask.job, supervised=supervised)


def separate(ask: Asked) -> dict[str, Any]:
    """How well a straight line separates the labels, with two kernels, or with a kernel and with PCA."""
    a, other, compared = ask.shown, ask.get("other"), judging.separated
    if other is None:
        other, compared = {"kind": "pca", "scale": a.recipe.scale}, judging.beside_pca
    b = Asked(ask.session, {**ask.body, "recipe": other}, ask.job).shown
    return compared(a, b, ask.get("components"))


# ── to take away ────────────────────────────────────────────────────────────
def code(ask: Asked) -> dict[str, Any]:
    """The fit as a program, and as a command."""
    data, recipe = ask.data, ask.recipe
    if recipe.model is not None:
        msg = "A model that was opened has no recipe here. Its file says how it was made: mercer info."
        raise InputError(msg)
    return {"python": recipe.python(data), "command": recipe.command(data)}


SAVED: dict[str, Callable[[Asked], Kept]] = {
    "data": lambda ask: keeping.file(ask.data),
    "selection": lambda ask: keeping.selection(ask.data, ask.get("rows"), ask.get("format")),
    "model": lambda ask: keeping.model(ask.shown),
    "scores": lambda ask: keeping.scores(ask.shown, ask.get("format")),
    "report": lambda ask: keeping.report(ask.shown, ask.get("title")),
    "picture": lambda ask: picture(ask.shown, ask.body, ask.table("watch")),
}
ANSWERS: dict[str, Callable[[Asked], Any]] = {
    "state": state,
    "open": lambda ask: ask.session.described(ask.session.open_builtin(ask.get("builtin"))),
    "reread": lambda ask: ask.session.described(ask.session.reread(ask.get("table", ""), ask.body)),
    "close": close,
    "progress": lambda ask: ask.session.desk.progress(ask.job.client),
    "stop": lambda ask: {"stopped": ask.session.desk.stop(ask.job.client, ask.job)},
    "kernel": kernel,
    "rows": rows,
    "fit": fit,
    "back": quiet(lambda ask, shown: back_panel(shown, ask.get("plane"), ask.job)),
    "walk": quiet(walk),
    "importance": quiet(lambda _, shown: meaning.importance(shown)),
    "image": lambda ask: meaning.images(ask.data, ask.get("rows")),
    "row": lambda ask: meaning.row(ask.data, ask.get("row")),
    "detector": lambda ask: meaning.timeline(ask.shown, ask.table("watch"), ask.job),
    "contributions": lambda ask: meaning.contributions(
        ask.shown, ask.table("watch"), ask.get("row")
    ),
    "check": lambda ask: judging.check(ask.get("kernel"), ask.table("table"), ask.scale, ask.job),
    "select": select,
    "separate": separate,
    "plan": lambda ask: judging.plan(ask.recipe, ask.data, ask.job),
    "code": code,
    "save": lambda ask: SAVED[require("what", ask.get("what"), OneOf(tuple(SAVED)))](ask),
}
QUESTIONS = {
    name: Question(find, fits=name in ("fit", "select"), at_once=name in ("progress", "stop"))
    for name, find in ANSWERS.items()
}


def job_of(name: Any, body: Any) -> tuple[Question, Job]:
    """The question of this name, and a job for it; raises where there is none."""
    if name not in QUESTIONS:
        msg = f"There is no question {name!r}. {nearest(str(name), QUESTIONS)}"
        raise NotFoundError(msg)
    if not isinstance(body, dict):
        refuse_value("body", body, "a JSON object")
    client, generation = body.get("client", ""), body.get("generation", 0)
    slot = body.get("slot", "")
    if not all(isinstance(text, str) and len(text) <= 64 for text in (client, slot)):
        refuse_value("client and slot", client, "texts of at most 64 letters")
    if type(generation) is not int or not 0 <= generation < 2**53:
        refuse_value("generation", generation, "a whole number")
    return QUESTIONS[name], Job(client, slot or name, generation)
