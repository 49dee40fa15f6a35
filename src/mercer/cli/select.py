"""`mercer select`: kernels side by side on rows held out; the winner, and why, kept where asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import numpy as np
from click.types import StringParamType

from mercer import diagnostics
from mercer._core.errors import InputError, MercerError
from mercer.cli.data import complete_columns, preparing_options, read_training, reading_options
from mercer.cli.fit_model import TABLES, Asked, asked_for, check_parts
from mercer.cli.frame import FAILURE, OK, plain, verb
from mercer.cli.keep import keep_model
from mercer.cli.option_types import Read
from mercer.cli.output import check_model_output
from mercer.cli.progress import watched
from mercer.cli.weights import weight_column
from mercer.diagnostics.selection_door import check_max_rows
from mercer.kernels import RBF, Linear
from mercer.kernels.text import kernel_text, parse_kernel

if TYPE_CHECKING:
    from pathlib import Path

    from mercer.cli.frame import Talk
    from mercer.data.table import Reading
    from mercer.diagnostics import Selection
    from mercer.io.preparation import Preparation
    from mercer.io.prepare import Sheet
    from mercer.kernels import Kernel


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


EXAMPLE = """
mercer demo --csv circles.csv
mercer select circles.csv --id id --label label --kernels "linear(); rbf()" --components 5
"""


class KernelTexts(StringParamType):
    """Kernels as text; several stand in one variable of the environment with semicolons between them."""

    envvar_list_splitter = ";"


class Counts(Read):
    """Whole numbers with commas between them; mercer.toml may have a list."""

    name = "text"
    takes_lists = True
    needed = "whole numbers such as 2,5,10"

    def read(self, value: Any) -> list[int] | None:
        """`2,5` as [2, 5]."""
        parts = value if isinstance(value, (list, tuple)) else str(value).split(",")
        texts = [str(part).strip() for part in parts]
        fine = all(text.isascii() and text.isdigit() and len(text) < 10 for text in texts)
        return [int(text) for text in texts] if fine else None


def _not_zero(ctx: click.Context, param: click.Parameter, value: int | None) -> int | None:
    if value == 0:
        msg = "0 came; 1 or more were needed, or -1 for all cores."
        raise click.BadParameter(msg, ctx, param)
    return value


@verb(example=EXAMPLE, seed=True, memory=True)
@click.argument("data")
@click.option(
    "--output", "-o", metavar="FILE", help="Fit the winner to all rows, and keep it here."
)
@click.option(
    "--kernel", "kernel", type=KernelTexts(), multiple=True, help="A candidate; repeat it."
)
@click.option(
    "--kernels",
    metavar="TEXTS",
    help='Candidates in one text, such as "linear(); rbf(gamma=0.5)". Without any: linear, polynomial, '
    "Gaussian at several widths, Matérn and Laplacian.",
)
@click.option(
    "--components",
    "-k",
    type=Counts(),
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
    show_default=True,
    metavar="SHARE",
    help="Size of the noise of the criterion denoising, as a share of the spread of the rows.",
)
@click.option(
    "--folds",
    type=click.IntRange(2),
    default=3,
    show_default=True,
    help="Parts of the rows, each held out once.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(4),
    help="Rows to compare on; from more, so many are drawn with --seed. 1000 for the criterion agreement, "
    "2000 otherwise.",
)
@click.option(
    "--weights",
    metavar="COLUMN",
    shell_complete=complete_columns,
    help="Column that says how often each row counts.",
)
@click.option(
    "--jobs",
    type=int,
    callback=_not_zero,
    help="Candidates side by side; -1 takes all cores.",
)
@click.option("--approximation", metavar="TEXT", help="How to fit the winner, as in `mercer fit`.")
@click.option(
    "--preimage",
    metavar="TEXT",
    help=f"A way back for the winner: {', '.join(TABLES['preimage'])}.",
)
@preparing_options
@reading_options
def select(
    talk: Talk,
    *,
    data: str,
    output: str | None,
    reading: Reading,
    kernel: tuple[str, ...],
    kernels: str | None,
    supervised: bool,
    approximation: str | None,
    preimage: str | None,
    seed: int,
    memory: str,
    weights: str | None,
    scale: str,
    impute: str | None,
    one_hot: bool,
    **how: Any,
) -> int:
    """Compare kernels and widths on rows held out.

    With --supervised labels decide. Without it no number tells reliably what the next step will like: the
    Gaussian kernel at the median width is kept unless a candidate beats it on two questions that lean
    opposite ways, whether neighbours share their scores and whether two halves of the rows agree.
    """
    candidates = _candidates(kernel, kernels)
    asked = asked_for(
        "kpca", {"approximation": approximation, "preimage": preimage}, seed=seed, memory=memory
    )
    check_parts(asked, candidates or [RBF(), Linear()])
    if supervised and reading.label is None:
        msg = "--supervised came without --label: name the column that the scores are to predict."
        raise click.UsageError(msg)
    path = None if output is None else check_model_output(output, data)
    reading, counts = _weights(talk, data, reading, weights)
    sheet, preparation = read_training(
        talk, data, reading, memory, scale=scale, impute=impute, one_hot=one_hot
    )
    judged = "judge" if supervised else how["criterion"]
    how["max_rows"] = check_max_rows(how["max_rows"], judged)
    found = _compared(talk, sheet, candidates, counts, supervised=supervised, seed=seed, **how)
    results = facts(found, n=sheet.rows.shape[0], judged=how["max_rows"])
    code = OK
    if path is None:
        talk.say(
            f"nothing was written: give -o model.mercer to keep the winner, {winner_options(found)}"
        )
    else:
        results["model"], code = _kept(
            talk,
            path,
            found,
            dict(results),
            asked=asked,
            sheet=sheet,
            preparation=preparation,
            counts=counts,
        )
    talk.tell(results, told(found))
    return code


# ── before ──────────────────────────────────────────────────────────────────
def _candidates(repeated: tuple[str, ...], listed: str | None) -> list[Kernel] | None:
    """The kernels that were named; None for the usual ones."""
    texts = [*repeated, *(part for part in (listed or "").split(";") if part.strip())]
    kernels = [parse_kernel(text) for text in texts]
    if any(candidate.is_precomputed for candidate in kernels):
        msg = "A precomputed kernel can't be compared with others: it has no rows."
        raise click.UsageError(msg)
    if listed is not None and not kernels:
        msg = '--kernels is empty. Write it as "linear(); rbf(gamma=0.5)", or leave it out.'
        raise click.UsageError(msg)
    return kernels or None


def _weights(talk: Talk, data: str, reading: Reading, column: str | None) -> tuple[Reading, Any]:
    """How to read the features, and how often each row counts; None for once."""
    if column is None:
        return reading, None
    talk.note(f"rows count as often as column {column!r} says; scaling and filling count each once")
    return weight_column(data, reading, column)


# ── compare ─────────────────────────────────────────────────────────────────
def _compared(
    talk: Talk,
    sheet: Sheet,
    candidates: list[Kernel] | None,
    counts: Any,
    *,
    supervised: bool,
    seed: int,
    components: list[int] | None,
    criterion: str | None,
    noise: float,
    folds: int,
    max_rows: int,
    jobs: int | None,
) -> Selection:
    n = sheet.rows.shape[0]
    if n > max_rows:
        talk.note(
            f"compared on {max_rows} of {n} rows, drawn with seed {seed}; --max-rows for more"
        )
    y = _labels(sheet) if supervised else None
    with watched(talk, "comparing") as verbose, talk.timed("compare"):
        return diagnostics.select(
            sheet.rows,
            candidates,
            n_components=components,
            y=y,
            criterion=criterion,
            noise=noise,
            folds=folds,
            sample_weight=counts,
            max_rows=max_rows,
            n_jobs=jobs,
            refit=False,
            verbose=verbose,
            random_state=seed,
        )


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


# ── after ───────────────────────────────────────────────────────────────────
def _kept(
    talk: Talk,
    path: Path,
    found: Selection,
    chosen: dict[str, Any],
    *,
    asked: Asked,
    sheet: Sheet,
    preparation: Preparation,
    counts: Any,
) -> tuple[dict[str, Any] | None, int]:
    """Fit the winner and write it; where it can't be fitted, the comparison is still worth having."""
    params = {
        **asked.params,
        "kernel": found.best_kernel_,
        "n_components": found.n_components_,
    }
    try:
        with watched(talk, "fitting") as verbose, talk.timed("fit"):
            model = Asked("kpca", params).estimator(
                sheet.rows.shape[0], verbose=verbose, scale=False
            )
            model.fit(sheet.rows, sample_weight=counts)
    except MercerError as error:
        talk.warn(f"The winner was found, but not fitted, and nothing was written: {error}")
        return None, FAILURE
    return keep_model(talk, path, model, preparation, sheet, selection=chosen), OK
