"""mercer: Kernel PCA, exact and certified.

>>> import mercer
>>> sorted(mercer.__all__)[:2]
['KernelPCA', 'PCA']
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer import kernels, plots, preimage, solvers
    from mercer.diagnostics import check_kernel
    from mercer.estimators import PCA, KernelPCA

__version__ = "0.1.0"

# Where each public name lives. Nothing is imported until it is asked for: `import mercer` costs no
# more than Python itself, and the command line answers `--help` at once.
_HOMES = {
    "KernelPCA": "mercer.estimators",
    "PCA": "mercer.estimators",
    "check_kernel": "mercer.diagnostics",
    "kernels": "",
    "preimage": "",
    "plots": "",
    "solvers": "",
}

__all__ = [
    "PCA",
    "KernelPCA",
    "__version__",
    "check_kernel",
    "kernels",
    "plots",
    "preimage",
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
