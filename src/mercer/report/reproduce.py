"""How to get the same again: commands, versions, seed and hashes."""

from __future__ import annotations

import platform
import shlex
from importlib import metadata
from typing import TYPE_CHECKING, Any

from mercer import __version__
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
        _facts(subject),
    ]
    return Section("reproduce", "How to reproduce it", parts)


def commands(subject: Subject) -> list[str]:
    """The fit, the scores and this report, as one types them."""
    data = shlex.quote(subject.source or "data.csv")
    model = shlex.quote(subject.model_file or "model.mercer")
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
    header, known = subject.header, training(subject)
    fitted = header.get("versions")
    rows: list[list[Any]] = []
    if "mercer_version" in header:
        rows.append(["fitted with mercer", header["mercer_version"]])
    if isinstance(fitted, dict):
        rows += [[f"fitted with {name}", str(version)] for name, version in fitted.items()]
    rows.append(["reported with mercer", __version__])
    rows.append(["reported with Python", platform.python_version()])
    rows += [[f"reported with {name}", metadata.version(name)] for name in PACKAGES]
    seed = subject.model.get_params(deep=False).get("random_state")
    rows.append(["seed", "fixed (none was given)" if seed is None else str(seed)])
    if isinstance(known.get("n"), int):
        rows.append(["training rows", count(known["n"])])
    if known.get("digest"):
        rows.append(["digest of the training rows", tag("code", known["digest"])])
    if subject.digest is not None:
        rows.append(["digest of these rows", tag("code", subject.digest)])
    return grid(["what", "which"], rows, caption="Versions and hashes", texts=2)
