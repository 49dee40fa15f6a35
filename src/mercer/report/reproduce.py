"""How to get the same again: commands, versions, seed and hashes."""

from __future__ import annotations

import platform
import shlex
from importlib import metadata
from typing import TYPE_CHECKING, Any

from mercer.model.checkpoint import VERSION
from mercer.report.data_summary import training
from mercer.report.markup import Html, grid, paragraph, tag
from mercer.report.section import Section
from mercer.report.shown import count

if TYPE_CHECKING:
    from mercer.report.subject import Subject

PACKAGES = ("numpy", "scipy", "scikit-learn")


def reproduce(subject: Subject) -> Section:
    """The section."""
    lines = commands(subject)
    parts: list[Any] = [
        paragraph("With the same files and versions these commands give the same numbers:"),
        tag("pre", "\n".join(lines), class_="commands", tabindex="0"),
        _versions(subject),
        _facts(subject),
    ]
    return Section("reproduce", "How to reproduce it", parts)


def commands(subject: Subject) -> list[str]:
    """The fit, the scores and this report, as one types them."""
    model, data = map(shlex.quote, subject.files)
    return [
        _fit_command(subject),
        _use(subject, model, data),
        *(subject.commands or (f"mercer report {model} {data} -o report.html",)),
    ]


def _use(subject: Subject, model: str, data: str) -> str:
    """What one does with such a model: a detector judges, others give scores."""
    if subject.detector is not None:
        return f"mercer monitor {model} {data} -o alarms.csv"
    return f"mercer transform {model} {data} -o scores.csv"


def _fit_command(subject: Subject) -> str:
    """As the model file has it; a model that Python fitted is told as Python has it."""
    about = subject.header.get("about")
    if isinstance(about, dict) and isinstance(about.get("command"), str):
        return str(about["command"])
    return f"# fitted in Python: {' '.join(repr(subject.model).split())}"


def _facts(subject: Subject) -> Html:
    known = training(subject)
    rows: list[list[Any]] = []
    seed = subject.model.get_params(deep=False).get("random_state")
    rows.append(["seed", "fixed (none was given)" if seed is None else str(seed)])
    if isinstance(known.get("n"), int):
        rows.append(["training rows", count(known["n"])])
    if known.get("digest"):
        rows.append(["digest of the training rows", tag("code", known["digest"])])
    if subject.digest is not None:
        rows.append(["digest of these rows", tag("code", subject.digest)])
    return grid(["what", "which"], rows, caption="Seed and hashes", texts=2)


def _versions(subject: Subject) -> Html:
    """Of what the fit and the page were made with, side by side: a difference is seen at once."""
    here = {"mercer": VERSION, "python": platform.python_version()}
    here |= {name: metadata.version(name) for name in PACKAGES}
    told = subject.header.get("versions")
    fitted = {"mercer": subject.header.get("mercer_version")}
    fitted |= told if isinstance(told, dict) else {}
    names = [*here, *(name for name in fitted if name not in here)]
    rows = [[name, *(str(made.get(name) or "—") for made in (fitted, here))] for name in names]
    return grid(["version of", "at the fit", "of this page"], rows, caption="Versions", texts=3)
