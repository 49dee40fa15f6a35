"""`mercer select`: kernels side by side on rows held out; the winner, and why, kept where asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import numpy as np
from click.types import StringParamType

from mercer import diagnostics
from mercer._core.errors import InputError, MercerError
from mercer.cli.data import check_model_output, keep_model, read_training, take_weights
from mercer.cli.ending import FAILURE, OK, refuse
from mercer.cli.fit_model import TABLES, Asked, asked_for
from mercer.cli.options import WEIGHTS, Read, read_numbers
from mercer.cli.progress import watched
from mercer.cli.verb import Call, plain, verb
from mercer.diagnostics.selection_door import check_max_rows
from mercer.kernels import RBF, Linear
from mercer.kernels.text import kernel_text, parse_kernel

if TYPE_CHECKING:
    from mercer.diagnostics import Selection
    from mercer.kernels import Kernel
    from mercer.preprocessing.align import Sheet

EXAMPLE = """
mercer demo --csv circles.csv
mercer select circles.csv --id id --label label --kernels "linear(); rbf()" --components 5
"""


def facts(found: Selection, *, n: int, judged: int) -> dict[str, Any]:
    """The comparison as JSON can hold it: what a report shows as the way a kernel was chosen."""
    return {
        "winner": {"kernel": kernel_text(found.best_kernel_), "components": found.n_components_},
        "conclusive": found.conclusive_,
        "reasons": _reasons(found),
        "table": [plain(row) for row in found.table_],
        "n": n,
        "n_judged": min(n, judged),
    }


def told(found: Selection) -> str:
    """The winner, why, and the table."""
    head = f"{found.word}  {kernel_text(found.best_kernel_)} with {found.n_components_} components"
    return "\n".join([head, *(f"  - {line}" for line in _reasons(found)), "", str(found.table_)])


def _reasons(found: Selection) -> list[str]:
    """One line each: a judge prints itself over several."""
    return [" ".join(reason.split()) for reason in found.reasons_]


def winner_options(found: Selection) -> str:
    """The winner as options of `mercer fit`."""
    return f'--kernel "{kernel_text(found.best_kernel_)}" --components {found.n_components_}'


class KernelTexts(StringParamType):
    """Kernels as text; several stand in one variable of the environment with semicolons between them."""

    envvar_list_splitter = ";"


COUNTS = Read("text", "whole numbers such as 2,5,10", read_numbers, takes_lists=True)


def _not_zero(ctx: click.Context, param: click.Parameter, value: int | None) -> int | None:
    if value == 0:
        msg = "0 came; 1 or more were needed, or -1 for all cores."
        raise click.BadParameter(msg, ctx, param)
    return value


@verb("preparing", "reading", "seed", "memory", example=EXAMPLE)
@click.argument("data")
@click.option(
    "--output", "-o", metavar="FILE", help="Fit the winner to all rows, and keep it here."
)
@click.option("--kernel", type=KernelTexts(), multiple=True, help="A candidate; repeat it.")
@click.option(
    "--kernels",
    metavar="TEXTS",
    help='Candidates in one text, such as "linear(); rbf(gamma=0.5)". Without any: linear, polynomial, '
    "Gaussian at several widths, Matérn and Laplacian.",
)
@click.option(
    "--components",
    "-k",
    type=COUNTS,
    metavar="K,K,…",
    help="Numbers of components to compare, such as 2,5,10.",
)
@click.option("--supervised", is_flag=True, help="Judge by how well the scores predict --label.")
@click.option(
    "--criterion",
    metavar="NAME",
    help="agreement (default), denoising, reconstruction or variance; with --supervised a scoring of "
    "scikit-learn.",
)
@click.option(
    "--noise",
    type=float,
    default=0.3,
    metavar="SHARE",
    help="Size of the noise of the criterion denoising, as a share of the spread of the rows.",
)
@click.option(
    "--folds",
    type=click.IntRange(2),
    default=3,
    help="Parts of the rows, each held out once.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(4),
    help="Rows to compare on; from more, so many are drawn with --seed. 1000 for the criterion agreement, "
    "2000 otherwise.",
)
@WEIGHTS
@click.option(
    "--jobs",
    type=int,
    callback=_not_zero,
    help="Candidates side by side; -1 takes all cores.",
)
@click.option("--approximation", help="How to fit the winner, as in `mercer fit`.")
@click.option(
    "--preimage",
    help=f"A way back for the winner: {', '.join(TABLES['preimage'])}.",
)
def select(
    call: Call,
    *,
    data: str,
    output: str | None,
    kernel: tuple[str, ...],
    kernels: str | None,
    supervised: bool,
    approximation: str | None,
    preimage: str | None,
    weights: str | None,
    **how: Any,
) -> int:
    """Compare kernels and widths on rows held out.

    With --supervised labels decide. Without it no number tells reliably what the next step will like: the
    Gaussian kernel at the median width is kept unless a candidate beats it on two questions that lean
    opposite ways, whether neighbours share their scores and whether two halves of the rows agree.
    """
    candidates = _candidates(kernel, kernels)
    parts = {"approximation": approximation, "preimage": preimage}
    asked = asked_for(call, "kpca", parts, candidates or [RBF(), Linear()])
    if supervised and call.reading.label is None:
        refuse("--supervised came without --label: name the column that the scores are to predict.")
    path = check_model_output(output, data)
    counts = take_weights(call, data, weights, "; scaling and filling count each once")
    sheet, preparation = read_training(call, data)
    n = sheet.rows.shape[0]
    how["max_rows"] = check_max_rows(how["max_rows"], "judge" if supervised else how["criterion"])
    if n > how["max_rows"]:
        seed = call.params["seed"]
        call.note(
            f"compared on {how['max_rows']} of {n} rows, drawn with seed {seed}; --max-rows for more"
        )
    labels = _labels(sheet) if supervised else None
    found = _compared(call, sheet, candidates, y=labels, sample_weight=counts, **how)
    code, results = OK, facts(found, n=n, judged=how["max_rows"])
    if path is None:
        call.say(
            f"nothing was written: give -o model.mercer to keep the winner, {winner_options(found)}"
        )
    else:
        model, chosen = _fitted(call, asked, found, sheet, counts), dict(results)
        results["model"], code = None, FAILURE
        if model is not None:
            kept = keep_model(call, path, model, preparation, sheet, selection=chosen)
            results["model"], code = kept, OK
    call.tell(results, told(found))
    return code


# ── before ──────────────────────────────────────────────────────────────────
def _candidates(repeated: tuple[str, ...], listed: str | None) -> list[Kernel] | None:
    """The kernels that were named; None for the usual ones."""
    texts = [*repeated, *(part for part in (listed or "").split(";") if part.strip())]
    kernels = [parse_kernel(text) for text in texts]
    if any(candidate.is_precomputed for candidate in kernels):
        refuse("A precomputed kernel can't be compared with others: it has no rows.")
    if listed is not None and not kernels:
        refuse('--kernels is empty. Write it as "linear(); rbf(gamma=0.5)", or leave it out.')
    return kernels or None


def _labels(sheet: Sheet) -> Any:
    """One a row; numbers where all of them are."""
    labels = np.asarray(sheet.labels)
    missing = [i for i, label in enumerate(labels) if label is None or str(label).strip() == ""]
    if missing:
        msg = (
            f"The label of row {missing[0]} (counted from 0) is missing, as are {len(missing)} in all. Fill "
            "them, or leave --supervised out."
        )
        raise InputError(msg)
    try:
        return labels.astype(np.float64)
    except (TypeError, ValueError):
        return labels.astype(str)


# ── compare, and fit the winner ─────────────────────────────────────────────
def _compared(
    call: Call, sheet: Sheet, candidates: Any, *, components: Any, jobs: Any, **how: Any
) -> Selection:
    with watched(call, "comparing") as verbose, call.timed("compare"):
        return diagnostics.select(
            sheet.rows,
            candidates,
            n_components=components,
            n_jobs=jobs,
            refit=False,
            verbose=verbose,
            random_state=call.params["seed"],
            **how,
        )


def _fitted(call: Call, asked: Asked, found: Selection, sheet: Sheet, counts: Any) -> Any:
    """The winner; None where it can't be fitted, and the comparison is still worth having."""
    chosen = {"kernel": found.best_kernel_, "n_components": found.n_components_}
    winner = Asked("kpca", {**asked.params, **chosen})
    try:
        with watched(call, "fitting") as verbose, call.timed("fit"):
            model = winner.estimator(sheet.rows.shape[0], verbose=verbose, scale=False)
            return model.fit(sheet.rows, sample_weight=counts)
    except MercerError as error:
        call.warn(f"The winner was found, but not fitted, and nothing was written: {error}")
        return None
