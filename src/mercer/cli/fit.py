"""`mercer fit`: a model of the rows of a file, kept in a file, with the evidence that it is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import numpy as np
from click.core import ParameterSource

from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer._core.errors import many
from mercer._core.memory import format_bytes
from mercer.cli.data import check_model_output, keep_model, read_training, take_weights
from mercer.cli.ending import refuse
from mercer.cli.fit_model import COMPONENTS, TABLES, TAKES, Asked, asked_for, solving_options
from mercer.cli.options import WEIGHTS, flagged
from mercer.cli.output import check_output
from mercer.cli.progress import watched
from mercer.cli.verb import Call, verb
from mercer.estimators.detector_fit import chosen_model
from mercer.kernels.text import kernel_text
from mercer.stream.batch import stream_bytes

if TYPE_CHECKING:
    from mercer.preprocessing.align import Sheet

EXAMPLE = """
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label --kernel "rbf(gamma=10)" --scale none -o model.mercer
"""


@verb("preparing", "reading", "seed", "memory", example=EXAMPLE)
@click.argument("data")
@click.option(
    "--output", "-o", metavar="FILE", help="Where to keep the model, such as model.mercer."
)
@click.option(
    "--model",
    "kind",
    type=click.Choice(["kpca", "pca", "detector", "incremental"]),
    default="kpca",
    help="Kernel PCA, linear PCA, a detector for `mercer monitor`, or kernel PCA in one pass.",
)
@click.option(
    "--kernel",
    help='As in Python, such as "rbf(gamma=0.5) + 0.1*linear()"; an RBF of median width otherwise. '
    "precomputed: the file is the kernel matrix.",
)
@click.option(
    "--components",
    "-k",
    type=COMPONENTS,
    metavar="NUMBER|SHARE|all",
    help="How many, or which share of the variance to keep; 2 (pca: all, detector: 0.99) otherwise.",
)
@solving_options
@click.option(
    "--preimage",
    help=f"A way back, for `mercer reconstruct`: {', '.join(TABLES['preimage'])}.",
)
@click.option("--checkpoint", metavar="FILE", help="Where a long fit writes down how far it is.")
@click.option(
    "--landmarks", type=click.IntRange(1), help="Most rows that --model incremental keeps."
)
@click.option(
    "--false-alarm",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Share of normal rows that a detector may flag.",
)
@click.option(
    "--contamination",
    type=click.FloatRange(0, 0.5, min_open=True, max_open=True),
    metavar="SHARE",
    help="Share of training rows that are not normal.",
)
@click.option(
    "--statistic", type=click.Choice(["combined", "T2", "Q"]), help="What a detector goes by."
)
@click.option(
    "--limits",
    type=click.Choice(["cross-validation", "approximate"]),
    help="Where the limits of a detector come from.",
)
@click.option(
    "--folds",
    type=click.IntRange(2),
    help="Stretches of rows held out for the limits; 5 otherwise.",
)
@click.option(
    "--wild",
    type=click.Choice(["aside", "keep"]),
    help="Whether a detector sets rows with wild readings aside, as otherwise, or keeps them.",
)
@WEIGHTS
@click.option(
    "--dry-run", is_flag=True, help="Read the data, print the plan; fit and write nothing."
)
def fit(
    call: Call, *, data: str, output: str | None, kind: str, dry_run: bool, **options: Any
) -> None:
    """Fit a model to the rows of a file, and keep it in a file.

    DATA is a CSV, TSV, NPY, NPZ, Parquet, Arrow or HDF5 file, a folder of images, or - for stdin. Columns
    are standardised unless --scale none is given; what was done to them is part of the model.
    """
    options = _own(call, kind, options)
    asked = asked_for(call, kind, options)
    scale = _scale_for(asked, call.params["scale"])
    if (checkpoint := options["checkpoint"]) is not None:
        check_output(checkpoint, [data, *([output] if output else [])], option="--checkpoint")
    path = None if dry_run else check_model_output(output, data)
    weights = take_weights(call, data, options["weights"], ", in scaling and filling too")
    # The limits of a detector come from rows that were held out of the scaling too.
    sheet, preparation = read_training(
        call, data, scale=scale, scaled_later=kind == "detector", weights=weights
    )
    n, d = sheet.rows.shape
    rows = _rows_for(asked, sheet)
    with watched(call, "fitting") as verbose:
        model = asked.estimator(n, verbose=verbose, scale=scale == "standard")
        if dry_run:
            return tell_plan(call, model, rows, weights)
        with call.timed("fit"):
            model.fit(rows, sample_weight=weights)
    if asked.way_back_for_free:
        call.note("the linear kernel has an exact way back, which is kept with the model")
    results = {"n": n, "d": d, "features": list(preparation.features), **facts(model)}
    if path is None:
        call.say("nothing was written: give -o model.mercer to keep the model")
    else:
        results["model"] = keep_model(call, path, model, preparation, sheet)
    call.tell(results, told(model, n=n, d=d))
    return None


# ── before ──────────────────────────────────────────────────────────────────
def _own(call: Call, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """Without what mercer.toml or the environment say for other models; a flag of these is a mistake."""
    others = {
        name
        for name, value in options.items()
        if value is not None and name not in TAKES[kind] and not flagged(name)
    }
    if others:
        told = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(others))
        call.say(
            f"not an option of --model {kind}, and left out: {told} (--show-config tells whence)"
        )
    return {name: None if name in others else value for name, value in options.items()}


def _scale_for(asked: Asked, scale: str) -> str:
    """A kernel matrix is never scaled."""
    if not asked.is_precomputed or scale == "none":
        return scale
    ctx = click.get_current_context()
    if ctx.get_parameter_source("scale") is not ParameterSource.DEFAULT:
        refuse(
            "--scale standard came, but with --kernel precomputed the file holds kernel values, not rows."
        )
    return "none"


def _rows_for(asked: Asked, sheet: Sheet) -> Any:
    """The rows as `fit` takes them; a kernel matrix is looked at as a whole, a detector warns by names."""
    if asked.is_precomputed:
        return np.array(sheet.rows[:])
    if asked.kind != "detector":
        return sheet.rows
    rows = np.asarray(sheet.rows).view(NamedRows)
    rows.columns = sheet.names
    return rows


class NamedRows(np.ndarray):
    """Rows in memory that know what their columns are called, for warnings."""

    columns: tuple[str, ...]


def tell_plan(call: Call, model: Any, rows: Any, weights: Any) -> None:
    """The plan of a fit; nothing is fitted."""
    n, d = rows.shape
    results: dict[str, Any] = {"n": n, "d": d, "estimator": repr(model), "dry_run": True}
    if isinstance(model, IncrementalKernelPCA):
        n_bytes = stream_bytes(model.max_landmarks, model.batch_size, d)
        lines = [f"one pass, at most {model.max_landmarks} rows kept, {format_bytes(n_bytes)}"]
        results |= {"route": "low-rank", "bytes": n_bytes}
    else:
        plan = _planner(model, rows).plan(rows, sample_weight=weights)
        lines = str(plan).splitlines()
        results |= {
            "route": plan.route,
            "bytes": plan.n_bytes,
            "products": plan.n_products,
            "seconds": plan.seconds,
            "preimage_bytes": plan.preimage_bytes,
            "preimage_seconds": plan.preimage_seconds,
        }
    if isinstance(model, KernelPCADetector) and model.limits == "cross-validation":
        lines.append(f"  and once more for each of {model.folds} stretches of rows held out")
    call.say("dry run: nothing was fitted, nothing was written")
    head = f"{model!r} of {many(n, 'row')} x {many(d, 'feature')}"
    call.tell({**results, "plan": lines}, "\n".join([head, *lines]))


def _planner(model: Any, rows: Any) -> KernelPCA:
    """The kernel PCA that is planned as this model is: linear PCA is that of the linear kernel."""
    if isinstance(model, KernelPCADetector):
        model = chosen_model(model, rows)
    if isinstance(model, PCA):
        shared = {name: getattr(model, name) for name in ("solver", "memory", "engine")}
        return KernelPCA(model.n_components, kernel="linear", **shared)
    assert isinstance(model, KernelPCA)  # the command line hands over no other
    return model


# ── what a fitted model has to show for itself ──────────────────────────────
SHOWN = 10  # components in a table for people
KINDS = {
    "KernelPCA": "kernel PCA",
    "PCA": "linear PCA",
    "KernelPCADetector": "a detector on kernel PCA",
    "IncrementalKernelPCA": "kernel PCA of a stream",
}


def projector(model: Any) -> Any:
    """The model that has components: a detector's own, or the model itself."""
    return getattr(model, "model_", model)


def facts(model: Any) -> dict[str, Any]:
    """The evidence as numbers."""
    inner = projector(model)
    fit = inner.fit_
    found: dict[str, Any] = {
        "kind": type(model).__name__,
        "kernel": told_kernel(inner),
        "components": int(inner.n_components_),
        "eigenvalues": inner.eigenvalues_,
        "explained_variance_ratio": inner.explained_variance_ratio_,
        "variance_kept": float(np.sum(inner.explained_variance_ratio_)),
        "total": float(fit.total),
        "residuals": inner.residuals_,
        "largest_residual": float(np.max(inner.residuals_, initial=0.0)),
        "status": fit.pairs.status.name,
        "route": fit.plan.route,
        "solver": repr(fit.plan.approximation or fit.plan.solver),
        "trace_left_out": float(fit.trace_error),
        "bounds": fit.bounds,
        "evidence": str(fit).splitlines(),
    }
    if (back := getattr(inner, "preimage_", None)) is not None:
        found["preimage"] = repr(back.method)
        found["preimage_quality"] = None if back.quality is None else str(back.quality)
    if (limits := getattr(model, "limits_", None)) is not None:
        found["limits"] = {"T2": limits.t2, "Q": limits.q, "index": limits.index}
    return found


def told_kernel(model: Any) -> str:
    """The kernel as an expression; linear PCA has the linear one."""
    kernel = getattr(model, "kernel_", None)
    return "Linear()" if kernel is None else kernel_text(kernel)


def told(model: Any, *, n: int, d: int) -> str:
    """The evidence for people."""
    inner = projector(model)
    kind = KINDS.get(type(model).__name__, type(model).__name__)
    lines = [f"{kind} of {many(n, 'row')} x {many(d, 'feature')}"]
    lines += [f"kernel      {told_kernel(inner)}", *str(inner.fit_).splitlines()]
    if (back := getattr(inner, "preimage_", None)) is not None:
        quality = "" if back.quality is None else f": {back.quality}"
        lines.append(f"way back    {back.method!r}{quality}")
    if (limits := getattr(model, "limits_", None)) is not None:
        lines.append(f"limits      {limits}")
    return "\n".join([*lines, "", *_table(inner)])


def _table(model: Any) -> list[str]:
    shares, bounds = model.explained_variance_ratio_, model.fit_.bounds
    lines = [f"{'component':>9}  {'eigenvalue':>12}  {'between':>27}  {'variance':>8}  {'sum':>7}"]
    for j in range(min(len(shares), SHOWN)):
        low, high = bounds[j]
        lines.append(
            f"{j:>9}  {model.eigenvalues_[j]:>12.6g}  {f'{low:.6g} and {high:.6g}':>27}  "
            f"{shares[j]:>8.2%}  {np.sum(shares[: j + 1]):>7.2%}"
        )
    if len(shares) > SHOWN:
        lines.append(f"{'…':>9}  and {len(shares) - SHOWN} more; --json has them all")
    return lines
