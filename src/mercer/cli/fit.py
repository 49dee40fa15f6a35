"""`mercer fit` and `mercer plan`: a model of the rows of a file with its evidence, and what it would cost."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from math import isnan
from typing import Any

import click

from mercer._core.errors import many
from mercer._core.memory import format_bytes
from mercer._core.wording import brief
from mercer.app.estimator import ALL, ESTIMATORS, TABLES, takes
from mercer.app.fit import FitRequest, Planned, PlanRequest
from mercer.cli.ending import ALARM, OK, refuse
from mercer.cli.options import WEIGHTS, Read, flagged, option
from mercer.cli.verb import Call, under, verb
from mercer.engine.resolve import DEVICES, ENGINES

EXAMPLE = """
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label --kernel "rbf(gamma=10)" --scale none -o model.mercer
"""
SHOWN = 10  # components in a table for people
KINDS = {
    "KernelPCA": "kernel PCA",
    "PCA": "linear PCA",
    "KernelPCADetector": "a detector on kernel PCA",
    "IncrementalKernelPCA": "kernel PCA of a stream",
}


# ── the options of a model ──────────────────────────────────────────────────
def _components(value: Any) -> int | float | str | None:
    """`3` as a number, `0.95` as a share; `all` stays a word, for None is an option not given."""
    text = str(value).strip().lower()
    if text == ALL:
        return ALL
    try:
        found = int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return None
    fine = found >= 1 if isinstance(found, int) else 0.0 < found <= 1.0
    return found if fine else None


COMPONENTS = Read(
    "NUMBER|SHARE|all",
    "a whole number from 1, a share of the variance such as 0.95, or all",
    _components,
)


def _lags(value: Any) -> int | str | None:
    """`2` as a number; `auto` stays a word."""
    text = str(value).strip().lower()
    return text if text == "auto" else int(text) if text.isdecimal() else None


LAGS = Read("NUMBER|auto", "a number of rows such as 2, or auto", _lags)


def _share(value: Any) -> float | None:
    """A number between 0 and 1."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if 0.0 < found < 1.0 else None


SHARE = Read("SHARE", "a share between 0 and 1, such as 0.05", _share)
MODEL = (
    option(
        "--model kind",
        "Kernel PCA, linear PCA, a detector for `mercer monitor`, or kernel PCA in one pass.",
        list(ESTIMATORS),
        default="kpca",
    ),
    option(
        "--kernel",
        'As in Python, such as "rbf(gamma=0.5) + 0.1*linear()"; an RBF of median width otherwise. '
        "precomputed: the file is the kernel matrix.",
    ),
    option(
        "--components -k",
        "How many, or which share of the variance to keep; 2 (pca: all, detector: 0.99) otherwise.",
        COMPONENTS,
    ),
    option("--preimage", f"Pre-images, for `mercer reconstruct`: {', '.join(TABLES['preimage'])}."),
    WEIGHTS,
)
SOLVING = (
    option(
        "--approximation",
        "Such as rpcholesky(rank=500), nystrom(landmarks=500) or fourier(); exact otherwise.",
    ),
    option("--refine", "Exact passes after an approximation.", click.IntRange(0)),
    option("--solver", "auto, lapack, lanczos, krylov, or krylov(tol=1e-10)."),
    option("--landmarks", "Most rows that --model incremental keeps.", click.IntRange(1)),
    option(
        "--engine",
        f"Where to compute: auto, {', '.join(ENGINES)}:tcp://host:8786 (a Dask scheduler), or a device "
        f"({', '.join(DEVICES)}).",
        "NAME",
    ),
)
DETECTOR = (
    option(
        "--false-alarm", "Share of normal rows that a detector may flag.", SHARE, metavar="SHARE"
    ),
    option(
        "--contamination",
        "Share of training rows that are not normal.",
        click.FloatRange(0, 0.5, min_open=True, max_open=True),
        metavar="SHARE",
    ),
    option("--statistic", "What a detector decides by.", ["combined", "T2", "Q"]),
    option(
        "--limits", "Where the limits of a detector come from.", ["cross-validation", "approximate"]
    ),
    option("--folds", "Stretches of rows held out for the limits; 5 otherwise.", click.IntRange(2)),
    option(
        "--wild",
        "Whether a detector sets rows with wild readings aside, as otherwise, or keeps them.",
        ["aside", "keep"],
    ),
    option(
        "--lags", "Earlier rows judged beside each; auto: by prediction of held-out rows.", LAGS
    ),
    option(
        "--differences", "Write earlier rows as differences from row to row.", bool, default=None
    ),
    option(
        "--smoothing",
        "Weight of the newest row in a moving mean that a detector judges in its place.",
        SHARE,
        metavar="WEIGHT",
    ),
    option(
        "--confidence",
        "How sure the rate of false alarms is to hold, by blocks of held-out rows.",
        click.FloatRange(0.5, 1, min_open=True, max_open=True),
        metavar="SHARE",
    ),
)


def model_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a model, under their headings."""
    for heading, options in (("Detector", DETECTOR), ("Solution", SOLVING), ("Model", MODEL)):
        function = under(heading, *options)(function)
    return function


# ── the command ─────────────────────────────────────────────────────────────
def _moved(_ctx: click.Context, _param: click.Parameter, given: bool) -> None:
    if given:
        refuse("--dry-run is a command of its own: mercer plan, with the other options of fit.")


@verb("preparing", "reading", "seed", "memory", example=EXAMPLE)
@click.argument("data")
@model_options
@under(
    "Detector",
    option(
        "--choose",
        "Choose kernel, components, lags and smoothing of a detector, by deviations that are put into "
        "rows held out.",
        bool,
        default=None,
    ),
)
@under(
    "Output",
    option("--output -o", "Where to keep the model, such as model.mercer.", "FILE"),
    option("--checkpoint", "Where a long fit keeps its state, to resume from.", "FILE"),
)
@click.option("--dry-run", is_flag=True, hidden=True, expose_value=False, callback=_moved)
def fit(call: Call, *, data: str, output: str | None, kind: str, **options: Any) -> None:
    """Fit a model to the rows of a file, and keep it in a file.

    DATA is a CSV, TSV, NPY, NPZ, Parquet, Arrow or HDF5 file, a folder of images, or - for stdin. Columns
    are standardised unless --scale none is given; what was done to them is part of the model.
    """
    del data
    fitted = call.run(call.request(FitRequest, **own(call, kind, options))).value
    if output is None:
        call.say("nothing was written: give -o model.mercer to keep the model")
    call.tell(fitted.facts, fit_text(fitted.facts))


def own(call: Call, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """Without what mercer.toml or the environment say for other models; a flag of these is a mistake."""
    given = [name for name, value in options.items() if value is not None and not flagged(name)]
    if others := {name for name in given if not takes(kind, name)}:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(others))
        call.say(
            f"not an option of --model {kind}, and left out: {named} (--show-config says where from)"
        )
    return {name: None if name in others else value for name, value in options.items()}


# ── the evidence for people ─────────────────────────────────────────────────
def fit_text(facts: dict[str, Any]) -> str:
    """What was fitted, the evidence, and a table of the components."""
    kind, n, d = KINDS.get(facts["kind"], facts["kind"]), facts["n"], facts["d"]
    lines = [f"{kind} of {many(n, 'row')} x {many(d, 'feature')}"]
    lines += [f"kernel      {brief(facts['kernel'])}", *facts["evidence"]]
    if "preimage" in facts:
        quality = "" if facts["preimage_quality"] is None else f": {facts['preimage_quality']}"
        lines.append(f"pre-images  {brief(facts['preimage'])}{quality}")
    if "limits" in facts:
        lines.append(f"limits      {facts['limits']['summary']}")
    return "\n".join([*lines, "", *_table(facts)])


def _table(facts: dict[str, Any]) -> list[str]:
    """A line for each component; its bounds where they say more than the eigenvalue itself."""
    shares, bounds = facts["explained_variance_ratio"], facts["bounds"][:SHOWN]
    between = [_between(low, high) for low, high in bounds]
    width = 25 if any(between) else 0
    lines = [f"component  eigenvalue{'  between' if width else '':>{width}}  variance      sum"]
    columns = (facts["eigenvalues"], between, shares, accumulate(shares))
    for j, (value, gap, share, total) in enumerate(zip(*columns, strict=False)):
        parts = f"{gap:>{width}}  {_percent(share):>8}  {_percent(total):>7}"
        lines.append(f"{j + 1:>9}  {value:>10.4g}{parts}")
    more = len(shares) - SHOWN
    return lines if more <= 0 else [*lines, f"{'…':>9}  and {more} more; --json has them all"]


def _between(low: float, high: float) -> str:
    shown = [f"{bound:.4g}" for bound in (low, high)]
    return "" if shown[0] == shown[1] else " and ".join(shown)


def _percent(share: float) -> str:
    """A share in per cent; unknown where the trace is not positive."""
    return "unknown" if isnan(share) else f"{share:.2%}"


# ── what a fit would do ─────────────────────────────────────────────────────
EXAMPLE_PLAN = """
mercer demo --csv circles.csv
mercer plan circles.csv --id id --label label --components 20 --memory 1GB
"""


@verb("preparing", "reading", "seed", "memory", example=EXAMPLE_PLAN)
@click.argument("data")
@model_options
def plan(call: Call, *, data: str, kind: str, **options: Any) -> int:
    """What a fit would do: route, bytes, products and seconds. Fits nothing.

    Rows of an NPY file stay in it: only its head and a few rows are read. About a second goes into timing
    the kernel on some of the rows. Where --memory does not hold the fit, an approximation that it holds is
    planned too, and the exit code is 4.
    """
    del data
    planned = call.run(call.request(PlanRequest, **own(call, kind, options))).value
    call.tell(planned.facts, plan_text(planned))
    return OK if planned.fits else ALARM


def plan_text(planned: Planned) -> str:
    """The plan for people; why there is none is a finding."""
    (n, d), model, facts = planned.shape, planned.model, planned.facts
    kind = KINDS[type(model).__name__]
    size = f"{many(n, 'row')} x {many(d, 'feature')} ({planned.dtype})"
    components = "all" if model.n_components is None else model.n_components
    lines = [f"{kind} of {size} in {format_bytes(planned.budget)}"]
    lines.append(f"kernel {brief(facts['kernel'])}, components {components}")
    if planned.plan is not None:
        lines.append(str(planned.plan))
    if not planned.fits:
        lines.append("This does not fit.")
    if planned.remedy is not None:
        lines.append(f'This fits: --approximation "{planned.remedy.value}"')
        lines.append(str(planned.alternative))
    return "\n".join([*lines, *(f"  {note}" for note in planned.notes)])
