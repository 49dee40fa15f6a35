r"""Use cases: what the command line does with rows and models, for programs.

Each is a request, a frozen dataclass; `run` gives its `Outcome`: a value, and findings as data. Nothing is
printed, and calls in several threads do not disturb each other.

Examples
--------
>>> import tempfile, pathlib
>>> from mercer import app
>>> folder = tempfile.TemporaryDirectory()
>>> path = str(pathlib.Path(folder.name, "rows.csv"))
>>> _ = pathlib.Path(path).write_text("a,b\n1,2\n2,3\n4,3\n3,1\n")
>>> outcome = app.run(app.FitRequest(data=path, kernel="linear()", components=3))
>>> outcome.value.facts["components"]
2
>>> finding = next(f for f in outcome.findings if f.level == "warning")
>>> finding.code, finding.numbers, finding.remedy
('rank', {'asked': 3, 'kept': 2}, Remedy(parameter='n_components', value=2))
>>> folder.cleanup()
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mercer._core.errors import Remedy, StoppedError
from mercer._core.findings import Finding
from mercer.app.outcome import Observer, Outcome, Request, run

__all__ = [
    "CheckRequest",
    "DemoRequest",
    "ExportRequest",
    "Finding",
    "FitRequest",
    "InfoRequest",
    "LiveRequest",
    "MonitorRequest",
    "Observer",
    "Outcome",
    "PlanRequest",
    "Reading",
    "ReconstructRequest",
    "Remedy",
    "Request",
    "RetrainRequest",
    "SelectRequest",
    "StoppedError",
    "TransformRequest",
    "run",
]

HOMES = {
    "PlanRequest": "mercer.app.fit",
    "Reading": "mercer.data.table",
    "ReconstructRequest": "mercer.app.transform",
    "RetrainRequest": "mercer.app.shadow",
}


def __getattr__(name: str) -> Any:
    """`FitRequest` is in `fit`: imported when asked for, as each works with other parts of the library."""
    if name not in __all__:
        msg = f"module 'mercer.app' has no attribute {name!r}"
        raise AttributeError(msg)
    home = HOMES.get(name, f"mercer.app.{name.removesuffix('Request').lower()}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
