"""`mercer plan`: what a fit to the rows of a file would do and cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import click
from sklearn.base import clone

from mercer._core.errors import InputError, MemoryBudgetError
from mercer._core.memory import format_bytes
from mercer.approximations import RPCholesky
from mercer.cli.data import learn_rows, open_data, require_two_rows
from mercer.cli.ending import ALARM, OK
from mercer.cli.fit_model import COMPONENTS, asked_for, solving_options
from mercer.cli.verb import Call, verb
from mercer.kernels import as_kernel
from mercer.kernels.text import kernel_text

if TYPE_CHECKING:
    from mercer.model import Plan

EXAMPLE = """
mercer demo --csv circles.csv
mercer plan circles.csv --id id --label label --components 20 --memory 1GB
"""

# Of the approximation that is offered where an exact fit does not go, the best first.
RANKS = (1000, 500, 200, 100, 50)


@verb("preparing", "reading", "seed", "memory", example=EXAMPLE)
@click.argument("data")
@click.option("--kernel", help="As for `mercer fit`; an RBF of median width otherwise.")
@click.option(
    "--components",
    "-k",
    type=COMPONENTS,
    metavar="NUMBER|SHARE|all",
    help="How many, or which share of the variance to keep; 2 otherwise.",
)
@click.option("--preimage", help="A pre-image to learn as well, as for `mercer fit`.")
@solving_options
def plan(call: Call, *, data: str, **options: Any) -> int:
    """What a fit would do: route, bytes, products and seconds. Fits nothing.

    Rows of an NPY file stay in it: only its head and a few rows are read. About a second goes into timing
    the kernel on some of the rows. Where --memory does not hold the fit, an approximation that it holds is
    planned too, and the exit code is 4.
    """
    asked = asked_for(call, "kpca", options)
    budget = call.budget
    rows = _rows(call, data, scale="none" if asked.is_precomputed else call.params["scale"])
    require_two_rows(data, int(rows.shape[0]))
    model = asked.estimator(int(rows.shape[0]), verbose=0, scale=False)
    with call.timed("plan"):
        answer = Answer.of(model, rows)
    call.tell(answer.facts(model, rows, budget), answer.told(model, rows, budget))
    return OK if answer.plan is not None else ALARM


def _rows(call: Call, data: str, *, scale: str) -> Any:
    """Rows as they lie in the file where that can be; otherwise read and prepared as a fit would."""
    table = open_data(call, data)
    lying = table.in_place()
    if lying is None:
        return learn_rows(call, table, **{**call.preparing, "scale": scale})[0].rows
    call.say(f"{table.source}: {lying.shape[0]} rows, {lying.shape[1]} features, which stay there")
    if scale != "none":
        call.note(
            "the rows are taken as they lie in the file: scaling changes neither bytes nor seconds"
        )
    return lying


@dataclass(frozen=True)
class Answer:
    """The plan; or why there is none, and one of an approximation that goes."""

    plan: Plan | None
    refusal: str | None = None
    alternative: Plan | None = None

    @classmethod
    def of(cls, model: Any, rows: Any) -> Answer:
        """Ask the model; where it is refused for its bytes, ask on."""
        try:
            return cls(model.plan(rows))
        except MemoryBudgetError as error:
            refusal = str(error)
        if model.approximation is not None or as_kernel(model.kernel).is_precomputed:
            return cls(None, refusal)
        for rank in RANKS:
            try:
                other = clone(model).set_params(approximation=RPCholesky(rank=rank), solver="auto")
                return cls(None, refusal, other.plan(rows))
            except (InputError, MemoryBudgetError):  # a rank that rows, components or memory forbid
                continue
        return cls(None, refusal)

    def facts(self, model: Any, rows: Any, budget: int) -> dict[str, Any]:
        """For programs."""
        return {
            "n": int(rows.shape[0]),
            "d": int(rows.shape[1]),
            "dtype": str(rows.dtype),
            "kernel": kernel_text(model.kernel),
            "components": model.n_components,
            "memory_bytes": budget,
            "fits": self.plan is not None,
            "plan": None if self.plan is None else facts(self.plan),
            "refusal": self.refusal,
            "alternative": None if self.alternative is None else facts(self.alternative),
        }

    def told(self, model: Any, rows: Any, budget: int) -> str:
        """For people."""
        n, d = rows.shape
        lines = [f"kernel PCA of {n} rows x {d} features ({rows.dtype}) in {format_bytes(budget)}"]
        lines.append(
            f"kernel {kernel_text(model.kernel)}, components {model.n_components or 'all'}"
        )
        if self.plan is not None:
            return "\n".join([*lines, str(self.plan)])
        lines.append(str(self.refusal))
        if self.alternative is not None:
            rank = getattr(self.alternative.approximation, "rank", None)
            lines.append(f'This goes: --approximation "rpcholesky(rank={rank})"')
            lines.append(str(self.alternative))
        return "\n".join(lines)


def facts(found: Plan) -> dict[str, Any]:
    """Every field of a plan; solver and approximation as one would write them."""
    plain = {field.name: getattr(found, field.name) for field in fields(found)}
    plain["solver"] = repr(found.solver)
    if found.recipe is not None:
        plain["recipe"] = {"kind": type(found.recipe).__name__.lower(), **asdict(found.recipe)}
    plain["approximation"] = None if found.approximation is None else repr(found.approximation)
    return plain
