"""`mercer select`: kernels side by side on rows held out, as a table with the winner and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.types import StringParamType

from mercer.app.estimator import TABLES
from mercer.app.select import SelectRequest, reasons
from mercer.cli.ending import FAILURE, OK, refuse
from mercer.cli.options import WEIGHTS, Read, read_numbers
from mercer.cli.verb import Call, verb
from mercer.kernels.text import kernel_text

if TYPE_CHECKING:
    from mercer.diagnostics import Selection

EXAMPLE = """
mercer demo --csv circles.csv
mercer select circles.csv --id id --label label --kernels "linear(); rbf()" --components 5
"""


def told(found: Selection) -> str:
    """The winner, why, and the table."""
    head = f"{found.word}  {kernel_text(found.best_kernel_)} with {found.n_components_} components"
    return "\n".join([head, *(f"  - {line}" for line in reasons(found)), "", str(found.table_)])


class KernelTexts(StringParamType):
    """Kernels as text; several stand in one variable of the environment with semicolons between them."""

    envvar_list_splitter = ";"


COUNTS = Read("text", "whole numbers such as 2,5,10", read_numbers, takes_lists=True)


def _not_zero(ctx: click.Context, param: click.Parameter, value: int | None) -> int | None:
    if value == 0:
        msg = "it must be 1 or more, or -1 for all cores; got 0."
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
    help=f"Pre-images for the winner: {', '.join(TABLES['preimage'])}.",
)
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
    options |= {"kernels": (*kernel, *listed), "output": output}
    chosen = call.run(call.request(SelectRequest, **options)).value
    if output is None:
        winner = '--kernel "{kernel}" --components {components}'.format(**chosen.winner)
        call.say(f"nothing was written: give -o model.mercer to keep the winner, {winner}")
    call.tell(chosen.facts, told(chosen.selection))
    return FAILURE if chosen.failed else OK
