"""Scores on their way out: whitened, finite, written where they may be; in the rows' library, or lazy."""

from __future__ import annotations

import os
import pickle
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from sklearn import get_config

from mercer._core.errors import InputError, refuse
from mercer._core.quick import changed
from mercer._core.types import Array, Rows
from mercer.data.arrays import is_tensor
from mercer.data.dask import FRAME, DaskRows, chunks_of, counted, dask_kind
from mercer.data.frames import need
from mercer.data.rows import aligned, first_bad
from mercer.engine.dask.work import Parcel
from mercer.estimators.input import cast, check_width
from mercer.kernels import Kernel
from mercer.model import Fit
from mercer.model.projection import Projection, holds
from mercer.monitoring.statistics import score_variances
from mercer.operators.sections import KernelSections

# What is asked of the rows of a chunk, something that pickles: one result a row, by the projection of the
# model and the number of the first row.
Answer: TypeAlias = Callable[[Projection, Rows, int], Array]


def score_spread(fit: Fit) -> Array:  # (k,)
    """The standard deviation of each score of the training rows, √(λ/(n - 1)): what whitening divides by."""
    return np.sqrt(score_variances(fit))


def whitened(fit: Fit) -> Projection:
    """The projection to scores of variance one, sections(x) @ (A/σ) - b/σ; the fit keeps its unit axes."""
    projection, spread = fit.projection, score_spread(fit)
    dtype = projection.coef.dtype
    found = {"coef": projection.coef / spread, "offset": projection.offset / spread}  # float64
    if holds(dtype, *(float(np.abs(a).max(initial=0.0)) for a in found.values())):
        found = {name: a.astype(dtype, copy=False) for name, a in found.items()}
    return changed(projection, **found)


def require_scores(scores: Array, kernel: Kernel | None) -> None:
    """Raise where the values of a kernel, or the sums of them, are beyond the largest number."""
    _require_in_range(scores, "The scores" if kernel is None else f"Values of {kernel!r}")


def require_squares(squares: Array, kernel: Kernel | None) -> None:
    """Raise where squared distances, one a row, are beyond the largest number: earlier than scores are."""
    of = "" if kernel is None else f" by {kernel!r}"
    _require_in_range(squares[:, None], f"The squared distances{of}")


def _require_in_range(found: Array, of: str) -> None:  # (b, k)
    bad = first_bad(found)
    if bad is None:
        return
    n = int(np.count_nonzero(~np.isfinite(found).all(axis=1)))
    msg = (
        f"{of} overflow {found.dtype} for {n} of {len(found)} rows, the first of them row {bad[1]}, or are "
        "not a number (NaN) there. Such rows are far from all training rows, or the kernel is not defined "
        "there: drop them or look into them, or fit with a bounded kernel (RBF, Matern, Cosine)."
    )
    raise InputError(msg)


def check_out(out: Any, X: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    """Raise unless scores can be written to `out` as they are, without harm to the rows."""
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype:
        got = f"{out.shape} {out.dtype}" if isinstance(out, np.ndarray) else type(out).__name__
        refuse("out", out, f"an array of shape {shape} and {dtype}", got)
    if _overlaps(out, X):
        got = "one in the rows that are read, which scores would overwrite"
        refuse("out", out, "an array of its own", got)
    if not out.flags.writeable:
        remedy = "Open it for writing, such as np.lib.format.open_memmap(path, 'w+')."
        refuse("out", out, "an array to write to", "one that is read-only", remedy)


def _overlaps(out: Any, X: Any) -> bool:
    if isinstance(X, np.ndarray):
        return bool(np.may_share_memory(out, X))
    if isinstance(X, (str, os.PathLike)) and isinstance(out, np.memmap):
        mine = str(getattr(out, "filename", ""))
        return Path(X).expanduser().resolve() == Path(mine).resolve()
    return False


# ── arrays out as they are handed in, where scikit-learn has it: array_api_dispatch ──
def like(found: Array, X: Any, estimator: Any = None) -> Any:
    """What was found in the library and on the device of X; NumPy's array where that was not asked for."""
    config = get_config()
    if not config["array_api_dispatch"] or not is_tensor(X):
        return found
    wanted = getattr(estimator, "_sklearn_output_config", {}).get("transform")
    if (wanted or config["transform_output"]) != "default":  # scikit-learn makes a frame of it
        return found
    from sklearn.utils._array_api import get_namespace_and_device

    xp, _, device = get_namespace_and_device(X)
    if str(device).startswith("mps") and found.dtype == np.float64:  # which Metal has not
        found = found.astype(np.float32)
    return xp.asarray(np.ascontiguousarray(found), device=device)


# ── dask collections in, dask collections out: computed where the rows are, on demand ──
Dtypes: TypeAlias = "tuple[np.dtype[Any], np.dtype[Any]]"  # of the rows, and of their scores


def lazy_scores(model: Any, X: Any, dtypes: Dtypes) -> Any:
    """The scores of a dask array or data frame as a dask array; nothing is computed yet."""
    projection, kernel = model._scoring, getattr(model, "kernel_", None)
    scorer, k = partial(_scored, kernel, dtypes), projection.n_components
    return lazy_answers(model, X, projection, scorer, width=k, dtype=dtypes[1])


def _scored(
    kernel: Kernel | None, dtypes: Dtypes, projection: Projection, rows: Rows, first: int
) -> Array:
    """Scores of one chunk, by the engine of the process that has it."""
    rows = cast(rows, dtypes[0], first=first)
    if kernel is not None:
        kernel.check_rows(rows)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        scores = projection(rows)
    require_scores(scores, kernel)
    return scores.astype(dtypes[1], copy=False)


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
    check_width(model, promise.d, f"a {promise.name} of {promise.d}", promise.d)
    # On the engine that this one becomes in another process.
    travelled = projection.on(pickle.loads(pickle.dumps(projection.sections.engine)))
    light, points = _without_points(travelled)
    # One task of the graph: computed again where it is lost, and by any scheduler.
    key = f"mercer-model-{uuid.uuid4().hex}"
    asked = dask.delayed(Parcel((answer, light, promise)), name=key, pure=False, traverse=False)
    starts, answers = np.cumsum([0.0, *heights]), []
    name = f"mercer-{what}-{uuid.uuid4().hex}"  # what it names is never another model's
    each = dask.delayed(_answered)
    for p, (chunk, tall) in enumerate(zip(chunks, heights, strict=True)):
        place = p, counted(starts[p]), counted(tall)
        found = each(asked, points, chunk, *place, dask_key_name=f"{name}-{p}")
        shape = (tall,) if width is None else (tall, width)
        answers.append(da.from_delayed(found, shape=shape, dtype=dtype))
    return da.concatenate(answers)


def as_collection(scores: Array, X: Any) -> Any:
    """Scores that are here, in the chunks of the rows."""
    da = need("dask.array", extra="dask")
    _, heights, _ = chunks_of(X, None)
    known = not np.isnan(np.sum(heights))
    return da.from_array(scores, chunks=(tuple(heights) if known else "auto", -1))


def _answered(asked: Parcel, points: Rows | None, *chunk: Any) -> Array:
    """What a model says of one chunk (it, its place, where it starts, how tall it is), where that is."""
    answer, projection, promise = asked.thing
    rows, points, start = promise.kept(*chunk), aligned(points), chunk[2]
    if points is not None:  # those of the model are on workers, too
        projection = replace(projection, sections=replace(projection.sections, points=points))
    return answer(projection, rows, start or 0)


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
