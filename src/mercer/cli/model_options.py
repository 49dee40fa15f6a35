"""The options of a model, which `mercer fit` and `mercer plan` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from mercer.app.estimator import ALL, ESTIMATORS, TABLES
from mercer.cli.options import WEIGHTS, Read, option
from mercer.cli.verb import under
from mercer.engine.resolve import DEVICES, ENGINES


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
        metavar="NAME",
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
        "--lags",
        "Earlier rows that a detector judges beside each; auto: by prediction of held-out rows.",
        LAGS,
        metavar="NUMBER|auto",
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
