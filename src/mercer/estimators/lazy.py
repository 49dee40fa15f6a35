"""Dask collections in, dask collections out: answers that are computed where the rows are, on demand."""

from __future__ import annotations

import pickle
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mercer._core.errors import refuse
from mercer.data.dask import FRAME, DaskRows, Promise, chunks_of, counted, dask_kind
from mercer.data.frames import need
from mercer.data.rows import aligned
from mercer.engine.dask.work import Parcel
from mercer.estimators.input import cast
from mercer.estimators.scores import require_scores
from mercer.operators.sections import KernelSections

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer.kernels import Kernel
    from mercer.model.projection import Projection


class Answer(Protocol):
    """What is asked of the rows of a chunk: something that pickles."""

    def __call__(self, projection: Projection, rows: Rows, first: int) -> Array:
        """One result a row; `projection` is that of the model, `first` the number of the first row."""
        ...


@dataclass(frozen=True)
class Scorer:
    """Scores of one chunk, by the engine of the process that has it."""

    kernel: Kernel | None
    dtype: np.dtype[Any]  # of the rows
    scores_dtype: np.dtype[Any]

    def __call__(self, projection: Projection, rows: Rows, first: int) -> Array:
        rows = cast(rows, self.dtype, first=first)
        if self.kernel is not None:
            self.kernel.check_rows(rows)
        with np.errstate(over="ignore", invalid="ignore"):  # told in words
            scores = projection(rows)
        require_scores(scores, self.kernel)
        return scores.astype(self.scores_dtype, copy=False)


@dataclass(frozen=True)
class Asked:
    """A question to a model, which travels to chunks."""

    answer: Answer
    projection: Projection
    promise: Promise

    def __call__(self, points: Rows | None, chunk: Any, p: int, start: Any, tall: Any) -> Array:
        rows, projection = self.promise.kept(chunk, p, start, tall), self.projection
        if points is not None:  # those of the model are on workers, too
            sections: Any = projection.sections
            projection = replace(projection, sections=replace(sections, points=points))
        return self.answer(projection, rows, start or 0)


def lazy_scores(model: Any, X: Any, dtypes: tuple[np.dtype[Any], np.dtype[Any]]) -> Any:
    """The scores of a dask array or data frame as a dask array; nothing is computed yet."""
    own = model._scoring
    scorer = Scorer(getattr(model, "kernel_", None), *dtypes)
    return lazy_answers(model, X, own, scorer, width=own.n_components, dtype=dtypes[1])


def lazy_answers(
    model: Any,
    X: Any,
    projection: Projection,
    answer: Answer,
    *,
    width: int | None,  # numbers a row; None: one, of an array with one axis
    dtype: Any,
    what: str = "scores",
) -> Any:
    """What a fitted estimator answers to each chunk, as a dask array; nothing is computed yet."""
    dask, da = need("dask", extra="dask"), need("dask.array", extra="dask")
    names = getattr(model, "feature_names_in_", None) if dask_kind(X) == FRAME else None
    chunks, heights, promise = chunks_of(X, None if names is None else list(names))
    if promise.d != model.n_features_in_:
        wanted = f"rows of {model.n_features_in_} columns, as {type(model).__name__} was fitted on"
        remedy = "Give the same features in the same order."
        refuse("X", promise.d, wanted, f"a {promise.name} of {promise.d}", remedy)
    # On the engine that its own becomes in another process.
    travelled = projection.on(pickle.loads(pickle.dumps(projection.sections.engine)))
    light, points = _without_points(travelled)
    # One task of the graph: computed again where it is lost, and by any scheduler.
    asked = dask.delayed(
        Parcel(Asked(answer, light, promise)),
        name=f"mercer-model-{uuid.uuid4().hex}",
        pure=False,
        traverse=False,
    )
    starts = np.cumsum([0.0, *heights])
    name = f"mercer-{what}-{uuid.uuid4().hex}"  # what it names is never another model's
    each = dask.delayed(_answered)
    answers = [
        da.from_delayed(
            each(
                asked,
                points,
                chunk,
                p,
                counted(starts[p]),
                counted(tall),
                dask_key_name=f"{name}-{p}",
            ),
            shape=(tall,) if width is None else (tall, width),
            dtype=dtype,
        )
        for p, (chunk, tall) in enumerate(zip(chunks, heights, strict=True))
    ]
    return da.concatenate(answers)


def as_collection(scores: Array, X: Any) -> Any:
    """Scores that are here, in the chunks of the rows."""
    da = need("dask.array", extra="dask")
    _, heights, _ = chunks_of(X, None)
    known = not np.isnan(np.sum(heights))
    return da.from_array(scores, chunks=(tuple(heights) if known else "auto", -1))


def _answered(asked: Parcel, points: Rows | None, *chunk: Any) -> Array:
    found: Array = asked.thing(aligned(points), *chunk)
    return found


def _without_points(projection: Projection) -> tuple[Projection, Any]:
    """The projection, and its points as something of dask's where they are chunks."""
    import dask

    sections = projection.sections
    if not isinstance(sections, KernelSections) or not isinstance(sections.points, DaskRows):
        return projection, None
    points, none = sections.points, np.empty((0, sections.points.shape[1]))
    # Not the futures of the client that the model was fitted with: another one may compute the scores.
    joined = dask.delayed(np.concatenate)(points.anew())
    return replace(projection, sections=replace(sections, points=none)), joined
