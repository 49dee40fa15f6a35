"""What is fitted on the page: a few words that are also a link, a request of `mercer fit`, and Python."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from mercer._core.errors import ParameterError, UnknownParameterError, nearest
from mercer.app.explore.builtin import BUILTINS
from mercer.app.fit import FitRequest

if TYPE_CHECKING:
    from mercer.app.explore.dataset import Dataset

KINDS = ("kpca", "pca", "detector")
DEFAULT_KERNEL = "rbf(gamma='median')"
DEFAULT_COMPONENTS = 6  # as many as a page shows well
SHARES = ("kind", "kernel", "components", "approximation", "preimage", "false_alarm")


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
        if self.kind not in KINDS:
            raise ParameterError.about(
                parameter="kind", value=self.kind, must_be=" or ".join(map(repr, KINDS))
            )
        if self.scale not in ("standard", "none"):
            raise ParameterError.about(
                parameter="scale", value=self.scale, must_be="'standard' or 'none'"
            )
        for name in ("kernel", "preimage", "approximation", "model"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise ParameterError.about(parameter=name, value=value, must_be="a text or None")
        if self.components is None and self.kind != "detector":
            object.__setattr__(self, "components", DEFAULT_COMPONENTS)
        given = self.components
        if isinstance(given, bool) or not (
            isinstance(given, (int, float)) or given in ("all", None)
        ):
            must_be = "a whole number, a share of the variance or 'all'"
            raise ParameterError.about(parameter="components", value=given, must_be=must_be)
        if self.kind == "pca":
            object.__setattr__(self, "kernel", None)
        elif self.kind == "detector":  # which has a choice of its own
            object.__setattr__(self, "kernel", None if self.kernel == "auto" else self.kernel)
        elif self.kernel is None:
            object.__setattr__(self, "kernel", DEFAULT_KERNEL)
        if self.kind != "detector":
            object.__setattr__(self, "false_alarm", None)

    @classmethod
    def read(cls, given: Any) -> Recipe:
        """A recipe of JSON; what is not one is refused."""
        if not isinstance(given, dict):
            raise ParameterError.about(
                parameter="recipe", value=given, must_be="an object of a recipe's parameters"
            )
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
        if self.kind == "pca":
            parts: dict[str, Any] = {"components": self.components}
        elif self.kind == "detector":
            parts = {
                name: getattr(self, name) for name in SHARES if name not in ("kind", "preimage")
            }
        else:
            parts = {name: getattr(self, name) for name in SHARES if name != "kind"}
        return FitRequest(
            data=str(data.path),
            reading=data.reading,
            impute=data.impute,
            one_hot=data.one_hot,
            scale=self.scale,  # type: ignore[arg-type]  # one of the two, as was checked
            kind=self.kind,
            output=output,
            **parts,
        )

    def approximated(self, approximation: str) -> Recipe:
        """The same with an approximation, where it has none of its own and can have one."""
        if self.approximation is not None or self.kind == "pca":
            return self
        return replace(self, approximation=approximation)

    # ── to take away ────────────────────────────────────────────────────────
    def command(self, data: Dataset) -> str:
        """The fit as a command line."""
        reading, words = data.reading, ["mercer", "fit", argument(data.source)]
        words += [] if self.kind == "kpca" else ["--model", self.kind]
        options = {
            "kernel": self.kernel,
            "components": self.components,
            "scale": self.scale,
            "approximation": self.approximation,
            "preimage": self.preimage if self.kind == "kpca" else None,
            "false-alarm": self.false_alarm,
            "impute": data.impute,
            "id": reading.id,
            "label": reading.label,
            "columns": ",".join(reading.columns) if reading.columns else None,
        }
        for name, value in options.items():
            words += [] if value is None else [f"--{name}", str(value)]
        words += ["--one-hot"] if data.one_hot else []
        command = " ".join(map(shlex.quote, [*words, "-o", "model.mercer"]))
        made = [f"python -c {shlex.quote('; '.join(written(data)))}"] if written(data) else []
        return " && ".join([*made, command])

    def python(self, data: Dataset) -> str:
        """The fit as a program, which gives the numbers of the page."""
        request = self.request(data)
        given: dict[str, Any] = {
            "data": data.source,
            "kind": self.kind,
            "kernel": request.kernel,
        }
        given |= {"components": self.components, "scale": self.scale}
        given |= {
            name: getattr(request, name) for name in ("approximation", "preimage", "false_alarm")
        }
        given |= {"impute": data.impute, "one_hot": data.one_hot or None}
        own = {name: value for name, value in given.items() if value is not None}
        read = {name: getattr(data.reading, name) for name in ("id", "label", "columns")}
        read = {name: value for name, value in read.items() if value is not None}
        lines = [f"    {name}={value!r}," for name, value in own.items()]
        if read:
            inside = ", ".join(f"{name}={value!r}" for name, value in read.items())
            lines.append(f"    reading=app.Reading({inside}),")
        scores = (
            "seen = fitted.model.monitor(fitted.sheet.rows)"
            if self.kind == "detector"
            else "scores = fitted.model.transform(fitted.sheet.rows)"
        )
        head = ["from mercer import app"]
        head += [*written(data), "", "request = app.FitRequest("]
        tail = [")", "fitted = app.run(request).value", "print(fitted.model.fit_)", scores]
        if self.kind == "detector":
            tail.remove("print(fitted.model.fit_)")
        return "\n".join([*head, *lines, *tail, ""])


def argument(name: str) -> str:
    """The name of a file as the command line takes it: one that begins with a dash is no option."""
    return f"./{name}" if name.startswith("-") else name


def written(data: Dataset) -> list[str]:
    """Python that writes the file of a data set of mercer's own, which a reader has nowhere."""
    own = BUILTINS.get(data.name)
    if own is None or data.suggested is not own.recipe:
        return []
    return ["from mercer.app.explore import write_builtin", f"write_builtin({data.name!r}, '.')"]
