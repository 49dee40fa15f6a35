"""What is fitted on the page: a few words that are also a link, a request of `mercer fit`, and Python."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_digits, make_moons

from mercer._core.errors import UnknownParameterError, nearest
from mercer._core.params import OneOf, is_number, require
from mercer.app.demo import circles_text, process_text
from mercer.app.explore.dataset import Dataset
from mercer.app.fit import FitRequest
from mercer.app.outcome import refuse_value
from mercer.data.table import Reading
from mercer.datasets import faces

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

# The options of each kind of model, as `FitRequest` has them.
KINDS = {
    "kpca": ("kernel", "components", "approximation", "preimage"),
    "pca": ("components",),
    "detector": ("kernel", "components", "approximation", "false_alarm"),
}
OPTIONS = (
    "kernel",
    "components",
    "scale",
    "approximation",
    "preimage",
    "false_alarm",
    "impute",
    "one_hot",
)
READING = ("id", "label", "columns")
DEFAULT_KERNEL = "rbf(gamma='median')"
DEFAULT_COMPONENTS = 6  # as many as a page shows well


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A model to fit; or the name of one that is there already.

    Parameters
    ----------
    kind : {"kpca", "pca", "detector"}
    kernel : str
        An expression; linear PCA has none, and None is a detector's own choice.
    components : int, float or "all", optional
        How many, or which share of the variance. None is 6, and for a detector what the command line takes.
    scale : {"standard", "none"}
    preimage, approximation : str, optional
    false_alarm : float, optional
        Of a detector.
    model : str, optional
        A model of the session, as it is; all else is left out then.

    Examples
    --------
    >>> Recipe.read({"kernel": "rbf(gamma=2)", "components": 3}).components
    3
    >>> Recipe.read({"kernal": "rbf"})
    Traceback (most recent call last):
        ...
    mercer._core.errors.UnknownParameterError: A recipe has no 'kernal'. Did you mean 'kernel'? ...
    """

    kind: str = "kpca"
    kernel: str | None = None
    components: int | float | str | None = None
    scale: str = "standard"
    preimage: str | None = None
    approximation: str | None = None
    false_alarm: float | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        require("kind", self.kind, OneOf(tuple(KINDS)))
        require("scale", self.scale, OneOf(("standard", "none")))
        for name in ("kernel", "preimage", "approximation", "model"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                refuse_value(name, value, "a text or None")
        given = self.components
        if not (is_number(given) or given in ("all", None)):
            refuse_value("components", given, "a whole number, a share of the variance or 'all'")
        # A detector chooses kernel and components itself, where none are given.
        if self.kind == "detector":
            own: dict[str, Any] = {"kernel": None if self.kernel == "auto" else self.kernel}
        else:
            kernel = DEFAULT_KERNEL if self.kernel is None else self.kernel
            components = DEFAULT_COMPONENTS if given is None else given
            own = {"kernel": None if self.kind == "pca" else kernel, "components": components}
            own["false_alarm"] = None
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @classmethod
    def read(cls, given: Any) -> Recipe:
        """A recipe of JSON; what is not one is refused."""
        if not isinstance(given, dict):
            refuse_value("recipe", given, "an object of a recipe's parameters")
        known = [each.name for each in fields(cls)]
        if unknown := [name for name in given if name not in known]:
            msg = f"A recipe has no {unknown[0]!r}. {nearest(str(unknown[0]), known)}"
            raise UnknownParameterError(msg)
        return cls(**{name: value for name, value in given.items() if value is not None})

    @property
    def plain(self) -> dict[str, Any]:
        """What is set, as JSON has it; a model that is there already is only named."""
        if self.model is not None:
            return {"model": self.model}
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def key(self) -> str:
        """The same for recipes whose fits are the same: a pre-image is learned after the fit."""
        return json.dumps({**self.plain, "preimage": None}, sort_keys=True)

    # ── as a request ────────────────────────────────────────────────────────
    def request(self, data: Dataset, *, output: str | None = None) -> FitRequest:
        """The same fit for the command line's use case."""
        options = {name: getattr(self, name) for name in KINDS[self.kind]}
        return FitRequest(**data.asked(self.scale), kind=self.kind, output=output, **options)

    # ── to take away ────────────────────────────────────────────────────────
    def command(self, data: Dataset) -> str:
        # A file whose name begins with a dash is no option.
        source = f"./{data.source}" if data.source.startswith("-") else data.source
        words = ["mercer", "fit", source]
        words += [] if self.kind == "kpca" else ["--model", self.kind]
        given = _given(self.request(data), OPTIONS) | _given(data.reading, READING)
        for name, value in given.items():
            words.append(f"--{name.replace('_', '-')}")
            if value is not True:
                words.append(",".join(value) if name == "columns" else str(value))
        command = " ".join(map(shlex.quote, [*words, "-o", "model.mercer"]))
        made = [f"python -c {shlex.quote('; '.join(written(data)))}"] if written(data) else []
        return " && ".join([*made, command])

    def python(self, data: Dataset) -> str:
        """The fit as a program, which gives the numbers of the page."""
        given = {"data": data.source, "kind": self.kind, **_given(self.request(data), OPTIONS)}
        lines = [f"    {name}={value!r}," for name, value in given.items()]
        if read := _given(data.reading, READING):
            inside = ", ".join(f"{name}={value!r}" for name, value in read.items())
            lines.append(f"    reading=app.Reading({inside}),")
        shown = ["print(fitted.model.fit_)", "scores = fitted.model.transform(fitted.sheet.rows)"]
        if self.kind == "detector":
            shown = ["seen = fitted.model.monitor(fitted.sheet.rows)"]
        head = ["from mercer import app", *written(data), "", "request = app.FitRequest("]
        tail = [")", "fitted = app.run(request).value", *shown, ""]
        return "\n".join([*head, *lines, *tail])


def _given(source: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """The attributes that are set."""
    values = {name: getattr(source, name) for name in names}
    return {
        name: value for name, value in values.items() if value is not None and value is not False
    }


def written(data: Dataset) -> list[str]:
    """Python that writes the file of a data set of mercer's own, which a reader has nowhere."""
    own = BUILTINS.get(data.name)
    if own is None or data.suggested is not own.recipe:
        return []
    return ["from mercer.app.explore import write_builtin", f"write_builtin({data.name!r}, '.')"]


# ── data sets to begin with: each is written as a file, and then read as any other file is ──────────────────
FACES_SHAPE = (56, 46)


@dataclass(frozen=True)
class Builtin:
    """A data set of mercer's own: what it is called, what it shows, and a recipe to begin with."""

    title: str
    words: str
    content: Callable[[], str | dict[str, Any]]  # of its file: a CSV, or arrays
    recipe: dict[str, Any]
    reading: Reading = field(default_factory=Reading)
    image_shape: tuple[int, int] | None = None
    partner: str | None = None  # rows that a detector fitted to these is to watch
    hidden: bool = False  # opened with its partner only


def _moons() -> dict[str, Any]:
    points, which = make_moons(400, noise=0.06, random_state=0)
    labels = np.array(["upper", "lower"])[which]
    return {"rows": points, "labels": labels, "names": np.array(["x", "y"])}


def _digits() -> dict[str, Any]:
    digits = load_digits()
    return {"rows": digits.data, "labels": digits.target.astype(str), "names": _pixels(8, 8)}


def _pixels(height: int, width: int) -> Any:
    return np.array([f"pixel_{r}_{c}" for r in range(height) for c in range(width)])


def _faces() -> dict[str, Any]:
    drawn = faces(shape=FACES_SHAPE)
    labels = np.array([f"person {who + 1:02d}" for who in drawn.people])
    return {"rows": drawn.X, "labels": labels, "names": _pixels(*drawn.shape)}


_TANK = Reading(id="time")
BUILTINS = {
    "circles": Builtin(
        "Two circles",
        "400 points on two rings that no line separates",
        circles_text,
        {"kernel": "rbf(gamma=2)", "components": 6},
        Reading(id="id", label="label"),
    ),
    "moons": Builtin(
        "Two moons",
        "400 points on two crescents that reach into each other",
        _moons,
        {"kernel": "rbf(gamma=5)", "components": 6},
    ),
    "faces": Builtin(
        "Drawn faces",
        "240 drawings of 40 faces, 56 × 46 pixels: walk along a component and watch one change",
        _faces,
        {"kernel": "rbf(gamma='median')", "components": 20, "scale": "none"},
        image_shape=FACES_SHAPE,
    ),
    "digits": Builtin(
        "Handwritten digits",
        "1797 digits of 8 × 8 pixels, as scikit-learn has them",
        _digits,
        {"kernel": "rbf(gamma=0.001)", "components": 20, "scale": "none"},
        image_shape=(8, 8),
    ),
    "tank": Builtin(
        "A heated tank",
        "five sensors of a process in order, and a day on which one of them drifts",
        lambda: process_text(faulty=False),
        {"kind": "detector"},
        _TANK,
        partner="tank-today",
    ),
    "tank-today": Builtin(
        "The tank today",
        "the same five sensors on the day that is to be judged",
        lambda: process_text(faulty=True),
        {"kernel": "rbf(gamma='median')", "components": 4},
        _TANK,
        hidden=True,
    ),
}


def write_builtin(name: str, folder: str | os.PathLike[str]) -> Dataset:
    """Write a data set of mercer's own into a folder, and open it.

    Parameters
    ----------
    name : str
        ``"circles"``, ``"moons"``, ``"faces"``, ``"digits"`` or ``"tank"``.
    folder : path
        Where the file goes, under the name of the data set.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_builtin("moons", folder).sheet("none").rows.shape
    (400, 2)
    """
    if name not in BUILTINS:
        refuse_value("name", name, "a built-in data set", remedy=nearest(str(name), BUILTINS))
    own = BUILTINS[name]
    content = own.content()
    path = Path(folder, f"{name}.csv" if isinstance(content, str) else f"{name}.npz")
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        np.savez(path, **content)
    return Dataset(
        path,
        own.reading,
        name=name,
        title=own.title,
        image_shape=own.image_shape,
        suggested=own.recipe,
    )
