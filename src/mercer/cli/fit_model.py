"""From the options of `mercer fit` to an estimator: texts are parsed, options of other models refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer._core.errors import InputError, ParameterError
from mercer.approximations import APPROXIMATIONS
from mercer.cli.ending import refuse
from mercer.cli.options import Read
from mercer.engine.resolve import AUTO, DEVICES, ENGINES, resolve_engine
from mercer.kernels import RBF, Kernel, Linear
from mercer.kernels.text import parse_call, parse_kernel
from mercer.monitoring.limits import Rule
from mercer.preimage import PREIMAGES
from mercer.solvers import SOLVERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer.cli.verb import Call

ESTIMATORS: dict[str, type[Any]] = {
    "kpca": KernelPCA,
    "pca": PCA,
    "detector": KernelPCADetector,
    "incremental": IncrementalKernelPCA,
}
# Which options a model has, and the parameters of the estimator that are called otherwise.
ALL_TAKE = {"components", "engine", "weights"}
TAKES: dict[str, set[str]] = {
    "kpca": ALL_TAKE | {"kernel", "preimage", "approximation", "refine", "solver", "checkpoint"},
    "pca": ALL_TAKE | {"solver"},
    "detector": ALL_TAKE
    | {"kernel", "approximation", "refine"}
    | {"false_alarm", "contamination", "statistic", "limits", "folds", "wild"},
    "incremental": ALL_TAKE | {"kernel", "preimage", "landmarks"},
}
PARAMETERS = {"components": "n_components", "landmarks": "max_landmarks"}
TABLES: dict[str, dict[str, Any]] = {
    "approximation": APPROXIMATIONS,
    "solver": SOLVERS,
    "preimage": PREIMAGES,
}
ALL = "all"
ENDLESS = (2**53, 2**53)  # a shape that no number of landmarks exceeds


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
    "a number such as 3, a share of the variance such as 0.95, or all",
    _components,
)
SOLVING = (
    click.option(
        "--approximation",
        help="Such as rpcholesky(rank=500), nystrom(landmarks=500) or fourier(); exact otherwise.",
    ),
    click.option("--refine", type=click.IntRange(0), help="Exact passes after an approximation."),
    click.option("--solver", help="auto, lapack, lanczos, krylov, or krylov(tol=1e-10)."),
    click.option(
        "--engine",
        metavar="NAME",
        help=f"Where to compute: auto, {', '.join(ENGINES)}:tcp://host:8786 (a Dask scheduler), or a device "
        f"({', '.join(DEVICES)}).",
    ),
)


def solving_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how a fit is solved: a plan has them too."""
    for option in reversed(SOLVING):
        function = option(function)
    return function


@dataclass(frozen=True)
class Asked:
    """What is to be fitted: the kind of model, and its parameters."""

    kind: str
    params: dict[str, Any]

    @property
    def is_precomputed(self) -> bool:
        """Whether the file holds kernel values in place of rows."""
        kernel = self.params.get("kernel")
        return isinstance(kernel, Kernel) and kernel.is_precomputed

    @property
    def way_back_for_free(self) -> bool:
        """Whether the model can come back exactly, though nobody asked."""
        is_linear = isinstance(self.params.get("kernel"), Linear)
        return self.kind == "kpca" and is_linear and "preimage" not in self.params

    def estimator(self, n: int, *, verbose: int, scale: bool) -> Any:
        """The estimator, for n rows."""
        params = dict(self.params)
        refine = params.pop("refine", None)
        if refine is not None:
            chosen = params["approximation"]
            if isinstance(chosen, str):  # its rank is ours, not the user's
                chosen = APPROXIMATIONS[chosen]().at_most(n)
            params["approximation"] = replace(chosen, refine=refine)
        if self.way_back_for_free:
            params["preimage"] = "exact"
        if self.kind in ("kpca", "incremental"):
            params["verbose"] = verbose
        if self.kind == "detector":
            params["scale"] = scale
        return ESTIMATORS[self.kind](**params)


def asked_for(
    call: Call, kind: str, options: dict[str, Any], kernels: list[Kernel] | None = None
) -> Asked:
    """What the options ask for; raises before a file is opened.

    A comparison has several ``kernels``, and may end with any of them.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in TAKES[kind]:
            having = [f"--model {other}" for other, its in TAKES.items() if name in its]
            refuse(
                f"--{name.replace('_', '-')} is no option of --model {kind}, but of {', '.join(having)}."
            )
    if "refine" in given and "approximation" not in given:
        refuse("--refine came without --approximation: an exact fit has nothing to refine.")
    given.pop("weights", None)  # a column, which goes to `fit`
    params = {PARAMETERS.get(name, name): _parsed(name, value) for name, value in given.items()}
    params["random_state"] = call.params["seed"]
    if kind != "incremental":  # whose memory does not grow
        params["memory"] = call.params["memory"]
    asked = Asked(kind, params)
    if kind == "detector":
        as_usage(Rule.of, asked.estimator(ENDLESS[0], verbose=0, scale=True))
    _check_parts(asked, kernels or [params.get("kernel", RBF())])
    return asked


def _check_parts(asked: Asked, kernels: list[Kernel]) -> None:
    """Raise where a part has an impossible value, or suits none of the kernels, whatever the data are."""
    as_usage(resolve_engine, asked.params.get("engine", AUTO))
    parts = {name: _made(asked.params.get(name), known) for name, known in TABLES.items()}
    solver, approximation, preimage = (parts[n] for n in ("solver", "approximation", "preimage"))
    if solver is not None:
        as_usage(solver.check_params)
    if approximation is not None:
        _suits_one(kernels, lambda kernel: approximation.check(kernel, ENDLESS))
    if preimage is not None:
        if asked.is_precomputed:
            msg = "--preimage needs the rows, but with --kernel precomputed the file holds none."
            raise ParameterError(msg)
        _suits_one(kernels, preimage.check)


def _suits_one(kernels: list[Kernel], check: Callable[[Kernel], None]) -> None:
    """Raise the first complaint if there is one about every kernel."""
    refused = []
    for kernel in kernels:
        try:
            as_usage(check, kernel)
        except ParameterError as error:
            refused.append(error)
    if len(refused) == len(kernels):
        raise refused[0]


def as_usage(check: Callable[..., Any], *args: Any) -> None:
    """What a check says before any data are read is about the options."""
    try:
        check(*args)
    except InputError as error:
        raise ParameterError(str(error)) from error


def _made(part: Any, known: dict[str, Any]) -> Any:
    """The object behind a bare name; None for none, and for a choice that is made at the fit."""
    if not isinstance(part, str):
        return part
    return known[part]() if part in known else None


def _parsed(name: str, value: Any) -> Any:
    if name == "components":
        return None if value == ALL else value
    if name == "kernel":
        return parse_kernel(value)
    if name not in TABLES:
        return value
    # A name stays one, so that the library may adapt its defaults; a call with arguments is an object.
    bare = value.strip().lower()
    if bare in TABLES[name] or (name == "solver" and bare == "auto"):
        return bare
    return parse_call(value, TABLES[name], what=name)
