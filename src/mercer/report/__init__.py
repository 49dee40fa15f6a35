"""One HTML file that shows a model and its data, and opens anywhere."""

from mercer.report.build import build

__all__ = ["build"]
