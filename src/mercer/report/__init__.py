"""A model and rows as one HTML page that loads nothing: ``mercer.report(model, X, path)``."""

import sys
from types import ModuleType

from mercer.report.build import build, report

__all__ = ["build", "report"]


class _Report(ModuleType):
    """The package, which is called as its function is: one name for one thing."""

    __call__ = staticmethod(report)


sys.modules[__name__].__class__ = _Report
