"""The questions, in the order in which they are asked.

Each module states its question in its docstring and has a TITLE, ``jobs(setting)``, ``section(rows)``
for the text, ``draw(rows, path)`` where it has a picture, and DATASETS, the real data it would like.
"""

from types import ModuleType

from benchmarks.scale.questions import error, exact, growth, memory, million, mnist

QUESTIONS: dict[str, ModuleType] = {
    "exact": exact,
    "mnist": mnist,
    "growth": growth,
    "memory": memory,
    "million": million,
    "error": error,
}

__all__ = ["QUESTIONS"]
