"""From a request to an estimator: texts are parsed, options of other models refused, before data are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer._core.errors import InputError, ParameterError
from mercer.app.outcome import refuse, refuse_value
from mercer.approximations import APPROXIMATIONS
from mercer.engine.resolve import AUTO, resolve_engine
from mercer.estimators.detector_lags import check_past
from mercer.kernels import RBF, Kernel, Linear
from mercer.kernels.algebra import placed
from mercer.kernels.text import parse_call, parse_kernel
from mercer.monitoring.limits import Rule
from mercer.preimage import PREIMAGES
from mercer.solvers import SOLVERS

ESTIMATORS: dict[str, type[Any]] = {
    "kpca": KernelPCA,
    "pca": PCA,
    "detector": KernelPCADetector,
    "incremental": IncrementalKernelPCA,
}
PARAMETERS = {"components": "n_components", "landmarks": "max_landmarks"}  # that have another name
TABLES: dict[str, dict[str, Any]] = {
    "approximation": APPROXIMATIONS,
    "solver": SOLVERS,
    "preimage": PREIMAGES,
}
ALL = "all"
ENDLESS = (2**53, 2**53)  # a shape that no number of landmarks exceeds


def takes(kind: str, option: str) -> bool:
    """Whether a model has an option: as a parameter, or, as all have weights, in its `fit`."""
    name = {**PARAMETERS, "refine": "approximation"}.get(option, option)
    if option == "choose":  # between detectors
        return kind == "detector"
    return option == "weights" or name in signature(ESTIMATORS[kind]).parameters


@dataclass(frozen=True)
class Asked:
    """What is to be fitted: the kind of model, and its parameters."""

    kind: str
    params: dict[str, Any]

    def of(self, names: Sequence[str]) -> Asked:
        """With positions where the kernel names columns; a detector places them itself, among its lags."""
        kernel = self.params.get("kernel")
        if self.kind == "detector" or not isinstance(kernel, Kernel):
            return self
        return replace(self, params={**self.params, "kernel": placed(kernel, names)})

    @property
    def is_precomputed(self) -> bool:
        """Whether the file holds kernel values in place of rows."""
        kernel = self.params.get("kernel")
        return isinstance(kernel, Kernel) and kernel.is_precomputed

    @property
    def has_free_preimages(self) -> bool:
        """Whether exact pre-images cost nothing, and are kept though none were asked for."""
        is_linear = isinstance(self.params.get("kernel"), Linear)
        return self.kind == "kpca" and is_linear and "preimage" not in self.params

    def estimator(self, n: int, *, scale: bool = False) -> Any:
        """The estimator, for n rows; `scale`: a detector standardises them itself."""
        params = dict(self.params)
        refine = params.pop("refine", None)
        if refine is not None:
            chosen = params["approximation"]
            if isinstance(chosen, str):  # its rank is ours, not the user's
                chosen = APPROXIMATIONS[chosen]().at_most(n)
            params["approximation"] = replace(chosen, refine=refine)
        if self.has_free_preimages:
            params["preimage"] = "exact"
        if self.kind == "detector":
            params["scale"] = scale
        return ESTIMATORS[self.kind](**params)


def asked_for(
    kind: str,
    options: dict[str, Any],
    *,
    seed: int,
    memory: str,
    kernels: list[Kernel] | None = None,
) -> Asked:
    """What the options ask for; raises before a file is opened.

    A comparison has several ``kernels``, and may end with any of them.
    """
    if kind not in ESTIMATORS:
        refuse_value("kind", kind, ", ".join(ESTIMATORS))
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if not takes(kind, name):
            having = ", ".join(f"{{kind:{other}}}" for other in ESTIMATORS if takes(other, name))
            refuse(f"{{{name}}} is not an option of {{kind:{kind}}}, but of {having}.")
    if "refine" in given and "approximation" not in given:
        refuse("{refine} needs {approximation}: an exact fit has nothing to refine.")
    given.pop("weights", None)  # a column, which goes to `fit`
    params = {PARAMETERS.get(name, name): _parsed(name, value) for name, value in given.items()}
    params["random_state"] = seed
    if kind != "incremental":  # whose memory does not grow
        params["memory"] = memory
    asked = Asked(kind, params)
    if kind == "detector":
        detector = asked.estimator(ENDLESS[0], scale=True)
        as_usage(Rule.of, detector)
        as_usage(check_past, detector)
    _check_parts(asked, kernels or [params.get("kernel", RBF())])
    return asked


def _check_parts(asked: Asked, kernels: list[Kernel]) -> None:
    """Raise where a part has an impossible value, or suits none of the kernels, whatever the data are."""
    as_usage(resolve_engine, asked.params.get("engine", AUTO))
    parts = {name: _made(asked.params.get(name), known) for name, known in TABLES.items()}
    approximation, solver, preimage = parts["approximation"], parts["solver"], parts["preimage"]
    if solver is not None:
        as_usage(solver.check_params)
    if approximation is not None:
        _suits_one(kernels, lambda kernel: approximation.check(kernel, ENDLESS))
    if preimage is not None:
        if asked.is_precomputed:
            refuse("{preimage} needs rows; with {kernel:'precomputed'} the file has kernel values.")
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
        raise ParameterError(*error.args) from error


def _made(part: Any, known: dict[str, Any]) -> Any:
    """The object behind a bare name; None for none, and for a choice that is made at the fit."""
    if not isinstance(part, str):
        return part
    return known[part]() if part in known else None


def _parsed(name: str, value: Any) -> Any:
    if name == "components":
        return None if value == ALL else value
    if name == "kernel" and isinstance(value, str):
        return parse_kernel(value)
    if name not in TABLES or not isinstance(value, str):
        return value
    # A name stays one, so that the library may adapt its defaults; a call with arguments is an object.
    bare = value.strip().lower()
    if bare in TABLES[name] or (name == "solver" and bare == "auto"):
        return bare
    return parse_call(value, TABLES[name], what=name)
