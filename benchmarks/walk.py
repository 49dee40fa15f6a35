"""The walk of one fit: ``python -m benchmarks.walk``.

How many functions, in how many files, does a reader meet who follows `KernelPCA(20, memory="1GB").fit(X)`
from its first line to its last? Counted are the functions, methods and properties of mercer's sources that
run, on whatever thread, in a second fit (the first one loads the code), and how deep they call each other.
Another tree is counted with its sources first on PYTHONPATH, NumPy's tiles with MERCER_NATIVE=off.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import mercer
from mercer import KernelPCA

if TYPE_CHECKING:
    from types import CodeType, FrameType

SOURCES = str(Path(mercer.__file__).parent)
INNER = {"<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<module>"}


class Walk:
    """What a profiler was told: calls of each function of mercer's, and the greatest depth of such calls."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()
        self.depth = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """One event, as `sys.setprofile` gives it."""
        if event != "call" or not _ours(frame.f_code):
            return
        self.calls[frame.f_code] += 1
        depth, above = 0, frame
        while above is not None:
            depth, above = depth + _ours(above.f_code), above.f_back
        self.depth = max(self.depth, depth)

    @property
    def files(self) -> Counter[str]:
        """Functions met in each file."""
        return Counter(code.co_filename.removeprefix(SOURCES + "/") for code in self.calls)


def _ours(code: CodeType) -> bool:
    return code.co_filename.startswith(SOURCES) and code.co_name not in INNER


def walked(n: int, d: int = 20) -> Walk:
    """The walk of one exact fit to n Gaussian rows."""
    x, walk = np.random.default_rng(0).standard_normal((n, d)), Walk()
    KernelPCA(20, memory="1GB").fit(x)
    threading.setprofile(walk)
    sys.setprofile(walk)
    KernelPCA(20, memory="1GB").fit(x)
    sys.setprofile(None)
    threading.setprofile(None)
    return walk


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rows", default=6000, show_default=True, help="Of the fit.")
@click.option("--functions", is_flag=True, help="Each function too, with its calls.")
def main(*, rows: int, functions: bool) -> None:
    """Functions, files and depth of one fit, and the functions met in each file."""
    walk = walked(rows)
    click.echo(f"{len(walk.calls)} functions, {len(walk.files)} files, depth {walk.depth}")
    for name, number in sorted(walk.files.items()):
        click.echo(f"{number:4d} {name}")
        for code, calls in walk.calls.items() if functions else ():
            if code.co_filename == f"{SOURCES}/{name}":
                click.echo(f"     {code.co_qualname} {calls}")


if __name__ == "__main__":
    main()
