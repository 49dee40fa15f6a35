"""What a reader meets who follows one call: ``python -m benchmarks.walk [spine|fit|report|load]``.

How many functions, in how many files, run between the first line of a call and its last? Counted are the
functions, methods and properties of mercer's sources, on whatever thread, in the second of two calls (the
first one loads the code), how deep they call each other, and how often each data or model file is opened.

spine   `KernelPCA(20, memory="1GB").fit(X)`
fit     `mercer fit data.csv --id id -o model.mercer`
report  `mercer report model.mercer data.csv -o report.html`
load    `mercer.load("model.mercer")`

Another tree is counted with its sources first on PYTHONPATH, NumPy's tiles with MERCER_NATIVE=off.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import mercer
from mercer import KernelPCA
from mercer.cli.main import main as mercer_command

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

SOURCES = str(Path(mercer.__file__).parent)
INNER = {"<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<module>"}
CALLS = ("spine", "fit", "report", "load")


class Walk:
    """What a profiler was told: calls of each function of mercer's, and the greatest depth of such calls."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()
        self.opened: Counter[str] = Counter()
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


def walked(call: Callable[[], Any]) -> Walk:
    """The walk of a call that was made once before."""
    walk, on = Walk(), [False]
    call()

    def opening(event: str, args: tuple[Any, ...]) -> None:
        if on[0] and event == "open" and str(args[0]).endswith((".csv", ".mercer", ".html")):
            walk.opened[Path(args[0]).name] += 1

    sys.addaudithook(opening)
    threading.setprofile(walk)
    sys.setprofile(walk)
    on[0] = True
    call()
    on[0] = False
    sys.setprofile(None)
    threading.setprofile(None)
    return walk


def the_call(name: str, n: int, folder: Path, d: int = 20) -> Callable[[], Any]:
    """The call of this name, on Gaussian rows."""
    x = np.random.default_rng(0).standard_normal((n, d))
    if name == "spine":
        return partial(KernelPCA(20, memory="1GB").fit, x)
    data, model, report = (str(folder / own) for own in ("data.csv", "model.mercer", "report.html"))
    header = ",".join(["id", *(f"x{j}" for j in range(d))])
    rows = np.column_stack([np.arange(n), x])
    np.savetxt(data, rows, delimiter=",", header=header, comments="")
    fit = partial(_command, ["fit", data, "--id", "id", "-o", model, "--quiet"])
    if name == "fit":
        return fit
    fit()
    if name == "report":
        return partial(_command, ["report", model, data, "-o", report, "--quiet"])
    return partial(mercer.load, model)


def _command(args: list[str]) -> None:
    with redirect_stdout(StringIO()):
        mercer_command(args, standalone_mode=False)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("call", type=click.Choice(CALLS), default="spine")
@click.option("--rows", type=int, help="Of the data: 6000 for the spine, 400 for the others.")
@click.option("--functions", is_flag=True, help="Each function too, with its calls.")
def main(*, call: str, rows: int | None, functions: bool) -> None:
    """Functions, files and depth of one call, and the functions met in each file."""
    n = rows or (6000 if call == "spine" else 400)
    with tempfile.TemporaryDirectory() as folder:
        walk = walked(the_call(call, n, Path(folder)))
    of = len(list(Path(SOURCES).rglob("*.py")))
    click.echo(f"{len(walk.calls)} functions, {len(walk.files)} of {of} files, depth {walk.depth}")
    for name, number in sorted(walk.opened.items()):
        click.echo(f"{name} opened {number} times")
    for name, number in sorted(walk.files.items()):
        click.echo(f"{number:4d} {name}")
        for code, calls in walk.calls.items() if functions else ():
            if code.co_filename == f"{SOURCES}/{name}":
                click.echo(f"     {code.co_qualname} {calls}")


if __name__ == "__main__":
    main()
