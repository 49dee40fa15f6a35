"""Parameters of an estimator, and where each lives that it does not have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np

from mercer._core.errors import (
    LONGEST,
    InputError,
    MercerError,
    UnknownParameterError,
    close_to,
    nearest,
)
from mercer._core.public import unknown_words
from mercer.approximations import APPROXIMATIONS
from mercer.engine.resolve import AUTO, is_client
from mercer.estimators.preimages import named_approximation, named_preimage
from mercer.kernels import KERNELS, RBF, Kernel, Matern, Polynomial, as_kernel
from mercer.planning.plan import named_solver
from mercer.preimage import PREIMAGES
from mercer.solvers import SOLVERS

Values: TypeAlias = dict[str, Any]
Sentences: TypeAlias = "Iterable[tuple[set[str], str]]"  # each with the names that it answers
Rule: TypeAlias = "Callable[[Values, Values], Sentences]"  # of those unknown, and of all given

# What scikit-learn's estimators take; those of the same meaning have the same name here.
SKLEARN_KERNEL_PCA = (
    "gamma", "degree", "coef0", "kernel_params", "alpha", "fit_inverse_transform", "eigen_solver", "tol",
    "max_iter", "iterated_power", "remove_zero_eig", "copy_X", "n_jobs",
)  # fmt: skip
SKLEARN_PCA = (
    "copy", "svd_solver", "tol", "iterated_power", "n_oversamples", "power_iteration_normalizer",
)  # fmt: skip

# What estimators say of parameters that they do not have but that are known elsewhere.
_KRYLOV = "BlockKrylov finds its own number of steps"
_CENTRED = "rows are always centred in feature space"
NEEDLESS = {
    "center": _CENTRED,
    "centre": _CENTRED,
    "copy": "rows are never changed",
    "copy_X": "rows are never changed",
    "dtype": "the precision is that of the rows",
    "iterated_power": _KRYLOV,
    "n_jobs": "threads are those of BLAS: set OPENBLAS_NUM_THREADS, or use threadpoolctl.threadpool_limits",
    "n_oversamples": _KRYLOV,
    "power_iteration_normalizer": _KRYLOV,
    "remove_zero_eig": "components without variance are always left out",
    "sample_weight": "`fit` takes it",
    "scale": "a StandardScaler in front of the model scales the columns",
}
EIGEN_SOLVERS = {
    "auto": "auto", "dense": "lapack", "full": "lapack", "covariance_eigh": "lapack", "arpack": "krylov",
    "randomized": "krylov",
}  # fmt: skip
_SMALL = "The problem of a stream is as small as its dictionary: there is no choice, leave it out."
PCA_WORDS = {"kernel": "Its kernel is the dot product: use KernelPCA(kernel={})."}
STREAM_WORDS = {
    "approximation": "The dictionary is its approximation: max_landmarks is its size, tol its error.",
    "checkpoint": "Save the model between batches instead: model.save(path).",
    "memory": "max_landmarks and batch_size bound the memory: m² + bm numbers, whatever the number of rows.",
    "n_landmarks": "Write max_landmarks={}.",
    "rank": "Write max_landmarks={}.",
    "solver": _SMALL,
    "eigen_solver": _SMALL,
    "whiten": "Divide the scores by np.sqrt(explained_variance_).",
}
DETECTOR_WORDS = {
    "alpha": "Write false_alarm={}, the share of normal rows that may be called outliers.",
    "nu": "Write contamination={}, the share of the training rows that are not normal.",
    "preimage": "A detector needs none: leave it out.",
    "threshold": "Limits are learned: write false_alarm=0.01 or contamination=0.05.",
    "checkpoint": "Give it to the model inside: model=KernelPCA(checkpoint={}).",
    "solver": "Give it to the model inside: model=KernelPCA(solver={}).",
    "verbose": "Give it to the model inside: model=KernelPCA(verbose={}).",
}


class Part(NamedTuple):
    """A part that has parameters of its own: its kinds by name, what makes one of a text, and such a text."""

    kinds: Mapping[str, type]
    make: Callable[[Any], Any]
    example: str


PARTS = {
    "kernel": Part(KERNELS, as_kernel, "rbf"),
    "solver": Part(SOLVERS, named_solver, "krylov"),
    "approximation": Part(APPROXIMATIONS, named_approximation, "rpcholesky"),
    "preimage": Part(PREIMAGES, named_preimage, "ridge"),
}
# The kernel that a knob is known for, where the user named none that has it.
KNOWN_FOR: dict[str, type[Kernel]] = {
    "gamma": RBF,
    "sigma": RBF,
    "degree": Polynomial,
    "coef0": Polynomial,
    "length_scale": Matern,
    "nu": Matern,
}


# ── rules: one sentence for some of the unknown names ──────────────────────
def _of_kernel(unknown: Values, given: Values) -> Sentences:
    asked = given.get("kernel")
    if isinstance(asked, str):
        try:
            asked = as_kernel(asked)
        except InputError:  # the fit refuses it
            asked = None
    if asked is not None and not isinstance(asked, Kernel):
        names = set(unknown) & {*KNOWN_FOR, "kernel_params"}
        bound = {**unknown, **(unknown.get("kernel_params") or {})}
        values = {n: v for n, v in bound.items() if n not in SKLEARN_KERNEL_PCA or n in KNOWN_FOR}
        function = getattr(asked, "__name__", "function").replace("<lambda>", "function")
        if names:
            how = f"kernel=functools.partial({function}, {_listed(values)})"
            yield names, f"Bind {_named(sorted(names))} to the function: {how}."
        return
    if "kernel_params" in unknown:
        pairs = _listed(unknown["kernel_params"] or {}) or "…"
        how = f"kernel=functools.partial(function, {pairs})"
        yield {"kernel_params"}, f"It is for functions: bind the values, {how}."
    wanted = [name for name in unknown if name in KNOWN_FOR]
    own: Values = {} if asked is None else asked.get_params(deep=False)
    kind: Any = type(asked) if own.keys() & unknown.keys() else None
    if wanted and asked is None:
        kind = KNOWN_FOR[max(wanted, key=list(KNOWN_FOR).index)]
    if kind is not None:
        yield from _filled(kind, own, unknown)
    taken = () if kind is None else _parameters(kind)
    idle = {name: unknown[name] for name in wanted if name not in taken}
    if idle and asked is not None and asked.children:
        yield set(idle), f"Write {_named(idle)} into a kernel inside {asked!r}."
    elif idle:
        whose = kind.__name__ if asked is None and kind is not None else type(asked).__name__
        yield set(idle), f"{whose} has no {' and no '.join(idle)}: leave {_named(idle)} out."


def _filled(kind: type[Kernel], own: Values, unknown: Values) -> Sentences:
    """The kernel with these values, as an object and as text."""
    usual = _parameters(kind)
    values = {**own, **{n: v for n, v in unknown.items() if n in usual}}
    changed = {n: v for n, v in values.items() if n in unknown or v != usual[n].default}
    why = ""
    # degree=2 alone is scikit-learn's way of writing.
    if kind is Polynomial and "gamma" not in changed:
        changed["gamma"], why = "1/d", " (scikit-learn's gamma; 1.0 is the default here)"
    listed, name = _listed(changed), next(n for n, k in KERNELS.items() if k is kind)
    if kind is RBF:
        name = "rbf"
    text = f"{name}({listed})"
    names = [n for n in unknown if n in usual]
    how = f"kernel={kind.__name__}({listed}) of mercer.kernels, or kernel={text!r}{why}"
    yield set(names), f"Write {_named(names)} into the kernel: {how}."


def _of_solver(unknown: Values, _given: Values) -> Sentences:
    names = {"eigen_solver", "svd_solver", "tol", "max_iter"} & unknown.keys()
    if not names:
        return
    asked = unknown.get("eigen_solver", unknown.get("svd_solver", "arpack"))
    name = EIGEN_SOLVERS.get(str(asked), "auto")
    ours = {"tol": "tol", "max_iter": "max_products"}
    knobs = {ours[name]: unknown[name] for name in ours if unknown.get(name)}
    if name == "krylov" and knobs:
        how = f"solver=BlockKrylov({_listed(knobs)}) of mercer.solvers"
        yield names, f"Write {_named(sorted(names))} into the solver: {how}."
    elif name == "krylov" and names <= {"tol", "max_iter"}:  # tol=0, max_iter=None
        yield names, f"Leave {_named(sorted(names))} out: solver='auto' has limits of its own."
    else:
        yield names, f"Write solver={name!r}."


def _of_preimage(unknown: Values, _given: Values) -> Sentences:
    names = {"fit_inverse_transform", "alpha"} & unknown.keys()
    if not names:
        return
    if not unknown.get("fit_inverse_transform", True):
        why = "without `preimage` there is no inverse_transform"
        yield names, f"Leave {_named(sorted(names))} out: {why}."
    elif "alpha" in unknown:
        how = f"Ridge({_listed({'alpha': unknown['alpha']})}) of mercer.preimage"
        yield names, f"Write preimage={how}."
    else:
        yield names, "Write preimage='ridge'."


def _of_parts(*parts: str) -> Rule:
    """Of the first kind of these parts whose signature has the name: ``rank=500`` of an approximation."""

    def look(unknown: Values, _given: Values) -> Sentences:
        kinds = [(part, kind) for part in parts for kind in PARTS[part].kinds.values()]
        for name, value in unknown.items():
            part, kind = next((pair for pair in kinds if name in _parameters(pair[1])), ("", None))
            if kind is not None:
                room = kind.__module__.rpartition(".")[0]
                yield {name}, f"Write {part}={kind.__name__}({_listed({name: value})}) of {room}."

    return look


def _fixed(sentences: Mapping[str, str]) -> Rule:
    """Sentences by name, with the user's value for ``{}``."""

    def look(unknown: Values, _given: Values) -> Sentences:
        for name, value in unknown.items():
            if name in sentences:
                yield {name}, sentences[name].format(_shown(value))

    return look


@dataclass(frozen=True)
class Advice:
    """Answers to parameters that an estimator lacks, and those that another class takes."""

    rules: tuple[Rule, ...]
    theirs: tuple[str, ...] = ()
    other: str = ""

    def __call__(self, known: Iterable[str], unknown: Values, given: Values) -> str:
        """One sentence for each, from the first rule that has one; the nearest name where none has."""
        left, said = dict(unknown), []
        for rule in self.rules:
            for names, sentence in rule(left, given):
                if names & left.keys():
                    left = {name: value for name, value in left.items() if name not in names}
                    said.append(sentence)
        said += [nearest(name, known) for name in list(left)[:1]]
        same = {name: value for name, value in unknown.items() if name in self.theirs}
        if same:  # they may be written as they are
            are = "it is" if len(same) == 1 else "they are"
            said.append(f"{self.other} takes {_listed(same)} as {are}.")
        return " ".join(said)


def _parameters(kind: type) -> Mapping[str, inspect.Parameter]:
    return {
        name: p
        for name, p in inspect.signature(kind).parameters.items()
        if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    }


def _listed(values: Values) -> str:
    return ", ".join(f"{name}={_shown(value)}" for name, value in values.items())


def _shown(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    plain = isinstance(value, (str, int, float, dict, type(None)))
    return repr(value) if plain and len(repr(value)) < LONGEST else "…"


def _named(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


needless = _fixed({name: f"Leave {name} out: {why}." for name, why in NEEDLESS.items()})
KERNEL_PCA = Advice(
    (_of_kernel, _of_preimage, _of_solver, needless, _of_parts(*PARTS)),
    SKLEARN_KERNEL_PCA,
    "mercer.sklearn.KernelPCA",
)
PCA = Advice((_fixed(PCA_WORDS), _of_solver, needless), SKLEARN_PCA, "sklearn.decomposition.PCA")
STREAM = Advice(
    (_fixed(STREAM_WORDS), _of_kernel, _of_preimage, needless, _of_parts("kernel", "preimage"))
)
DETECTOR = Advice(
    (_fixed(DETECTOR_WORDS), _of_kernel, needless, _of_parts("kernel", "approximation"))
)


# ── the form ────────────────────────────────────────────────────────────────
OPEN = "auto"  # stands for a choice made at the fit, not for an object


class Form:
    """Parts by name, and an answer in words to names that don't exist; for a `BaseEstimator`."""

    _advice: ClassVar[Advice]

    @classmethod
    def _elsewhere(cls, unknown: Values, given: Values) -> str:
        return cls._advice(cls._get_param_names(), unknown, given)  # type: ignore[attr-defined]

    def __sklearn_clone__(self) -> Self:
        """A clone computes in the same place: a client can't be copied."""
        engine = getattr(self, "engine", None)
        if not is_client(engine):
            return super().__sklearn_clone__()  # type: ignore[misc]
        plain: Any = copy(self)
        plain.engine = AUTO
        found = plain.__sklearn_clone__()
        found.engine = engine
        return found

    def __getstate__(self) -> dict[str, Any]:
        """The state for a pickle: another process has no such client, and computes by itself."""
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return state | {"engine": AUTO} if is_client(state.get("engine")) else state

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the parts as ``kernel__gamma`` or ``solver__tol``.

        A part that was given by name becomes its object: with ``kernel__gamma=2`` the kernel ``"rbf"`` is
        ``RBF(gamma=2)`` from then on. The order of the parameters does not matter.

        Parameters
        ----------
        **params : parameters by name

        Returns
        -------
        self
        """
        own: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        plain = {name: value for name, value in params.items() if "__" not in name}
        if not {name.partition("__")[0] for name in params} <= own.keys():
            given = {name.partition("__")[0]: value for name, value in params.items()}
            words = unknown_words(type(self).__name__, list(own), {**own, **given}, type(self))
            msg = f"{words}{self._keys({**own, **plain}, plain)}"
            raise UnknownParameterError(msg)
        values, parts = {**own, **plain}, {}
        for name, value in params.items():
            part, _, knob = name.partition("__")
            if not knob:
                continue
            made = _with_knobs(part, values[part], name)
            _require_key(part, made, knob)
            if made is not values[part] or part in parts:
                values[part] = parts[part] = made
                made.set_params(**{knob: value})  # before anything of the estimator has changed
        rest = {name: params[name] for name in params if name.partition("__")[0] not in parts}
        super().set_params(**rest, **parts)  # type: ignore[misc]
        return self

    def _keys(self, values: Values, names: Iterable[str]) -> str:
        """The keys of parameters that the parts have, for a search; empty where they have none."""
        found, known = [], self.get_params(deep=False)  # type: ignore[attr-defined]
        for part in [part for part in PARTS if values.get(part) not in (None, OPEN)]:
            try:
                made = PARTS[part].make(values[part])
            except MercerError:  # the fit refuses it
                continue
            own = made.get_params(deep=False)
            found += [f"{part}__{name}" for name in names if name in own and name not in known]
        return f" set_params and searches take {_named(found)}." if found else ""


def _with_knobs(part: str, value: Any, name: str) -> Any:
    """The object of a part, made where it is given by its name; raises where there are no knobs to set."""
    opened, known = isinstance(value, str) and value == OPEN, part in PARTS
    made = value
    if value is None or isinstance(value, str):
        made = PARTS[part].make(value) if known and value is not None and not opened else None
        made = made if made is not None and made.get_params() else None
    if hasattr(made, "set_params"):
        return made
    why = "is chosen at the fit and has no parameters" if opened else "has no parameters"
    given = f"a {type(value).__name__} as {part}" if callable(value) else f"{part}={value!r}"
    msg = f"{name} can't be set: {given} {why}."
    if known or part == "model":
        example = repr(PARTS[part].example) if known else "KernelPCA()"
        msg += f" Set the part by name as well, such as {part}={example}, or pass an object."
    raise InputError(msg)


def _require_key(part: str, value: Any, knob: str) -> None:
    """Raise unless the object of a part has such a parameter, with the keys that it has."""
    if knob.partition("__")[0] in value.get_params(deep=False):
        return
    keys = [f"{part}__{key}" for key in value.get_params()]
    inside = [key for key in keys if key.endswith(f"__{knob}")]
    hint = f"Write {' or '.join(inside)}." if inside else close_to(f"{part}__{knob}", keys)
    msg = f"{part}__{knob} can't be set: {type(value).__name__} has no parameter {knob!r}."
    words = (msg, hint, f"Its keys are {', '.join(keys)}.")
    raise UnknownParameterError(" ".join(filter(None, words)))
