"""What a detector is made of: its rule and its model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from inspect import signature
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from mercer._core.errors import DetectorWarning, InputError, nearest
from mercer.estimators.base import Projector
from mercer.estimators.kernel_pca import KernelPCA
from mercer.estimators.parts import named_approximation
from mercer.estimators.validation import as_generator, users_level
from mercer.kernels import RBF

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices, Rows
    from mercer.kernels import Kernel
    from mercer.monitoring.limits import Limits
    from mercer.monitoring.statistics import Statistics

STATISTICS = ("T2", "Q", "combined")
METHODS = ("cross-validation", "approximate")
WILD = ("aside", "keep")
FALSE_ALARM = 0.01
# σ of the default kernel, in median distances. A narrow kernel takes the rows it has seen for all there is of
# normal, and what bends in it hides small faults from Q: docs/monitoring.md has figures for both.
WIDE = 16.0


@dataclass(frozen=True)
class Rule:
    """How often to be wrong, and by what to judge."""

    rate: float
    in_sample: bool  # the rate is the share of training rows that are not normal
    statistic: str
    method: str

    @classmethod
    def of(cls, detector: Any) -> Rule:
        """The rule of a detector, checked."""
        statistic = known("statistic", detector.statistic, STATISTICS)
        method = known("limits", detector.limits, METHODS)
        if not isinstance(detector.scale, (bool, np.bool_)):
            msg = f"scale={detector.scale!r} came. Use scale=True or scale=False."
            raise InputError(msg)
        known("wild", detector.wild, WILD)
        alarm, share = detector.false_alarm, detector.contamination
        if alarm is not None and share is not None:
            msg = (
                f"false_alarm={alarm!r} and contamination={share!r} came, but one of them sets the limit: "
                "false_alarm the rate on new normal rows, contamination the share of training rows that "
                "are not normal. Leave one out."
            )
            raise InputError(msg)
        if share is not None and method == "approximate":
            msg = (
                f"contamination={share!r} and limits='approximate' came, but `contamination` reads the "
                "limits off the training rows, not off distributions. Leave one out."
            )
            raise InputError(msg)
        if share is not None:
            return cls(_share("contamination", share, 0.5), True, statistic, method)
        rate = FALSE_ALARM if alarm is None else _share("false_alarm", alarm, 1.0)
        return cls(rate, False, statistic, method)

    def index(self, limits: Limits, found: Statistics) -> Array:  # (b,)
        """What is gone by, in units of the limits."""
        if self.statistic == "T2":
            return found.t2 / limits.t2
        if self.statistic == "Q":
            return found.q / limits.q
        return limits.indices(found)

    def limit(self, limits: Limits) -> float:
        """That of the index."""
        return limits.index if self.statistic == "combined" else 1.0

    def joint(self, limits: Limits) -> Limits:
        """Limits of T² and Q where alarms begin, so that each statistic has one limit, and the index 1.

        Two tests make more false alarms than one, so where both judge, the index has a limit of its own;
        that of T² in the table would not be the line at which T² makes an alarm.
        """
        edge = self.limit(limits)
        return replace(limits, t2=edge * limits.t2, q=edge * limits.q, index=limits.index / edge)


def known(name: str, value: Any, names: tuple[str, ...]) -> str:
    """The name, if it is one of these."""
    if isinstance(value, str) and value in names:
        return value
    msg = f"{name}={value!r} came. {nearest(str(value), names)}"
    raise InputError(msg)


def _share(name: str, value: Any, most: float) -> float:
    if isinstance(value, Real) and not isinstance(value, bool) and 0.0 < float(value) < most:
        return float(value)
    msg = f"{name}={value!r} came, but a share between 0 and {most:g} was needed, such as 0.01."
    raise InputError(msg)


def listed(columns: Indices, names: Any) -> str:
    """The first ten columns, by number and by name."""
    shown = [str(j) if names is None else f"{j} ({names[j]!r})" for j in columns[:10]]
    more = "" if len(columns) <= 10 else f" and {len(columns) - 10} more"
    return ", ".join(shown) + more


def tell_still(columns: Indices, names: Any) -> None:
    """Warn of columns that never move: they can't be scaled, and a sensor may be stuck."""
    if len(columns) == 0:
        return
    msg = (
        f"{len(columns)} column(s) do not change in the training rows: {listed(columns, names)}. They are "
        "centred but not scaled, so that any change counts in its own unit. Drop them if their sensors "
        "are stuck, or if such changes mean nothing."
    )
    warnings.warn(msg, DetectorWarning, stacklevel=users_level())


# Contributions that miss their sum by more than this share of it are not to be relied on.
INCOMPLETE = 1e-2


def tell_gaps(gap: Array) -> None:
    """Warn of contributions that don't sum to what they should."""
    bad = ~(gap <= INCOMPLETE)
    if np.any(bad):
        msg = (
            f"The contributions of {int(bad.sum())} of {len(bad)} rows miss their sum by up to "
            f"{float(np.max(gap)):.1%} of it: the kernel changes too fast on the way to those rows, or they "
            "lie too far out. Look at the readings themselves, or use a wider or a smoother kernel."
        )
        warnings.warn(msg, DetectorWarning, stacklevel=users_level())


def refuse_sparse(rows: Rows) -> None:
    """Centring would fill a sparse matrix."""
    if hasattr(rows, "indptr"):
        msg = "Sparse rows came, but a detector scales its columns. Use X.toarray()."
        raise InputError(msg)


# ── the model ───────────────────────────────────────────────────────────────
def chosen_model(detector: Any, x: Array, weights: Array | None = None) -> Projector:
    """A fresh model: a clone of the one that was given, or a kernel PCA of the detector's own knobs."""
    given = detector.model
    if given is not None:
        if not isinstance(given, Projector):
            msg = (
                f"`model` must be KernelPCA, PCA or IncrementalKernelPCA, not {type(given).__name__}. "
                "Pass an object, such as model=PCA(0.95)."
            )
            raise InputError(msg)
        _refuse_both(detector)
        model: Projector = clone(given)
        if "preimage" in model.get_params(deep=False):  # a way back is never asked for
            model.set_params(preimage=None)
    else:
        model = KernelPCA(
            detector.n_components,
            kernel=_kernel(detector, x, weights),
            approximation=clone_part(detector.approximation),
            memory=detector.memory,
            engine=detector.engine,
            random_state=detector.random_state,
        )
    if model.__sklearn_tags__().input_tags.pairwise:
        msg = (
            "A detector needs rows, to scale them and to hold some out, but kernel='precomputed' came. "
            "Pass the kernel as a function of two matrices."
        )
        raise InputError(msg)
    return model


def _refuse_both(detector: Any) -> None:
    """A model brings its own knobs: those that were set beside it would be forgotten in silence.

    Not so `n_components`, which scikit-learn's checks set on every estimator that has it.
    """
    usual = signature(type(detector)).parameters
    for name in ("kernel", "approximation", "memory", "engine"):
        if name not in usual:  # a subclass may have others
            continue
        value, default = getattr(detector, name), usual[name].default
        if value is not default and not (isinstance(value, type(default)) and value == default):
            msg = f"{name}={value!r} and a `model` came, which has its own. Set it there, or leave one out."
            raise InputError(msg)


def clone_part(part: Any) -> Any:
    """A copy of an object with parameters; names and None as they are."""
    return clone(part, safe=False)


def _kernel(detector: Any, x: Array, weights: Array | None) -> Kernel | Any:
    if not (isinstance(detector.kernel, str) and detector.kernel == "auto"):
        return clone_part(detector.kernel)
    median = RBF().resolve(x, rng=as_generator(detector.random_state), weights=weights)
    return RBF(float(median.gamma) / WIDE**2)  # type: ignore[arg-type]


def part_model(model: Projector, n: int) -> Projector:
    """The fitted model again, for a part of its rows: same kernel and number of components."""
    again: Projector = clone(model)
    again.set_params(n_components=model.n_components_)
    if hasattr(model, "kernel_"):
        again.set_params(kernel=model.kernel_)
    approximation = named_approximation(getattr(model, "approximation", None))
    if approximation is not None:
        again.set_params(approximation=approximation.at_most(n))
    return again
