"""`mercer select`: kernels side by side on rows held out, as a table with the winner and why."""

from __future__ import annotations

import re
from typing import Any

import click
from click.types import StringParamType

from mercer._core.wording import brief
from mercer.app.estimator import TABLES
from mercer.app.select import SelectRequest, reasons
from mercer.cli.ending import FAILURE, OK, refuse
from mercer.cli.options import WEIGHTS, Read, option, read_numbers
from mercer.cli.verb import Call, verb
from mercer.diagnostics import Selection
from mercer.kernels.text import kernel_text

EXAMPLE = """
mercer demo --csv circles.csv
mercer select circles.csv --id id --label label --kernels "linear(); rbf()" --components 5
"""


def selection_text(found: Selection) -> str:
    """The winner, why, and the table."""
    kernel = brief(kernel_text(found.best_kernel_))
    head = f"{found.word}  {kernel} with {found.n_components_} components"
    return "\n".join([head, *(f"  - {line}" for line in reasons(found)), "", str(found.table_)])


class KernelTexts(StringParamType):
    """Kernels as text; several stand in one variable of the environment with semicolons between them."""

    envvar_list_splitter = ";"


COUNTS = Read("K,K,…", "whole numbers such as 2,5,10", read_numbers, takes_lists=True)


def _not_zero(ctx: click.Context, param: click.Parameter, value: int | None) -> int | None:
    if value == 0:
        msg = "it must be 1 or more, or -1 for all cores; got 0."
        raise click.BadParameter(msg, ctx, param)
    return value


@verb("preparing", "reading", "seed", "memory", example=EXAMPLE)
@click.argument("data")
@option("--output -o", "Fit the winner to all rows, and keep it here.", "FILE")
@option("--kernel", "A candidate; repeat it.", KernelTexts(), multiple=True)
@option(
    "--kernels",
    'Candidates in one text, such as "linear(); rbf(gamma=0.5)". Without any: linear, polynomial, '
    "Gaussian at several widths, Matérn and Laplacian.",
    "TEXTS",
)
@option("--components -k", "Numbers of components to compare, such as 2,5,10.", COUNTS)
@option("--supervised", "Judge by how well the scores predict --label.", bool)
@option(
    "--criterion",
    "agreement (default), denoising, reconstruction or variance; with --supervised a scoring of "
    "scikit-learn.",
    "NAME",
)
@option(
    "--noise",
    "Size of the noise of the criterion denoising, as a share of the spread of the rows.",
    float,
    default=0.3,
    metavar="SHARE",
)
@option("--folds", "Parts of the rows, each held out once.", click.IntRange(2), default=3)
@option(
    "--max-rows",
    "Rows to compare on; from more, so many are drawn with --seed. 1000 for the criterion agreement, "
    "2000 otherwise.",
    click.IntRange(4),
)
@WEIGHTS
@option("--jobs", "Candidates side by side; -1 takes all cores.", int, callback=_not_zero)
@option("--approximation", "How to fit the winner, as in `mercer fit`.")
@option("--preimage", f"Pre-images for the winner: {', '.join(TABLES['preimage'])}.")
def select(
    call: Call, *, kernel: tuple[str, ...], kernels: str | None, output: str | None, **options: Any
) -> int:
    """Compare kernels and widths on rows held out.

    With --supervised labels decide. Without it no number tells reliably what the next step will like: the
    Gaussian kernel at the median width is kept unless a candidate beats it on two questions that lean
    opposite ways, whether neighbours share their scores and whether two halves of the rows agree.
    """
    listed = [part for part in (kernels or "").split(";") if part.strip()]
    if kernels is not None and not listed:
        refuse('--kernels is empty. Write it as "linear(); rbf(gamma=0.5)", or leave it out.')
    for part in listed:
        if "," in re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", part):
            refuse(
                f'Separate candidates with ";", as in "linear(); rbf(gamma=0.5)"; got {part.strip()!r}.'
            )
    options |= {"kernels": (*kernel, *listed), "output": output}
    chosen = call.run(call.request(SelectRequest, **options)).value
    if output is None:
        winner = '--kernel "{kernel}" --components {components}'.format(**chosen.winner)
        call.say(f"nothing was written: give -o model.mercer to keep the winner, {winner}")
    call.tell(chosen.facts, selection_text(chosen.selection))
    return FAILURE if chosen.failed else OK
