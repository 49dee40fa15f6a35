"""A prepared model as a pipeline of scikit-learn, and such a pipeline as a prepared model.

A `Preparation` fills numbers, turns words into columns of 0 and 1, and scales: (x - center)/spread. So do
chains of imputers, one-hot encoders and scalers, since scalers are one scaler together: with centers c and
spreads s, ((x - c₁)/s₁ - c₂)/s₂ = (x - (c₁ + s₁c₂))/(s₁s₂).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from numbers import Real
from typing import Any, NoReturn

import numpy as np

from mercer._core.errors import InputError, quoted
from mercer._core.types import Array
from mercer.estimators.base import Saving
from mercer.preprocessing.preparation import Preparation


# ── out ─────────────────────────────────────────────────────────────────────
def steps_of(made: Preparation) -> list[tuple[str, Any]]:
    """What was learned from a file, in transformers of scikit-learn."""
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import StandardScaler

    steps: list[tuple[str, Any]] = []
    if made.categories:
        steps.append(("columns", _columns(made)))
    elif made.fills is not None:
        steps.append(("impute", SimpleImputer().fit(made.fills[None, :])))  # the mean of one row
    if made.center is not None or made.spread is not None:
        scale = StandardScaler().fit(np.zeros((2, len(made.features))))  # mean 0, scale 1
        scale.mean_ = scale.mean_ if made.center is None else made.center
        scale.scale_ = scale.scale_ if made.spread is None else made.spread
        scale.var_ = scale.scale_**2
        steps.append(("scale", scale))
    if steps and not made.categories:  # a frame with other columns is refused, as by `Prepared`
        steps[0][1].feature_names_in_ = np.array(made.numbers, dtype=object)
    return steps


def _columns(made: Preparation) -> Any:
    """Numbers filled, words as columns of 0 and 1, by the names of the file."""
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    fills = np.zeros(len(made.numbers)) if made.fills is None else made.fills
    levels = {name: list(found) for name, found in made.categories}
    numbers = "passthrough" if made.fills is None else SimpleImputer()
    row = dict(zip(made.numbers, fills, strict=True)) | {n: found[0] for n, found in levels.items()}
    parts: list[Any] = [("numbers", numbers, list(made.numbers))]
    # An encoder for each run of columns that treat unknown words alike: the order of columns stays.
    runs = groupby(levels, key=lambda name: "ignore" if name in made.ignoring else "error")
    for i, (how, run) in enumerate(runs):
        names = list(run)
        own = [levels[name] for name in names]
        words = OneHotEncoder(categories=own, sparse_output=False, handle_unknown=how)
        parts.append((f"words{i + 1}" if i else "words", words, names))
    return ColumnTransformer(parts).fit(pd.DataFrame([row]))


# ── in ──────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class _Chain:
    """What steps do to columns: those of numbers, then those of words."""

    numbers: tuple[str, ...]
    categories: tuple[tuple[str, tuple[str, ...]], ...]
    fills: Array | None
    center: Array  # (d,)
    spread: Array  # (d,)
    ignoring: tuple[str, ...] = ()  # the columns of words that take an unknown one as zeros

    @classmethod
    def of(cls, numbers: Iterable[str]) -> _Chain:
        names = tuple(map(str, numbers))
        return cls(names, (), None, np.zeros(len(names)), np.ones(len(names)))

    def scaled(self, center: Any, spread: Any) -> _Chain:
        center, spread = (0.0 if center is None else center), (1.0 if spread is None else spread)
        shifted = self.center + self.spread * center
        return replace(self, center=shifted, spread=self.spread * spread)

    def filled(self, values: Any) -> _Chain:
        if self.fills is not None:  # nothing is missing any more
            return self
        p = len(self.numbers)  # values are in the units of this place in the chain
        return replace(self, fills=self.center[:p] + self.spread[:p] * np.asarray(values)[:p])

    def beside(self, other: _Chain) -> _Chain:
        if self.categories and other.numbers:
            _refuse("columns of words before columns of numbers")
        fills = None
        if self.fills is not None or other.fills is not None:
            parts = (self, other) if other.numbers else (self,)
            if any(chain.fills is None and chain.numbers for chain in parts):
                _refuse("an imputer for some columns of numbers and not for others")
            fills = np.concatenate([chain.fills for chain in parts if chain.fills is not None])
        return _Chain(
            (*self.numbers, *other.numbers),
            (*self.categories, *other.categories),
            fills,
            np.concatenate([self.center, other.center]),
            np.concatenate([self.spread, other.spread]),
            (*self.ignoring, *other.ignoring),
        )


# What to do where steps can't be read as a preparation.
BY_HAND = "Or pass the last step, model[-1], with the rows that reach it, model[:-1].transform(X)."


def steps_and_model(pipeline: Any) -> tuple[Any, Any]:
    """The fitted steps before the last one, as one pipeline (None where there are none), and the last one."""
    steps = flat_steps(pipeline)
    if len(steps) == 1:
        return None, steps[0]
    from sklearn.pipeline import Pipeline

    return Pipeline([(f"step{i}", step) for i, step in enumerate(steps[:-1])]), steps[-1]


def flat_steps(pipeline: Any) -> list[Any]:
    """The steps of a pipeline, those of a pipeline at its end as well."""
    steps = [step for _, step in pipeline.steps if step is not None]
    while steps and type(steps[-1]).__name__ == "Pipeline":
        steps[-1:] = [step for _, step in steps[-1].steps]
    return steps


def names_after(steps: Any) -> tuple[str, ...] | None:
    """What steps call the columns that they make; None where one of them has no names."""
    try:
        return tuple(map(str, steps.get_feature_names_out()))
    except (AttributeError, ValueError, TypeError):  # which scikit-learn's steps raise
        return None


def prepared_parts(pipeline: Any, otherwise: str = BY_HAND) -> tuple[Preparation, Any]:
    """The preparation that the steps of a fitted pipeline are, and the model; `otherwise` ends an error."""
    steps = flat_steps(pipeline)
    if any(isinstance(step, Saving) for step in steps[:-1]):
        msg = (
            f"The model of mercer must be the last step of the pipeline; got {type(steps[-1]).__name__} "
            f"after it. Pass the steps up to the model, such as pipeline[:-1]. {otherwise}"
        )
        raise InputError(msg)
    first = next(step for step in steps if hasattr(step, "n_features_in_"))
    names = getattr(first, "feature_names_in_", None)
    if names is None:
        names = [f"x{j}" for j in range(int(first.n_features_in_))]
    try:
        chain = reduce(_followed, steps[:-1], _Chain.of(names))
    except _UnreadError as error:
        msg = f"{error} {otherwise}"
        raise InputError(msg) from None
    scaled = bool(np.any(chain.center != 0.0) or np.any(chain.spread != 1.0))
    center, spread = (chain.center, chain.spread) if scaled else (None, None)
    made = Preparation(chain.numbers, chain.categories, chain.fills, center, spread)
    return replace(made, ignoring=chain.ignoring), steps[-1]


def _followed(chain: _Chain, step: Any) -> _Chain:
    """The chain, and then one fitted step; those of scikit-learn itself are known."""
    if isinstance(step, str):  # "passthrough"
        return chain
    ours = type(step).__module__.startswith("sklearn.")
    after = _STEPS.get(type(step).__name__) if ours else None
    found = None if after is None else after(step, chain)
    if found is None:
        _refuse(" ".join(repr(step).split()))  # scikit-learn breaks a long one over lines
    return found


def _filled(step: Any, chain: _Chain) -> _Chain | None:
    missing = step.missing_values
    numbers = all(isinstance(fill, Real) for fill in step.statistics_)  # a constant may be a word
    if not numbers or not (isinstance(missing, float) and np.isnan(missing)):
        return None
    values = np.asarray(step.statistics_, dtype=np.float64)
    return None if step.indicator_ is not None or np.isnan(values).any() else chain.filled(values)


def _one_hot(step: Any, chain: _Chain) -> _Chain | None:
    rare = step.min_frequency is not None or step.max_categories is not None
    if step.drop is not None or rare or chain.fills is not None:
        return None
    for name, found in zip(chain.numbers, step.categories_, strict=True):
        if why := _no_words(found):
            shown = " ".join(repr(step).split())
            _refuse(f"{shown}, whose categories of column {quoted(name)} {why}")
    levels = [tuple(map(str, found)) for found in step.categories_]
    d = sum(map(len, levels))
    categories = tuple(zip(chain.numbers, levels, strict=True))
    ignoring = () if step.handle_unknown == "error" else chain.numbers
    return _Chain((), categories, None, np.zeros(d), np.ones(d), ignoring)


def _no_words(levels: Any) -> str:
    """What the categories of a column are that are not all texts, and what to do; empty where they are."""
    others = [level for level in levels if not isinstance(level, str)]
    if not others:
        return ""
    if any(level is None or level != level for level in others):  # noqa: PLR0124
        return "have a missing value among them: fill it with a word"
    are = "booleans" if isinstance(others[0], bool | np.bool_) else "not texts"
    return f"are {are}: convert the column with astype(str)"


def _side_by_side(step: Any, chain: _Chain) -> _Chain | None:
    if chain.categories or chain.fills is not None or np.any(chain.center != 0.0):
        return None
    whole = _Chain.of(())
    for name, inner, _ in step.transformers_:
        places = step._transformer_to_input_indices[name]
        if len(places) and not (isinstance(inner, str) and inner == "drop"):
            names = (chain.numbers[place] for place in places)
            whole = whole.beside(_followed(_Chain.of(names), inner))
    return whole


_STEPS: dict[str, Callable[[Any, _Chain], _Chain | None]] = {
    "ColumnTransformer": _side_by_side,
    "FunctionTransformer": lambda step, chain: chain if step.func is None else None,
    "MaxAbsScaler": lambda step, chain: chain.scaled(None, step.scale_),
    "MinMaxScaler": lambda step, chain: (
        None if step.clip else chain.scaled(-step.min_ / step.scale_, 1.0 / step.scale_)
    ),
    "OneHotEncoder": _one_hot,
    "Pipeline": lambda step, chain: reduce(_followed, (inner for _, inner in step.steps), chain),
    "RobustScaler": lambda step, chain: chain.scaled(step.center_, step.scale_),
    "SimpleImputer": _filled,
    "StandardScaler": lambda step, chain: chain.scaled(step.mean_, step.scale_),
}


class _UnreadError(InputError):
    """A step that can't be read as part of a preparation."""


def _refuse(what: str) -> NoReturn:
    msg = (
        f"A pipeline is read as a prepared model where its steps fill numbers, turn each word into a column "
        f"of 0 and 1, and scale; got {what}."
    )
    raise _UnreadError(msg)
