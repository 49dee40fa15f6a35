"""Few rows, against scikit-learn: ``python -m benchmarks.small --help``.

Below a few thousand rows a fit takes milliseconds, and a process of its own for each measurement would time
its own start. Here all sides take turns in one process, run by run, and the table has their medians. The
residual of each side stands beside its time: all are asked for the same eigenpairs of the same matrix.
"""

from __future__ import annotations

import gc
import statistics
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.accuracy import eigen_accuracy, rbf_tile
from benchmarks.case import Case
from benchmarks.clock import in_turns
from benchmarks.competitors import KERNEL_PCA, LINEAR_PCA, MERCER
from benchmarks.data import SEED, gaussian, kernel_gamma, load

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, COMPONENTS, COLUMNS = (50, 100, 200, 300, 500, 1000, 2000), (2, 20), (2, 20, 200)
THEIRS = ("sklearn auto", "sklearn arpack")
LEAST, MOST = 15, 301  # turns of a line
SECONDS = 2.0  # of a line, unless the fewest turns take longer


@dataclass(frozen=True)
class Line:
    """What mercer and scikit-learn do in turns: a job of each side by name, and how right its answer is."""

    name: str
    jobs: dict[str, Callable[[], Any]]
    residual: Callable[[Any], float] | None = None

    def measured(self, seconds: float, least: int) -> str:
        """A row of the table."""
        answers = {who: job() for who, job in self.jobs.items()}  # and its code is loaded
        times = in_turns(self.jobs, lambda n, spent: n < least or (n < MOST and spent < seconds))
        medians = {who: 1e3 * statistics.median(spent) for who, spent in times.items()}
        own = medians.pop(MERCER)
        ratio = min(medians.values()) / own
        theirs = [f"{medians[who]:.3g}" if who in medians else "-" for who in THEIRS]
        told = [
            "-" if self.residual is None else f"{self.residual(a):.0e}" for a in answers.values()
        ]
        return " | ".join([self.name, f"{own:.3g}", *theirs, f"{ratio:.2f}", ", ".join(told)])


# ── the grid ────────────────────────────────────────────────────────────────
def fits(n: int, k: int, d: int) -> Line:
    """Fits of an RBF kernel of the same width."""
    case = Case("rbf", "gaussian", n, d, k)
    x = load(case)
    gamma = kernel_gamma(case, x)

    def residual(model: Any) -> float:
        found = eigen_accuracy(rbf_tile(gamma), x, model.eigenvalues_, model.eigenvectors_)
        return found.residual

    who = (MERCER, *THEIRS)
    jobs = {name: partial(_fit, partial(KERNEL_PCA[name], case, gamma), x) for name in who}
    return Line(f"n={n} d={d} k={k}", jobs, residual)


def _fit(make: Callable[[], Any], x: np.ndarray) -> Any:
    return make().fit(x)


# ── beside fits ─────────────────────────────────────────────────────────────
def scores_of_a_row() -> Line:
    """`transform` of one row against a thousand points."""
    case = Case("rbf", "gaussian", 1000, 20, 20)
    x = load(case)
    gamma, new = kernel_gamma(case, x), gaussian(1, case.d, np.random.default_rng(SEED + 1))
    models = {who: KERNEL_PCA[who](case, gamma).fit(x) for who in (MERCER, THEIRS[0])}
    jobs = {who: partial(model.transform, new) for who, model in models.items()}
    return Line("transform of 1 row, 1000 points", jobs)


def share(n: int) -> Line:
    """95 % of the variance, of which scikit-learn needs all of the spectrum first."""
    from mercer import KernelPCA
    from mercer.kernels import RBF

    case = Case("rbf", "gaussian", n, 5, None)
    x = load(case)
    gamma = kernel_gamma(case, x)
    own = partial(_fit, lambda: KernelPCA(0.95, kernel=RBF(gamma=gamma), random_state=0), x)
    theirs = partial(_fit, partial(KERNEL_PCA[THEIRS[0]], case, gamma), x)
    return Line(f"KernelPCA(0.95), n={n} d=5 (theirs: all)", {MERCER: own, THEIRS[0]: theirs})


def pca() -> Line:
    """PCA of many rows with few columns."""
    case = Case("linear", "gaussian", 20_000, 20, 10)
    x = load(case)
    own, theirs = (partial(LINEAR_PCA[who], case, 0.0) for who in (MERCER, "sklearn PCA"))
    return Line(
        "PCA(10), n=20000 d=20",
        {MERCER: partial(_fit, own, x), THEIRS[0]: partial(_fit, theirs, x)},
    )


def search(n: int) -> Line:
    """A search for the width by the accuracy of logistic regression: 12 widths, 3 folds."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    x = gaussian(n, 10, np.random.default_rng(SEED))
    y = np.sum(x**2, axis=1) > np.median(np.sum(x**2, axis=1))
    widths = np.geomspace(1e-3, 1.0, 12)

    def run(who: str, name: str) -> Any:
        first = KERNEL_PCA[who](Case("rbf", "gaussian", n, 10, 5), 1.0)
        pipe = make_pipeline(first, LogisticRegression())
        return GridSearchCV(pipe, {f"kernelpca__{name}": widths}, cv=3).fit(x, y)

    jobs = {
        MERCER: partial(run, MERCER, "kernel__gamma"),
        THEIRS[0]: partial(run, THEIRS[0], "gamma"),
    }
    return Line(f"GridSearchCV, 12 widths x 3 folds, n={n}", jobs)


def ridge(n: int) -> Line:
    """A fit with pre-images; mercer's chooses penalty and width by itself."""
    case = Case("rbf", "gaussian", n, 20, 20)
    x = load(case)
    gamma = kernel_gamma(case, x)
    own = partial(_fit, lambda: KERNEL_PCA[MERCER](case, gamma).set_params(preimage="ridge"), x)
    jobs = {MERCER: own}
    for who in THEIRS:
        made = lambda who=who: KERNEL_PCA[who](case, gamma).set_params(fit_inverse_transform=True)  # noqa: E731
        jobs[who] = partial(_fit, made, x)
    return Line(f"fit with pre-images, n={n} d=20 k=20", jobs)


def lines(*, quick: bool) -> dict[str, Callable[[], Line]]:
    """The lines by name, each made when its turn comes."""
    grid = product((50, 200) if quick else ROWS, COMPONENTS, COLUMNS[:2] if quick else COLUMNS)
    found = {f"fit n={n} k={k} d={d}": partial(fits, n, k, d) for n, k, d in grid}
    found["transform"] = scores_of_a_row
    found["PCA"] = pca
    for n in (200,) if quick else (200, 500, 1000, 2000):
        found[f"share n={n}"] = partial(share, n)
    for n in (200,) if quick else (200, 500):
        found[f"GridSearchCV n={n}"] = partial(search, n)
    for n in (200,) if quick else (200, 500, 1000):
        found[f"ridge n={n}"] = partial(ridge, n)
    return found


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--threads", type=int, help="Of BLAS, on both sides; by default as the environment has it."
)
@click.option("--quick", is_flag=True, help="Few lines and few turns: does it run?")
@click.option("--line", "words", multiple=True, help="Only lines with these words.")
@click.option("--seconds", default=SECONDS, show_default=True, help="For each line.")
def main(*, threads: int | None, quick: bool, words: tuple[str, ...], seconds: float) -> None:
    """Milliseconds of mercer and scikit-learn in turns; a ratio above 1 says that mercer is faster."""
    warnings.simplefilter("ignore")
    click.echo(f"| line | mercer ms | {' ms | '.join(THEIRS)} ms | ratio | residuals |")
    click.echo("| :-- | --: | --: | --: | --: | :-- |")
    limits = nullcontext() if threads is None else threadpool_limits(threads)
    with limits:
        for name, make in lines(quick=quick).items():
            if all(set(word.split()) <= set(name.split()) for word in words):
                gc.collect()
                click.echo(
                    f"| {make().measured(0.2 if quick else seconds, 3 if quick else LEAST)} |"
                )


if __name__ == "__main__":
    main()
