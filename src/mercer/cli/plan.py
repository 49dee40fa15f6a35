"""`mercer plan`: what a fit to the rows of a file would do and cost, and exit code 4 where memory lacks."""

from __future__ import annotations

from typing import Any

import click

from mercer._core.errors import many
from mercer._core.memory import format_bytes
from mercer.app.plan import Planned, PlanRequest
from mercer.cli.ending import ALARM, OK
from mercer.cli.fit import KINDS, model_options, own
from mercer.cli.verb import Call, verb

EXAMPLE = """
mercer demo --csv circles.csv
mercer plan circles.csv --id id --label label --components 20 --memory 1GB
"""


@verb("preparing", "reading", "seed", "memory", example=EXAMPLE)
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
    call.tell(planned.facts, told(planned))
    return OK if planned.fits else ALARM


def told(planned: Planned) -> str:
    """The plan for people; why there is none is a finding."""
    (n, d), model, facts = planned.shape, planned.model, planned.facts
    kind = KINDS[type(model).__name__]
    size = f"{many(n, 'row')} x {many(d, 'feature')} ({planned.dtype})"
    components = "all" if model.n_components is None else model.n_components
    lines = [f"{kind} of {size} in {format_bytes(planned.budget)}"]
    lines.append(f"kernel {facts['kernel']}, components {components}")
    if planned.plan is not None:
        lines.append(str(planned.plan))
    if not planned.fits:
        lines.append("This does not fit.")
    if planned.remedy is not None:
        lines.append(f'This fits: --approximation "{planned.remedy.value}"')
        lines.append(str(planned.alternative))
    return "\n".join([*lines, *(f"  {note}" for note in planned.notes)])
