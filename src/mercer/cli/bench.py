"""`mercer bench`: mercer and scikit-learn side by side, in one run, on this machine."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import scipy
import sklearn
from sklearn.datasets import make_blobs
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

from mercer import __version__
from mercer._core.memory import format_bytes, parse_bytes
from mercer.cli.bench_run import MERCER, Outcome, methods, race
from mercer.cli.data import read_training
from mercer.cli.frame import verb
from mercer.cli.option_types import flagged
from mercer.kernels import RBF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercer._core.types import Array
    from mercer.cli.frame import Talk


@verb(example="mercer bench --rows 500 --repeat 1", seed=True, memory=True)
@click.option("--rows", type=click.IntRange(10), help="Made rows: 2000 unless given.")
@click.option(
    "--columns",
    type=click.IntRange(1),
    envvar="MERCER_BENCH_COLUMNS",  # not MERCER_COLUMNS, which are names
    help="Columns of made rows: 20 unless given.",
)
@click.option(
    "--components",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Components to find.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Runs of each; the median counts.",
)
@click.option("--data", metavar="FILE", help="Rows of a file, standardised, in place of made ones.")
@click.option("--label", metavar="COLUMN", help="Column of the file that is no feature.")
@click.option(
    "--id", "row_id", metavar="COLUMN", help="Another column of the file that is no feature."
)
def bench(
    talk: Talk,
    *,
    components: int,
    repeat: int,
    data: str | None,
    seed: int,
    memory: str,
    **made: Any,
) -> None:
    """Time mercer against scikit-learn on this machine.

    All fit the same rows with the same Gaussian kernel, of median width. A residual is
    ‖K̃u - λu‖/λ₁, for all by the same product; time without it would say nothing.
    """
    memory_bytes = parse_bytes(memory)
    x, told = _rows(talk, data, seed, memory, **made)
    if components >= len(x):
        msg = f"--components {components} came, and there are {len(x)} rows: ask for fewer."
        raise click.UsageError(msg)
    gamma = _median_gamma(x, seed)
    entered = methods(len(x), components, gamma, memory_bytes=memory_bytes, seed=seed)
    talk.say(f"{told}, {components} components, RBF(gamma={gamma:.4g}); {machine_line()}")
    with talk.timed("race"):
        outcomes = list(race(x, entered, gamma=gamma, repeat=repeat, say=talk.say))
    for outcome in outcomes:
        for remark in outcome.remarks:
            talk.warn(f"{outcome.name}: {remark}")
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
    talk.tell(results, f"{table(outcomes)}\n{verdict(outcomes)}")


# ── rows ────────────────────────────────────────────────────────────────────
def _rows(
    talk: Talk,
    data: str | None,
    seed: int,
    memory: str,
    *,
    rows: int | None,
    columns: int | None,
    label: str | None,
    row_id: str | None,
) -> tuple[Array, str]:
    """The rows, (n, d), and what they are."""
    strays = (
        {"rows": "--rows", "columns": "--columns"}
        if data
        else {"label": "--label", "row_id": "--id"}
    )
    for name, option in strays.items():
        if flagged(name):
            what = (
                "is of made rows, and --data came" if data else "is of a file, and no --data came"
            )
            msg = f"{option} {what}: leave one of the two out."
            raise click.UsageError(msg)
    if data is None:
        return _made(rows or 2000, columns or 20, seed)
    return _read(talk, data, label, row_id, memory)


def _made(n: int, d: int, seed: int) -> tuple[Array, str]:
    """Ten Gaussian clouds: neither the easiest spectrum, nor one that nobody meets."""
    x = make_blobs(n, d, centers=10, cluster_std=3.0, random_state=seed)[0]
    return StandardScaler().fit_transform(x), f"{n} x {d} made rows, ten clouds"


def _median_gamma(x: Array, seed: int) -> float:
    resolved: Any = RBF(gamma="median").resolve(x, rng=np.random.default_rng(seed))
    return float(resolved.gamma)


def _read(
    talk: Talk, path: str, label: str | None, row_id: str | None, memory: str
) -> tuple[Array, str]:
    from mercer.data.table import Reading

    sheet, _ = read_training(talk, path, Reading(label=label, id=row_id), memory)
    x = np.asarray(sheet.rows, dtype=np.float64)
    return x, f"{len(x)} x {x.shape[1]} rows of {path}"


# ── tell ────────────────────────────────────────────────────────────────────
def _entry(outcome: Outcome, ours: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "left_out": outcome.left_out or None,
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
