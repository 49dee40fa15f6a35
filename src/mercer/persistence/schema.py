"""The types that a model file may hold: an allow-list of classes by name, and what each is made of.

Nothing is ever made from a file but what is listed here, or a kernel with a formula that the program itself
has defined. The fields of a value, and what an estimator has learned, are those that the class itself
annotates (`mercer.persistence.annotations`); `LATER` alone is written here, fields that a file may be older
than. All others have to be there, whether a constructor has a default for them or not: with it, a map would
lose its gamma, and a fit that has not converged would claim that it has.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from pathlib import PosixPath, WindowsPath
from typing import Any, Literal, TypeAlias

from mercer._core.errors import ModelFileError
from mercer.approximations import APPROXIMATIONS
from mercer.approximations.base import Approximation
from mercer.approximations.random_features import FourierSections
from mercer.engine.moments import Moments, Scale
from mercer.engine.native.engine import NativeEngine
from mercer.engine.numpy import NumpyEngine
from mercer.estimators import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer.estimators.base import Projector
from mercer.estimators.prepared import Prepared
from mercer.kernels.base import FORMULAS, Kernel
from mercer.kernels.custom import Custom, GaussianProcess, Precomputed
from mercer.kernels.feature_map import ColumnsMap, ComposedMap, IdentityMap, PolynomialMap
from mercer.kernels.map_base import FeatureMap, ProductMap, ScaledMap, SumMap, UnitMap
from mercer.kernels.parameters import constructor_names
from mercer.model.certificate import Certificate, StreamCertificate
from mercer.model.projection import Projection
from mercer.model.result import Fit
from mercer.model.space import FeatureMean, FeatureSpace
from mercer.monitoring.contributions import Baselines, Relations
from mercer.monitoring.lags import Dynamics
from mercer.monitoring.library import KnownEvents
from mercer.monitoring.limits import Calibration, Limits, Rule
from mercer.monitoring.lineage import Generation
from mercer.monitoring.sensors import Sensors
from mercer.monitoring.statistics import Gauge
from mercer.operators.sections import FeatureSections, GivenSections, KernelSections
from mercer.persistence.annotations import Check, check_of
from mercer.planning import recipe
from mercer.planning.recipe import Plan
from mercer.preimage import PREIMAGES
from mercer.preimage.base import FittedPreimage, Preimage, Quality
from mercer.preimage.exact import DistancesBack, ExactBack
from mercer.preimage.ridge import RidgeBack
from mercer.preimage.search import Neighbours, Search, SearchBack
from mercer.preprocessing.preparation import Preparation
from mercer.solvers import SOLVERS
from mercer.solvers.base import EigenPairs, Solver, Status
from mercer.solvers.refine import NegativePart
from mercer.stream.dictionary import Dictionary
from mercer.stream.incremental import Stream

# value: made by its constructor from its fields. estimator: by its constructor from its parameters, with
# what it has learned set afterwards. member: of an enumeration, by its name.
Making: TypeAlias = Literal["value", "estimator", "member"]


@dataclass(frozen=True)
class Stored:
    """A class that may be in a file."""

    kind: Any
    fields: dict[str, str]  # annotations: of a value's fields, or of what an estimator has learned
    optional: frozenset[str] = frozenset()
    making: Making = "value"
    is_open: bool = False  # of scikit-learn, any version of which may add to what it has learned

    @property
    def required(self) -> set[str]:
        return set(self.fields) - self.optional


# ── values of a fit, the parts of a model, and their parameters ─────────────
RECIPES = (recipe.Given, recipe.Halved, recipe.Tiles, recipe.Whole)
PLANNED = (Plan, recipe.Proof, recipe.TileCache, *RECIPES)
SECTIONS = (FeatureSections, FourierSections, GivenSections, KernelSections)
BACKS = (DistancesBack, ExactBack, RidgeBack, SearchBack)
MAPS = (ColumnsMap, ComposedMap, IdentityMap, PolynomialMap, ProductMap, ScaledMap, SumMap, UnitMap)
FITTED = (Certificate, EigenPairs, FeatureMean, FeatureSpace, Fit, Moments, Projection)
PREIMAGE = (FittedPreimage, Neighbours, Quality, *BACKS)
STREAM = (Dictionary, Stream, StreamCertificate)
LIMITS = (Calibration, Gauge, Limits, Rule)
DETECTOR = (Baselines, Dynamics, Generation, KnownEvents, Relations, Sensors, *LIMITS)
OTHERS = (NativeEngine, NumpyEngine, Preparation, Prepared)
PARTS = (*PLANNED, *SECTIONS, *MAPS, *FITTED, *PREIMAGE, *STREAM, *DETECTOR, *OTHERS)
# As the first files name them, where a class has another name by now.
VALUES = {kind.__name__: kind for kind in PARTS} | {"ColumnScale": Scale, "LowEnd": NegativePart}
METHODS = (*APPROXIMATIONS.values(), *PREIMAGES.values(), *SOLVERS.values())
ESTIMATORS = (IncrementalKernelPCA, KernelPCA, KernelPCADetector, PCA)

# Fields that are younger than the first files: one that lacks them has their defaults.
LATER = {
    Baselines: {"unit", "relations"},
    EigenPairs: {"rounding", "unseen"},
    Fit: {"ceiling"},
    KnownEvents: {"courses", "rows"},
    Limits: {"note", "low", "high"},
    Plan: {"preimage", "preimage_bytes", "preimage_seconds", "host_bytes"},
    Preparation: {"ignoring", "units"},
    Quality: {"noisy"},
}
# What annotations name beside the classes above: a family, or one of several.
_BASES = (Approximation, FeatureMap, Kernel, Preimage, Projector, Search, Solver, Status, *METHODS)
FAMILIES: dict[str, Any] = {kind.__name__: kind for kind in _BASES}
FAMILIES |= {"Back": BACKS, "Recipe": RECIPES, "Sections": SECTIONS}
# By their names in files: scikit-learn's own are imported when one is met.
FAMILIES |= {
    "GaussianKernel": lambda value: str(name_of(value)).startswith("gp."),
    "KernelCenterer": lambda value: name_of(value) == "KernelCenterer",
    "PairwiseFunction": lambda value: name_of(value) == "PairwiseFunction",
}


def _of_dataclass(kind: Any) -> Stored:
    # What is not compared is not a part of the value: an engine belongs to a process.
    found = {field.name: str(field.type) for field in fields(kind) if field.compare}
    return Stored(kind, found, frozenset(LATER.get(kind, ())))


def of_parameters(kind: Any, *, needed: dict[str, str] | None = None) -> Stored:
    """Parameters of any value, checked where they are used; `needed` are those that have to be there."""
    found = {name: (needed or {}).get(name, "Any") for name in inspect.signature(kind).parameters}
    optional = frozenset() if needed is None else frozenset(found) - set(needed)
    return Stored(kind, found, optional)


def plan_of_format_1() -> Stored:
    """A plan as the first files have it: flags, one of them ``storage``, in place of a recipe."""
    parameters = inspect.signature(recipe.plan_of_flags).parameters.values()
    flags = {p.name: str(p.annotation) for p in parameters if p.kind is p.KEYWORD_ONLY}
    rest = {n: a for n, a in STORED["Plan"].fields.items() if n not in ("engine", "recipe")}
    return Stored(recipe.plan_of_flags, rest | flags, frozenset(LATER[Plan] | {"n_threads"}))


# ── kernels ─────────────────────────────────────────────────────────────────
# What the parameters of a kernel with a formula hold, but for those that are numbers or rules.
_PARTS = {"kernel": "Kernel", "left": "Kernel", "right": "Kernel", "columns": "Any"}


def of_formula(kind: type[Kernel], otherwise: str) -> Stored:
    """A kernel with a formula: made from the parameters of its constructor."""
    return Stored(kind, {n: _PARTS.get(n, otherwise) for n in constructor_names(kind)})


# ── estimators ──────────────────────────────────────────────────────────────
# Parameters of estimators that are looked at after the fit; all others are only kept for the next one.
PARAMETERS = {
    "approximation": "None | str | Approximation",
    "engine": "str | NumpyEngine | NativeEngine",
    "kernel": "str | Kernel | GaussianKernel",
    "model": "None | Projector",
    "n_components": "None | int | float",
    "preimage": "None | str | Preimage",
    "random_state": "Seed",
    "solver": "str | Solver",
}
# What an estimator may lack: a part that was not asked for, an attribute younger than the first files, and
# what scikit-learn's base classes add.
COMMON = {"feature_names_in_": "Names", "_sklearn_output_config": "Any", "_metadata_request": "Any"}
OF_DETECTORS = ("_calibration", "_known", "_lineage", "_sensors", "dynamics_", "set_aside_")
SOMETIMES = {*COMMON, *OF_DETECTORS, "preimage_", "_back"}


def of_estimator(kind: Any) -> Stored:
    """An estimator: what it has learned is what its classes annotate."""
    found = dict(COMMON)
    for base in reversed(kind.__mro__):
        ours = inspect.get_annotations(base) if base.__module__.startswith("mercer.") else {}
        found |= {  # not parameters, nor what is read off something else
            name: annotation
            for name, annotation in ours.items()
            if name != "_" and "_" in (name[0], name[-1]) and not hasattr(kind, name)
        }
    return Stored(kind, found, frozenset(SOMETIMES & set(found)), "estimator")


# ── the list ────────────────────────────────────────────────────────────────
STORED = {
    **{
        name: of_formula(kind, "None | float | str")  # a number, or a rule such as "median"
        for name, kind in FORMULAS.items()
        if kind.__module__.startswith("mercer.")
    },
    **{name: _of_dataclass(kind) for name, kind in VALUES.items()},
    **{kind.__name__: of_parameters(kind) for kind in METHODS},
    **{kind.__name__: of_estimator(kind) for kind in ESTIMATORS},
    # A function is never in a file. That of the drop-in is a name and numbers.
    "Custom": Stored(Custom, {"function": "PairwiseFunction", "form": "str"}),
    "GaussianProcess": Stored(GaussianProcess, {"kernel": "GaussianKernel"}),
    "Precomputed": Stored(Precomputed, {}),
    "Status": Stored(Status, {"name": "str"}, making="member"),
}
_OWN_NAMES = {stored.kind: name for name, stored in STORED.items()}


def of_scikit_learn() -> dict[str, Stored]:
    """What a file may hold of scikit-learn, and of the drop-in, which are imported when one is met."""
    from mercer.persistence.scikit_learn import STORED as found

    return found


def known_type(name: str) -> Stored | None:
    """What this name stands for: a type of the list, or a kernel with a formula of the program's own."""
    if name in STORED:  # first: a user's kernel can't take the place of a type of the list
        return STORED[name]
    if name in FORMULAS:
        return of_formula(FORMULAS[name], "Any")
    return of_scikit_learn().get(name)


def name_of(value: Any) -> str | None:
    """The name in a file of a value's type: of exactly that type, since a subclass may do anything."""
    kind = type(value)
    if kind in _OWN_NAMES:
        return _OWN_NAMES[kind]
    if kind.__module__.startswith(("sklearn.", "mercer.sklearn")):
        found = of_scikit_learn().items()
        return next((name for name, stored in found if stored.kind is kind), None)
    return kind.__name__ if FORMULAS.get(kind.__name__) is kind else None


# ── fields ──────────────────────────────────────────────────────────────────
@cache
def check_for(annotation: str) -> Check:
    """The check of an annotation, whose names are those of the list."""
    return check_of(annotation, {kind.__name__: kind for kind in VALUES.values()} | FAMILIES)


def check_fields(known: Stored, name: str, found: dict[str, Any]) -> None:
    """Raise unless all fields of an object are there, and are what their annotations say."""
    missing, extra = known.required - set(found), set(found) - set(known.fields)
    if known.is_open:  # data and never code, under a name that hides no method
        extra = {n for n in extra if "_" not in (n[:1], n[-1:]) or hasattr(known.kind, n)}
    if missing or extra:
        msg = f"its {name} lacks {sorted(missing)} and has {sorted(extra)} in their place"
        raise ModelFileError(msg)
    lengths: dict[str, int] = {}
    for field, value in found.items():
        _require(known.fields.get(field, "Any"), value, lengths, f"{field!r} of its {name}")


def check_parameters(name: str, params: dict[str, Any]) -> None:
    """Raise unless the parameters of an estimator that count after the fit are what they may be."""
    for param, value in params.items():
        _require(PARAMETERS.get(param, "Any"), value, {}, f"{param!r} of its {name}")


def _require(annotation: str, value: Any, lengths: dict[str, int], what: str) -> None:
    if not check_for(annotation)(value, lengths):
        msg = f"{what} must be {annotation}; got a {type(value).__name__}"
        raise ModelFileError(msg)


# ── skops ───────────────────────────────────────────────────────────────────
# What mercer's objects are made of, and holds no code: rows in files, written-out columns of a feature map.
_MADE_OF = (
    "mercer.data.files.Stamp",
    "mercer.data.npy.MappedRows",
    "mercer.data.npy.Stored",
    "mercer.kernels.monomials.Step",
    "mercer.kernels.monomials.Symbol",
    "mercer.kernels.monomials.Term",
    "mercer.sklearn.KernelPCA",
    "mercer.sklearn._Pairwise",
    "numpy.dtype",
    "pathlib.PosixPath",
    "pathlib.WindowsPath",
    "scipy.sparse._csr.csr_array",
)

# The types that skops has to trust to load mercer's models. Python 3.13 has other names for paths.
SKOPS_TRUSTED = sorted(
    {
        *_MADE_OF,
        *(f"{kind.__module__}.{kind.__name__}" for kind in (PosixPath, WindowsPath)),
        *(f"{k.__module__}.{k.__qualname__}" for k in _OWN_NAMES if not issubclass(k, Enum)),
    }
)
