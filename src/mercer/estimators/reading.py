"""From batches of rows to the running sums of a stream."""

from __future__ import annotations

import warnings
from copy import copy
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError, MercerWarning
from mercer.engine.intake import admitted
from mercer.engine.rows import RowSource, row_blocks
from mercer.engine.sources import as_source
from mercer.estimators.door import check_kernel_rows, new_rows
from mercer.estimators.validation import (
    as_generator,
    check_n_components,
    check_rows,
    remember_columns,
    users_level,
)
from mercer.kernels import as_kernel
from mercer.model.incremental import Rules, Stream

if TYPE_CHECKING:
    from mercer._core.types import Array, Rows
    from mercer._core.watch import Watch
    from mercer.kernels import Kernel

# Rules for a width that one row can't answer.
SPREADS = ("median", "scale")


def stream_rules(model: Any) -> Rules:
    """The knobs of an estimator, checked."""
    size = _count("max_landmarks", model.max_landmarks)
    _count("batch_size", model.batch_size)
    asked = check_n_components(model.n_components, size, "max_landmarks")
    tol, forgetting = _number("tol", model.tol), _number("forgetting", model.forgetting)
    if not 0.0 <= tol < 1.0:
        msg = f"tol={model.tol!r} came, but a share of the trace was needed, from 0 to below 1."
        raise InputError(msg)
    if not 0.0 < forgetting <= 1.0:
        msg = (
            f"forgetting={model.forgetting!r} came, but a factor above 0 and at most 1 was needed: 1 "
            "forgets nothing, 0.999 counts the last thousand rows or so."
        )
        raise InputError(msg)
    # One more than the components: centring takes one away.
    least = min(asked + 1, size) if isinstance(asked, int) else 0
    return Rules(size, tol, forgetting, least)


def batch_rows(model: Any, X: Any, past: Stream | None) -> Rows:
    """The next rows, checked against those before them."""
    if past is not None:
        return new_rows(model, X, past.dtype)
    source = as_source(X)
    if source is not None:
        return source
    # The first batch says which columns there are, and is then checked as any other: of one row too.
    twin = copy(model)
    remember_columns(twin, X)
    return check_rows(twin, X, reset=False)


def batch_weights(sample_weight: Any, n: int) -> Array | None:
    """Weights of a batch, in which all rows but one, or all of them, may have none."""
    if sample_weight is None:
        return None
    weights = np.asarray(admitted(sample_weight, what="sample_weight"), dtype=np.float64)
    if weights.shape != (n,):
        msg = (
            f"sample_weight has shape {weights.shape}, but the batch has {n} rows. Give one a row."
        )
        raise InputError(msg)
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        i = int(np.argmax(~np.isfinite(weights) | (weights < 0)))
        msg = f"sample_weight[{i}] is {weights[i]}. Weights are finite and not negative."
        raise InputError(msg)
    return weights


def read(
    model: Any,
    past: Stream | None,
    x: Rows,
    weights: Array | None,
    *,
    rules: Rules,
    watch: Watch,
) -> Stream:
    """The stream after these rows; nothing of the model has changed yet."""
    stream = past
    if past is not None:
        _require_same_kernel(model, past)
    for i, block in row_blocks(x, int(model.batch_size)):
        w = None if weights is None else weights[i]
        if w is not None and not w.all():  # a row of weight zero is one that is not there
            block, w = block[np.flatnonzero(w)], w[w > 0]  # noqa: PLW2901
        if block.shape[0]:
            stream = stream or _start(model, block, w)
            check_kernel_rows(stream.dictionary.kernel, block)
            stream = stream.absorbed(block.astype(stream.dtype, copy=False), w, rules)
        if watch.step(i.stop, int(x.shape[0]), "rows", None):
            break
    if stream is None:
        msg = "Every sample_weight is zero, so there is no row to begin with. Give one a weight."
        raise InputError(msg)
    if isinstance(x, RowSource):
        x.check_unchanged()
    return stream


def _require_same_kernel(model: Any, past: Stream) -> None:
    """A stream has one kernel from its first row on; a rule that was read off that batch stays."""
    asked, has = as_kernel(model.kernel), past.dictionary.kernel
    if not asked.is_data_dependent and repr(asked) != repr(has):
        rng = as_generator(model.random_state)
        resolved = asked.resolve(past.dictionary.points, rng=rng)
        if repr(resolved) != repr(has):
            msg = (
                f"The stream was begun with {has!r}, but kernel={asked!r} is set now. Call `fit` to begin "
                "anew, or set the kernel back."
            )
            raise InputError(msg)


def _start(model: Any, rows: Rows, weights: Array | None) -> Stream:
    kernel = as_kernel(model.kernel)
    if kernel.is_precomputed:
        msg = (
            "kernel='precomputed' can't be streamed: later rows would need kernel values against "
            "landmarks that are not chosen yet. Use a kernel object, or `KernelPCA`."
        )
        raise InputError(msg)
    rng = as_generator(model.random_state)
    kernel.check_rows(rows)
    if rows.shape[0] == 1 and _reads_spread(kernel):
        msg = (
            f"{kernel!r} takes its width from the first batch, which is one row and has none: the width "
            "is 1 for a distance. Begin with more rows, or give the width as a number."
        )
        warnings.warn(msg, MercerWarning, stacklevel=users_level())
    resolved = kernel.resolve(rows, rng=rng, weights=weights)
    return Stream.start(resolved, rows, seed=int(rng.integers(2**32)))


def _reads_spread(kernel: Kernel) -> bool:
    """Whether a width is to be read off the spread of the rows, not off their number of columns."""
    own = kernel.is_data_dependent and any(
        isinstance(value, str) and value in SPREADS
        for value in kernel.get_params(deep=False).values()
    )
    return own or any(_reads_spread(child) for child in kernel.children)


def _count(name: str, value: Any) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        msg = f"{name}={value!r} came, but a whole number of rows was needed, at least 1."
        raise InputError(msg)
    return int(value)


def _number(name: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        msg = f"{name}={value!r} came, but a number was needed."
        raise InputError(msg)
    return float(value)
