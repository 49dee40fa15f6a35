"""`mercer fit`: a model of the rows of a file, kept in a file, with the evidence that it is right."""

from __future__ import annotations

from itertools import accumulate
from math import isnan
from typing import Any

import click

from mercer._core.errors import many
from mercer.app.estimator import takes
from mercer.app.fit import FitRequest
from mercer.cli.ending import refuse
from mercer.cli.model_options import model_options
from mercer.cli.options import flagged, option
from mercer.cli.verb import Call, under, verb

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
        "Choose kernel, components, lags, smoothing and statistic of a detector, by small deviations "
        "that are put into rows held out.",
        bool,
        default=None,
    ),
)
@under(
    "Output",
    option("--output -o", "Where to keep the model, such as model.mercer.", metavar="FILE"),
    option("--checkpoint", "Where a long fit keeps its state, to resume from.", metavar="FILE"),
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
    call.tell(fitted.facts, told(fitted.facts))


def own(call: Call, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """Without what mercer.toml or the environment say for other models; a flag of these is a mistake."""
    others = {
        name
        for name, value in options.items()
        if value is not None and not takes(kind, name) and not flagged(name)
    }
    if others:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(others))
        call.say(
            f"not an option of --model {kind}, and left out: {named} (--show-config says where from)"
        )
    return {name: None if name in others else value for name, value in options.items()}


# ── the evidence for people ─────────────────────────────────────────────────
def told(facts: dict[str, Any]) -> str:
    """What was fitted, the evidence, and a table of the components."""
    kind, n, d = KINDS.get(facts["kind"], facts["kind"]), facts["n"], facts["d"]
    lines = [f"{kind} of {many(n, 'row')} x {many(d, 'feature')}"]
    lines += [f"kernel      {facts['kernel']}", *facts["evidence"]]
    if "preimage" in facts:
        quality = "" if facts["preimage_quality"] is None else f": {facts['preimage_quality']}"
        lines.append(f"pre-images  {facts['preimage']}{quality}")
    if "limits" in facts:
        lines.append(f"limits      {facts['limits']['summary']}")
    return "\n".join([*lines, "", *_table(facts)])


def _table(facts: dict[str, Any]) -> list[str]:
    shares = facts["explained_variance_ratio"]
    columns = (facts["eigenvalues"], facts["bounds"], shares, accumulate(shares))
    lines = [f"{'component':>9}  {'eigenvalue':>12}  {'between':>27}  {'variance':>8}  {'sum':>7}"]
    for j, (value, (low, high), share, total) in enumerate(zip(*columns, strict=False)):
        if j == SHOWN:
            lines.append(f"{'…':>9}  and {len(shares) - SHOWN} more; --json has them all")
            break
        between = f"{low:.6g} and {high:.6g}"
        lines.append(
            f"{j + 1:>9}  {value:>12.6g}  {between:>27}  {_percent(share):>8}  {_percent(total):>7}"
        )
    return lines


def _percent(share: float) -> str:
    """A share in per cent; unknown where the trace is not positive."""
    return "unknown" if isnan(share) else f"{share:.2%}"
