"""mercer: Kernel PCA, exact and certified.

>>> import mercer
>>> model = mercer.KernelPCA(2, kernel="rbf").fit([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
>>> model.transform([[1.0, 1.0]]).shape
(1, 2)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mercer._core.version import VERSION as __version__

if TYPE_CHECKING:
    from mercer import (
        approximations,
        datasets,
        diagnostics,
        errors,
        kernels,
        onnx,
        plots,
        preimage,
        pyod,
        report,
        scorers,
        sklearn,
        solvers,
        views,
    )
    from mercer.data.formats import open_table
    from mercer.diagnostics import check_kernel, select, select_detector
    from mercer.estimators import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
    from mercer.estimators.prepared import Prepared
    from mercer.monitoring.alarm_rule import AlarmRule
    from mercer.monitoring.events import compare_events
    from mercer.persistence.card import ModelCard, card
    from mercer.persistence.model_file import load, save
    from mercer.persistence.schema import SKOPS_TRUSTED
    from mercer.web.launch import explore

# The public names of each module that are names here too. Nothing is imported until it is asked for:
# `import mercer` costs no more than Python itself, and the command line answers `--help` at once.
_NAMES = {
    "mercer.data.formats": ("open_table",),
    "mercer.diagnostics": ("check_kernel", "select", "select_detector"),
    "mercer.estimators": ("IncrementalKernelPCA", "KernelPCA", "KernelPCADetector", "PCA"),
    "mercer.estimators.prepared": ("Prepared",),
    "mercer.monitoring.alarm_rule": ("AlarmRule",),
    "mercer.monitoring.events": ("compare_events",),
    "mercer.persistence.card": ("ModelCard", "card"),
    "mercer.persistence.model_file": ("load", "save"),
    "mercer.persistence.schema": ("SKOPS_TRUSTED",),
    "mercer.web.launch": ("explore",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
    "PCA",
    "SKOPS_TRUSTED",
    "AlarmRule",
    "IncrementalKernelPCA",
    "KernelPCA",
    "KernelPCADetector",
    "ModelCard",
    "Prepared",
    "__version__",
    "app",
    "approximations",
    "card",
    "check_kernel",
    "compare_events",
    "datasets",
    "diagnostics",
    "errors",
    "explore",
    "kernels",
    "load",
    "onnx",
    "open_table",
    "plots",
    "preimage",
    "pyod",
    "report",
    "save",
    "scorers",
    "select",
    "select_detector",
    "sklearn",
    "solvers",
    "views",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        msg = f"module 'mercer' has no attribute {name!r}"
        raise AttributeError(msg)
    home = _HOMES.get(name)
    value = import_module(f"mercer.{name}") if home is None else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
