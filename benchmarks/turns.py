"""Two versions of mercer in turns: ``python -m benchmarks.turns OLD_SRC --help``.

Each line is run by two processes, one over each source tree, which take turns run by run, so that whatever
else the machine does hits both alike. The result is the median of the ratios of neighbouring runs, with an
interval of order statistics that holds the true median with 95 %, whatever the noise is. Lines of `make
scale` on real data need the variable MERCER_BENCHMARK_DATA, a folder with the files.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from scipy.stats import binom

from benchmarks.cases import headline
from benchmarks.competitors import competitors
from benchmarks.data import SEED, kernel_gamma, load
from benchmarks.memory import PeakMemory
from benchmarks.scale.case import Job, Setting
from benchmarks.scale.data import load as load_scale
from benchmarks.scale.data import width
from benchmarks.scale.entrants import ENTRANTS, settled
from benchmarks.scale.questions import QUESTIONS
from benchmarks.scale.tasks.product import a_product

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.case import Case

ROOT = Path(__file__).resolve().parents[1]
SERVE = "--serve"
DATA = os.environ.get("MERCER_BENCHMARK_DATA")  # a folder with the real data of `make scale`


# ── lines: a name, and what makes its job in a fresh process ────────────────
def _points(n: int, d: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(SEED).standard_normal((n, d)).astype(dtype)


def fit_of_case(case: Case) -> Callable[[], Any]:
    """A line of the headline benchmark."""
    x = load(case)
    gamma = kernel_gamma(case, x)
    return lambda: competitors(case)["mercer"](case, gamma).fit(x)


def fit(n: int, d: int, dtype: str = "float64", **params: Any) -> Callable[[], Any]:
    """A fit to Gaussian rows."""
    from mercer import KernelPCA

    x = _points(n, d, dtype)
    return lambda: KernelPCA(**{"n_components": 20, "random_state": 0, **params}).fit(x)


def low_rank(
    n: int, d: int, rank: int, dtype: str = "float64", which: str = "rpcholesky"
) -> Callable[[], Any]:
    """A low-rank fit."""
    from mercer.approximations import APPROXIMATIONS
    from mercer.kernels import RBF

    return fit(n, d, dtype, kernel=RBF(0.5 / d), approximation=APPROXIMATIONS[which](rank))


def streamed(n: int, d: int, batch: int) -> Callable[[], Any]:
    """A stream of batches."""
    from mercer import IncrementalKernelPCA

    x = _points(n, d)

    def run() -> Any:
        model = IncrementalKernelPCA(10, random_state=0)
        for start in range(0, n, batch):
            model.partial_fit(x[start : start + batch])
        return model

    return run


def scores(n: int, d: int, new: int) -> Callable[[], Any]:
    """The scores of new rows."""
    model, x = fit(n, d)(), _points(n + new, d)[n:]
    return lambda: model.transform(x)


def past_memory(job: Job) -> Callable[[], Any]:
    """A line of the benchmark past memory: a fit, or one product."""
    x = load_scale(job.case, DATA)
    gamma = width(job.case, x)
    if job.task == "product":
        product = a_product(x, gamma, n_threads=len(os.sched_getaffinity(0)))
        return lambda: product.fit(x)
    options = settled(job.who, job.case, gamma, job.options, x)
    return lambda: ENTRANTS[job.who](job.case, gamma, options).fit(x)


def past_memory_jobs() -> dict[str, Job]:
    """Mercer's own lines of the benchmark past memory: what has a clock, once each."""
    setting = Setting(folder=DATA)
    asked = (job for question in QUESTIONS.values() for job in question.jobs(setting))
    return {
        f"past memory: {job.who.removeprefix('mercer').lstrip(' ,')}, {job.name}": job
        for job in asked
        if job.who.startswith("mercer") and job.task in ("fit", "product")
    }


LINES: dict[str, Callable[[], Callable[[], Any]]] = {
    **{
        case.name: partial(fit_of_case, case)
        for case in headline(("gaussian", "decaying"), large=False)
    },
    **{f"fit n={n} d=20 k=5": partial(fit, n, 20, n_components=5) for n in (50, 200, 300, 500)},
    # In two columns many pairs are near, and of each block of pairs some are computed from differences.
    **{f"fit n={n} d=2 k=20": partial(fit, n, 2) for n in (1000, 1500, 4000)},
    "matern n=4000": partial(fit, 4000, 20, kernel="matern(nu=1.5)"),
    "laplacian n=4000": partial(fit, 4000, 20, kernel="laplacian"),
    "float32, 80 MB, n=12000": partial(fit, 12_000, 50, "float32", memory="80MB"),
    "ridge pre-image n=1000": partial(fit, 1000, 20, preimage="ridge"),
    "RPCholesky(300) n=50000": partial(low_rank, 50_000, 20, 300),
    "RPCholesky(500) n=50000": partial(low_rank, 50_000, 20, 500),
    "Nystrom(500) n=50000": partial(low_rank, 50_000, 20, 500, which="nystrom"),
    "Nystrom(500) n=300000 float32": partial(low_rank, 300_000, 20, 500, "float32", "nystrom"),
    "stream 20 x 1000": partial(streamed, 20_000, 20, 1000),
    "scores 2000 against 5000": partial(scores, 5000, 50, 2000),
    "scores 1 against 1000": partial(scores, 1000, 20, 1),
    **{name: partial(past_memory, job) for name, job in past_memory_jobs().items()},
}


def serve(name: str) -> None:
    """The side of one version: a result a line that is read, until there are no more."""
    warnings.simplefilter("ignore")
    job, memory = LINES[name](), PeakMemory()
    job()  # loads the code on the way
    print("ready", flush=True)
    for _ in sys.stdin:
        memory.start()
        started = time.perf_counter()
        job()
        seconds = time.perf_counter() - started
        print(json.dumps([seconds, memory.stop()]), flush=True)


# ── the other side ──────────────────────────────────────────────────────────
class Version:
    """A process that runs one line over one source tree, on request."""

    def __init__(self, src: Path, name: str) -> None:
        # A tree with these lines runs its own: they may call what another version does not have.
        own = src.parent if (src.parent / "benchmarks" / "turns.py").is_file() else ROOT
        path = os.pathsep.join([str(src), str(own)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.turns", SERVE, name],
            cwd=own,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._heard()

    def run(self) -> tuple[float, int]:
        """Seconds and peak bytes of one run."""
        assert self.process.stdin is not None
        print("go", file=self.process.stdin, flush=True)
        seconds, peak = json.loads(self._heard())
        return seconds, peak

    def end(self) -> None:
        """No more runs."""
        self.process.communicate()

    def _heard(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.end()
            msg = f"The process ended with {self.process.returncode}; its error is above."
            raise click.ClickException(msg)
        return line


@dataclass(frozen=True)
class Turns:
    """What the turns of one line have shown: new over old."""

    old: list[tuple[float, int]]
    new: list[tuple[float, int]]

    @property
    def ratios(self) -> list[float]:
        """Time of new over that of its neighbour, in order of size."""
        return sorted(b[0] / a[0] for a, b in zip(self.old, self.new, strict=True))

    @property
    def interval(self) -> tuple[float, float]:
        """Holds the median of the ratios with at least 95 %, whatever their distribution."""
        out = max(0, int(binom.ppf(0.025, len(self.old), 0.5)) - 1)
        return self.ratios[out], self.ratios[-1 - out]

    def __str__(self) -> str:
        times = (statistics.median(run[0] for run in side) for side in (self.old, self.new))
        peaks = [max(run[1] for run in side) for side in (self.old, self.new)]
        peak = f"{peaks[1] / peaks[0]:.2f}" if peaks[0] > 5e6 else "-"  # pages, below
        low, high = self.interval
        found = [f"{1e3 * t:.4g}" for t in times]
        found += [f"{statistics.median(self.ratios):.3f}", f"{low:.2f} to {high:.2f}"]
        return " | ".join([*found, f"{peaks[1] / 1e6:.1f}", peak])


def compare(old: Path, new: Path, name: str, *, seconds: float, most: int, least: int = 7) -> Turns:
    """Turns of one line until `seconds` are spent, but `least` of them at least."""
    sides = [Version(src, name) for src in (old, new)]
    runs: list[list[tuple[float, int]]] = [[], []]
    started = time.perf_counter()
    while len(runs[0]) < least or (len(runs[0]) < most and time.perf_counter() - started < seconds):
        for i in (0, 1) if len(runs[0]) % 2 else (1, 0):  # none is always the first
            runs[i].append(sides[i].run())
    for side in sides:
        side.end()
    return Turns(*runs)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("old", type=click.Path(exists=True, path_type=Path))
@click.option("--new", type=click.Path(exists=True, path_type=Path), default=ROOT / "src")
@click.option("--line", "words", multiple=True, help="Only lines with these words.")
@click.option("--seconds", default=8.0, show_default=True, help="For each line.")
@click.option("--least", default=7, show_default=True, help="Turns of a line at least.")
@click.option("--most", default=61, show_default=True, help="Turns of a line at most.")
@click.option(
    "--part", default="1/1", show_default=True, help="Every m-th line from the k-th: k/m."
)
def main(
    *,
    old: Path,
    new: Path,
    words: tuple[str, ...],
    seconds: float,
    least: int,
    most: int,
    part: str,
) -> None:
    """Times and peaks of two source trees, OLD and this one, in turns."""
    click.echo("| line | old ms | new ms | new / old | 95 % | peak MB | peak / old |")
    click.echo("| :-- | --: | --: | --: | :-- | --: | --: |")
    first, step = map(int, part.split("/"))
    for name in [name for name in LINES if all(word in name for word in words)][first - 1 :: step]:
        found = compare(old.resolve(), new.resolve(), name, seconds=seconds, least=least, most=most)
        click.echo(f"| {name} | {found} |")


if __name__ == "__main__":
    if sys.argv[1:2] == [SERVE]:
        serve(sys.argv[2])
    else:
        main()
