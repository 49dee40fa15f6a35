"""`mercer bench`: mercer and scikit-learn side by side, in one run, on this machine."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import platform
import time
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import scipy
import sklearn
from sklearn.datasets import make_blobs
from sklearn.decomposition import KernelPCA as TheirKernelPCA
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

from mercer import KernelPCA, __version__
from mercer._core.memory import format_bytes
from mercer.cli.data import read_training
from mercer.cli.ending import refuse
from mercer.cli.fit_model import as_usage
from mercer.cli.options import flagged
from mercer.cli.verb import Call, verb
from mercer.data.table import Reading
from mercer.engine.resolve import AUTO, DEVICE_KINDS, DEVICES, ENGINES, resolve_engine
from mercer.kernels import RBF
from mercer.planning.plan import TIGHT_TOL
from mercer.planning.problem import SMALL_ROWS
from mercer.solvers import BlockKrylov

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mercer._core.types import Array

MERCER = "mercer"
DENSE_UP_TO = 3000  # rows: beyond, all n eigenpairs take minutes, and nobody wants them
MATRICES = 3  # n x n of them are alive at once in scikit-learn's fit: K, its centred copy, and work
BLOCK = 512  # rows of K at a time when residuals are measured
WARM_ROWS = 200


@verb("seed", "memory", example="mercer bench --rows 500 --repeat 1")
@click.option("--rows", type=click.IntRange(10), help="Made rows: 2000 unless given.")
@click.option(
    "--columns",
    type=click.IntRange(1),
    envvar="MERCER_BENCH_COLUMNS",  # not MERCER_COLUMNS, which are names
    help="Columns of made rows: 20 unless given.",
)
@click.option("--components", type=click.IntRange(1), default=10, help="Components to find.")
@click.option(
    "--repeat", type=click.IntRange(1), default=3, help="Runs of each; the median counts."
)
@click.option("--data", metavar="FILE", help="Rows of a file, standardised, in place of made ones.")
@click.option("--label", metavar="COLUMN", help="Column of the file that is no feature.")
@click.option(
    "--id", "row_id", metavar="COLUMN", help="Another column of the file that is no feature."
)
@click.option(
    "--engine",
    metavar="NAME",
    default=AUTO,
    help=f"Where mercer computes: auto, {', '.join(ENGINES)}, or a device ({', '.join(DEVICES)}).",
)
def bench(
    call: Call, *, components: int, repeat: int, data: str | None, engine: str, **made_or_read: Any
) -> None:
    """Time mercer against scikit-learn on this machine.

    All fit the same rows with the same Gaussian kernel, of median width. A residual is
    ‖K̃u - λu‖/λ₁, for all by the same product; time without it would say nothing.
    """
    as_usage(resolve_engine, engine)
    x, told = _rows(call, data, **made_or_read)
    if components >= len(x):
        refuse(f"--components {components} came, and there are {len(x)} rows: ask for fewer.")
    seed = call.params["seed"]
    kernel: Any = RBF(gamma="median").resolve(x, rng=np.random.default_rng(seed))
    gamma = float(kernel.gamma)
    ours = {"engine": engine, "memory": call.params["memory"]}
    entered = methods(len(x), components, gamma, memory_bytes=call.budget, seed=seed, **ours)
    call.say(f"{told}, {components} components, RBF(gamma={gamma:.4g}); {machine_line()}")
    with call.timed("race"):
        outcomes = race(x, entered, gamma=gamma, repeat=repeat, say=call.say)
    for outcome in outcomes:
        for remark in outcome.remarks:
            call.warn(f"{outcome.name}: {remark}")
    results = {
        "data": told,
        "n": len(x),
        "d": x.shape[1],
        "components": components,
        "gamma": gamma,
        "repeat": repeat,
        "machine": machine(),
        "methods": [_entry(outcome, outcomes[0]) for outcome in outcomes],
        "verdict": verdict(outcomes),
    }
    call.tell(results, f"{table(outcomes)}\n{verdict(outcomes)}")


def _rows(
    call: Call,
    data: str | None,
    *,
    rows: int | None,
    columns: int | None,
    label: str | None,
    row_id: str | None,
) -> tuple[Array, str]:
    """The rows, (n, d), and what they are."""
    strays = {"label": "--label", "row_id": "--id"}
    what = "is of a file, and no --data came"
    if data:
        strays = {"rows": "--rows", "columns": "--columns"}
        what = "is of made rows, and --data came"
    for name, option in strays.items():
        if flagged(name):
            refuse(f"{option} {what}: leave one of the two out.")
    if data is None:
        # Ten Gaussian clouds: neither the easiest spectrum, nor one that nobody meets.
        n, d, seed = rows or 2000, columns or 20, call.params["seed"]
        x = make_blobs(n, d, centers=10, cluster_std=3.0, random_state=seed)[0]
        return StandardScaler().fit_transform(x), f"{n} x {d} made rows, ten clouds"
    call.reading = Reading(label=label, id=row_id)
    x = np.asarray(read_training(call, data, scale="standard")[0].rows, dtype=np.float64)
    return x, f"{len(x)} x {x.shape[1]} rows of {data}"


# ── race ────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Method:
    """A name, and how an unfitted estimator of k components is made; or why it does not take part."""

    name: str
    make: Callable[[], Any]
    left_out: str = ""
    warm_rows: int | None = WARM_ROWS  # None: all


@dataclass(frozen=True)
class Outcome:
    """What one method did: seconds of each run, and the worth of its eigenpairs."""

    name: str
    seconds: tuple[float, ...] = ()
    residual: float | None = None
    peak_bytes: int | None = None  # above what was resident before; None where the system can't say
    left_out: str = ""
    remarks: tuple[str, ...] = ()  # warnings of the fit
    engine: str | None = None  # of mercer's plan

    @property
    def median(self) -> float | None:
        """Median seconds."""
        return float(np.median(self.seconds)) if self.seconds else None


def methods(
    n: int,
    k: int,
    gamma: float,
    *,
    memory_bytes: int,
    seed: int,
    engine: str = AUTO,
    memory: str | None = None,
) -> list[Method]:
    """Everybody who takes part in a race over n rows, mercer first, with its `memory` as it was given."""
    own: dict[str, Any] = {"kernel": RBF(gamma=gamma), "random_state": seed, "engine": engine}
    ours = partial(KernelPCA, k, memory=memory or memory_bytes, **own)
    theirs = partial(TheirKernelPCA, k, kernel="rbf", gamma=gamma, random_state=seed)
    # A device compiles what it runs, and a few rows are not run the same way.
    warm = None if engine.strip().lower().startswith(DEVICE_KINDS) else WARM_ROWS
    listed = [Method(MERCER, ours, warm_rows=warm)]
    if n > SMALL_ROWS:
        # There its choice stops where scores no longer change visibly; this one is nearly as exact as ARPACK.
        tight = partial(ours, solver=BlockKrylov(tol=TIGHT_TOL))
        listed.append(Method(f"{MERCER} tol={TIGHT_TOL:g}", tight, warm_rows=warm))
    need = MATRICES * 8 * n**2
    for solver in ("arpack", "randomized", "dense"):
        reason = ""
        if need > memory_bytes:
            reason = f"it would take about {format_bytes(need)}, beyond --memory"
        elif solver == "dense" and n > DENSE_UP_TO:
            reason = f"all {n} eigenpairs take minutes; it takes part up to {DENSE_UP_TO} rows"
        made = partial(theirs, eigen_solver=solver)
        listed.append(Method(f"scikit-learn {solver}", made, reason))
    return listed


def race(
    x: Array,
    entered: Sequence[Method],
    *,
    gamma: float,
    repeat: int,
    say: Callable[[str], None],
) -> list[Outcome]:
    """Every method `repeat` times, in turns: a machine that slows down slows all of them."""
    runs: dict[str, list[_Run]] = {method.name: [] for method in entered}
    racing = [method for method in entered if not method.left_out]
    for method in racing:  # imports, threads and plans of libraries are not what is asked about
        _run(method, x[: method.warm_rows], warm=True)
    for turn in range(repeat):
        for method in racing:
            runs[method.name].append(_run(method, x))
            say(f"run {turn + 1} of {repeat}: {method.name} {runs[method.name][-1].seconds:.2f} s")
    return [_outcome(method, runs[method.name], x, gamma) for method in entered]


@dataclass(frozen=True)
class _Run:
    model: Any
    seconds: float
    peak_bytes: int | None
    remarks: tuple[str, ...]


def _run(method: Method, x: Array, *, warm: bool = False) -> _Run:
    model = method.make()
    model.n_components = min(model.n_components, len(x) - 1)
    before = None if warm else _mark()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begun = time.perf_counter()
        model.fit(x)
        seconds = time.perf_counter() - begun
    after = None if before is None else max(_resident("VmHWM") - before, 0)
    return _Run(model, seconds, after, tuple(dict.fromkeys(str(w.message) for w in caught)))


def _outcome(method: Method, runs: Sequence[_Run], x: Array, gamma: float) -> Outcome:
    if not runs:
        return Outcome(method.name, left_out=method.left_out)
    model = runs[-1].model
    peaks = [run.peak_bytes for run in runs if run.peak_bytes is not None]
    return Outcome(
        method.name,
        tuple(run.seconds for run in runs),
        residual(x, gamma, model.eigenvalues_, model.eigenvectors_),
        int(np.median(peaks)) if peaks else None,
        remarks=runs[-1].remarks,
        engine=getattr(getattr(model, "plan_", None), "engine", None),
    )


def residual(x: Array, gamma: float, values: Array, vectors: Array) -> float:
    """max_i ‖K̃u_i - λ_i u_i‖ / λ_1, for everybody by the same product, with scikit-learn's kernel.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.0], [1.0]])  # K̃ has one eigenvalue, 1 - exp(-1), with u = (1, -1)/√2
    >>> u = np.array([[1.0], [-1.0]]) / np.sqrt(2)
    >>> residual(x, 1.0, np.array([1 - np.exp(-1.0)]), u) < 1e-15
    True
    """
    u = np.asarray(vectors, dtype=np.float64)  # (n, k)
    inner = u - u.mean(axis=0)  # HU
    product = np.vstack(
        [rbf_kernel(x[i : i + BLOCK], x, gamma=gamma) @ inner for i in range(0, len(x), BLOCK)]
    )  # (n, k)
    product -= product.mean(axis=0)
    error = product - u * np.asarray(values, dtype=np.float64)
    return float(np.linalg.norm(error, axis=0).max() / np.max(values))


# ── memory ──────────────────────────────────────────────────────────────────
def _mark() -> int | None:
    """Set the system's high-water mark back, where it can be, and tell what is resident now."""
    gc.collect()
    # Freed heap pages that are still resident would hide what a fit takes again.
    with contextlib.suppress(OSError, AttributeError):  # where there is no glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _resident("VmRSS")
    except (OSError, ValueError):  # not Linux, or not allowed
        return None


def _resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    msg = f"no {field} in /proc/self/status"
    raise OSError(msg)


# ── tell ────────────────────────────────────────────────────────────────────
def _entry(outcome: Outcome, ours: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "left_out": outcome.left_out or None,
        "engine": outcome.engine,
        "seconds": list(outcome.seconds),
        "median_seconds": outcome.median,
        "ratio": ratio(outcome, ours),
        "residual": outcome.residual,
        "peak_bytes": outcome.peak_bytes,
        "warnings": list(outcome.remarks),
    }


def ratio(outcome: Outcome, ours: Outcome) -> float | None:
    """Its time in units of mercer's: below 1 it was faster than mercer."""
    if outcome.median is None or not ours.median:
        return None
    return outcome.median / ours.median


def table(outcomes: Sequence[Outcome]) -> str:
    """Plain ASCII, at most 80 characters wide; who was left out stands below with the reason."""
    lines = [f"{'':<24}{'seconds':>10}{'of mercer':>11}{'residual':>11}{'peak memory':>14}"]
    for outcome in outcomes:
        if outcome.left_out:
            continue
        share = ratio(outcome, outcomes[0])
        peak = "?" if outcome.peak_bytes is None else format_bytes(outcome.peak_bytes)
        lines.append(
            f"{outcome.name:<24}{outcome.median:>10.3f}{f'x {share:.2f}':>11}"
            f"{outcome.residual:>11.1e}{peak:>14}"
        )
    lines += [f"{o.name}: left out, {o.left_out}" for o in outcomes if o.left_out]
    return "\n".join(lines)


def verdict(outcomes: Sequence[Outcome]) -> str:
    """Who was fastest, also where it was not mercer, and at which residual."""
    ran = [outcome for outcome in outcomes if outcome.median]
    theirs = [outcome for outcome in ran if not outcome.name.startswith(MERCER)]
    ours = ran[0]
    if not theirs:
        return "Nobody ran beside mercer: this was no comparison."
    best = min(theirs, key=lambda outcome: outcome.median or 0.0)
    share = ratio(best, ours) or 1.0
    if share >= 1.0:
        text = f"mercer was the fastest: {best.name} took {share:.2g} times as long"
    else:
        text = f"mercer was slower: {best.name} took {share:.0%} of its time"
    return f"{text} (residuals {ours.residual:.0e} and {best.residual:.0e})."


# ── where ───────────────────────────────────────────────────────────────────
def machine() -> dict[str, Any]:
    """What the figures hold for."""
    blas = [info for info in threadpool_info() if info.get("user_api") == "blas"]
    return {
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "blas_threads": max((info["num_threads"] for info in blas), default=None),
        "blas": sorted({str(info.get("internal_api")) for info in blas}),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit_learn": sklearn.__version__,
        "mercer": __version__,
    }


def machine_line() -> str:
    """The same in a few words."""
    facts = machine()
    return (
        f"{facts['cpus']} CPUs, {facts['blas_threads']} BLAS threads, "
        f"NumPy {facts['numpy']}, scikit-learn {facts['scikit_learn']}"
    )
