"""What is fitted on the page: a few words that are also a link, a request of `mercer fit`, and Python."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from mercer._core.errors import UnknownParameterError, nearest
from mercer._core.params import OneOf, is_number, require
from mercer.app.explore.builtin import BUILTINS
from mercer.app.fit import FitRequest
from mercer.app.outcome import refuse_value

if TYPE_CHECKING:
    from mercer.app.explore.dataset import Dataset

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
        if self.components is None and self.kind != "detector":
            object.__setattr__(self, "components", DEFAULT_COMPONENTS)
        given = self.components
        if not (is_number(given) or given in ("all", None)):
            refuse_value("components", given, "a whole number, a share of the variance or 'all'")
        # A detector chooses one itself where none is given.
        if self.kind == "pca" or (self.kind == "detector" and self.kernel == "auto"):
            object.__setattr__(self, "kernel", None)
        if self.kind == "kpca" and self.kernel is None:
            object.__setattr__(self, "kernel", DEFAULT_KERNEL)
        if self.kind != "detector":
            object.__setattr__(self, "false_alarm", None)

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
        return FitRequest(
            data=str(data.path),
            reading=data.reading,
            impute=data.impute,
            one_hot=data.one_hot,
            scale=self.scale,  # type: ignore[arg-type]  # one of the two, as was checked
            kind=self.kind,
            output=output,
            **{name: getattr(self, name) for name in KINDS[self.kind]},
        )

    def approximated(self, approximation: str) -> Recipe:
        """The same with an approximation, where it has none of its own and can have one."""
        if self.approximation is not None or self.kind == "pca":
            return self
        return replace(self, approximation=approximation)

    # ── to take away ────────────────────────────────────────────────────────
    def command(self, data: Dataset) -> str:
        """The fit as a command line."""
        words = ["mercer", "fit", argument(data.source)]
        words += [] if self.kind == "kpca" else ["--model", self.kind]
        for name, value in (self._options(data) | self._reading(data)).items():
            words.append(f"--{name.replace('_', '-')}")
            if value is not True:
                words.append(",".join(value) if name == "columns" else str(value))
        command = " ".join(map(shlex.quote, [*words, "-o", "model.mercer"]))
        made = [f"python -c {shlex.quote('; '.join(written(data)))}"] if written(data) else []
        return " && ".join([*made, command])

    def python(self, data: Dataset) -> str:
        """The fit as a program, which gives the numbers of the page."""
        given = {"data": data.source, "kind": self.kind, **self._options(data)}
        lines = [f"    {name}={value!r}," for name, value in given.items()]
        if read := self._reading(data):
            inside = ", ".join(f"{name}={value!r}" for name, value in read.items())
            lines.append(f"    reading=app.Reading({inside}),")
        shown = ["print(fitted.model.fit_)", "scores = fitted.model.transform(fitted.sheet.rows)"]
        if self.kind == "detector":
            shown = ["seen = fitted.model.monitor(fitted.sheet.rows)"]
        head = ["from mercer import app", *written(data), "", "request = app.FitRequest("]
        tail = [")", "fitted = app.run(request).value", *shown, ""]
        return "\n".join([*head, *lines, *tail])

    def _options(self, data: Dataset) -> dict[str, Any]:
        """The options of the fit that are set."""
        request = self.request(data)
        given = {name: getattr(request, name) for name in OPTIONS}
        return {
            name: value for name, value in given.items() if value is not None and value is not False
        }

    @staticmethod
    def _reading(data: Dataset) -> dict[str, Any]:
        """What is said of the columns of the file."""
        given = {name: getattr(data.reading, name) for name in ("id", "label", "columns")}
        return {name: value for name, value in given.items() if value is not None}


def argument(name: str) -> str:
    """The name of a file as the command line takes it: one that begins with a dash is no option."""
    return f"./{name}" if name.startswith("-") else name


def written(data: Dataset) -> list[str]:
    """Python that writes the file of a data set of mercer's own, which a reader has nowhere."""
    own = BUILTINS.get(data.name)
    if own is None or data.suggested is not own.recipe:
        return []
    return ["from mercer.app.explore import write_builtin", f"write_builtin({data.name!r}, '.')"]
