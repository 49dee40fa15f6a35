"""`mercer plan`: what a fit to the rows of a file would do and cost."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from mercer._core.memory import format_bytes, parse_bytes
from mercer.cli.data import preparing_options, reading_options
from mercer.cli.fit_model import Components, asked_for
from mercer.cli.frame import verb
from mercer.io.prepare import Preparation, prepared_rows
from mercer.io.table import open_table
from mercer.kernels.expression import kernel_text

if TYPE_CHECKING:
    from mercer.cli.frame import Talk
    from mercer.io.table import Reading
    from mercer.model import Plan

EXAMPLE = """
mercer demo --csv circles.csv
mercer plan circles.csv --id id --label label --components 20 --memory 1GB
"""


@verb(example=EXAMPLE, seed=True, memory=True)
@click.argument("data")
@click.option(
    "--kernel", metavar="TEXT", help="As for `mercer fit`; an RBF of median width otherwise."
)
@click.option(
    "--components", "-k", type=Components(), help="How many, or which share of the variance."
)
@click.option(
    "--approximation",
    metavar="TEXT",
    help="Such as rpcholesky(rank=500), nystrom(landmarks=500) or fourier(); exact otherwise.",
)
@click.option("--refine", type=click.IntRange(0), help="Exact passes after an approximation.")
@click.option("--solver", metavar="TEXT", help="auto, lapack, krylov, or krylov(tol=1e-10).")
@preparing_options
@reading_options
def plan(
    talk: Talk,
    *,
    data: str,
    reading: Reading,
    seed: int,
    memory: str,
    scale: str,
    impute: str | None,
    one_hot: bool,
    **options: Any,
) -> None:
    """What a fit would do: route, bytes, products and seconds. Fits nothing.

    Rows of an NPY file stay in it: only its head and a few rows are read. About a second goes into timing
    the kernel on some of the rows.
    """
    asked = asked_for("kpca", options, seed=seed, memory=memory)
    budget = parse_bytes(memory)
    rows = _rows(
        talk,
        data,
        reading,
        budget=budget,
        scale="none" if asked.is_precomputed else scale,
        impute=impute,
        one_hot=one_hot,
    )
    n, d = (int(size) for size in rows.shape)
    model = asked.estimator(n, verbose=0, scale=False)
    with talk.timed("plan"):
        found = model.plan(rows)
    results = {
        "n": n,
        "d": d,
        "dtype": str(rows.dtype),
        "kernel": kernel_text(model.kernel),
        "components": model.n_components,
        "memory_bytes": budget,
        "plan": facts(found),
    }
    head = f"{model!r} of {n} rows x {d} features ({rows.dtype}), with {format_bytes(budget)}"
    talk.tell(results, f"{head}\n{found}")


def facts(found: Plan) -> dict[str, Any]:
    """Every field of a plan; solver and approximation as one would write them."""
    plain = {field.name: getattr(found, field.name) for field in fields(found)}
    plain["solver"] = repr(found.solver)
    plain["approximation"] = None if found.approximation is None else repr(found.approximation)
    return plain


def _rows(talk: Talk, data: str, reading: Reading, *, budget: int, **preparing: Any) -> Any:
    """Rows as they lie in the file where that can be; otherwise read and prepared as a fit would."""
    with talk.timed("read"):
        table = open_table(data, reading)
        lying = table.in_place()
        if lying is not None:
            talk.say(
                f"{table.source}: {lying.shape[0]} rows, {lying.shape[1]} features, which stay there"
            )
            if preparing["scale"] != "none":
                talk.note(
                    "the rows are taken as they lie in the file: scaling changes neither bytes nor seconds"
                )
            return lying
        preparation, notes = Preparation.learn(table, **preparing)
        sheet = prepared_rows(table, preparation, memory_bytes=budget)
    n, d = sheet.rows.shape
    talk.say(f"read {table.source}: {n} rows, {d} features")
    for note in (*notes, *sheet.notes):
        talk.note(note)
    return sheet.rows
