"""mercer: Kernel PCA, exact and certified.

>>> import mercer
>>> model = mercer.KernelPCA(2, kernel="rbf").fit([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
>>> model.transform([[1.0, 1.0]]).shape
(1, 2)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer import (
        approximations,
        diagnostics,
        errors,
        kernels,
        onnx,
        plots,
        preimage,
        report,
        sklearn,
        solvers,
    )
    from mercer.data.formats import open_table
    from mercer.diagnostics import check_kernel, select
    from mercer.estimators import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
    from mercer.estimators.prepared import Prepared
    from mercer.io.model_file import load
    from mercer.io.schema import SKOPS_TRUSTED

__version__ = "0.1.0"

# Where each public name lives. Nothing is imported until it is asked for: `import mercer` costs no
# more than Python itself, and the command line answers `--help` at once.
_HOMES = {
    "IncrementalKernelPCA": "mercer.estimators",
    "KernelPCA": "mercer.estimators",
    "KernelPCADetector": "mercer.estimators",
    "PCA": "mercer.estimators",
    "Prepared": "mercer.estimators.prepared",
    "SKOPS_TRUSTED": "mercer.io.schema",
    "approximations": "",
    "check_kernel": "mercer.diagnostics",
    "diagnostics": "",
    "errors": "",
    "kernels": "",
    "load": "mercer.io.model_file",
    "onnx": "",
    "open_table": "mercer.data.formats",
    "preimage": "",
    "plots": "",
    "report": "",
    "select": "mercer.diagnostics",
    "sklearn": "",
    "solvers": "",
}

__all__ = [
    "PCA",
    "SKOPS_TRUSTED",
    "IncrementalKernelPCA",
    "KernelPCA",
    "KernelPCADetector",
    "Prepared",
    "__version__",
    "approximations",
    "check_kernel",
    "diagnostics",
    "errors",
    "kernels",
    "load",
    "onnx",
    "open_table",
    "plots",
    "preimage",
    "report",
    "select",
    "sklearn",
    "solvers",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module 'mercer' has no attribute {name!r}"
        raise AttributeError(msg)
    home = _HOMES[name]
    value = getattr(import_module(home), name) if home else import_module(f"mercer.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
