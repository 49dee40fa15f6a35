"""The door: everything that comes in is checked here, once."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from mercer._core.errors import InputError, ParameterError, many
from mercer._core.errors import users_level as users_level  # noqa: PLC0414  (found here too)
from mercer._core.params import Number, Whole, is_whole, require
from mercer.data.intake import admitted
from mercer.data.rounding import warn_rounded
from mercer.data.rows import first_bad, row_slices

if TYPE_CHECKING:
    from mercer._core.types import Array, Indices, Rows
    from mercer.model import Fit

SEED = Whole(0, also=(None,))
SLICE_NUMBERS = 2**18  # of a kernel matrix that are compared at a time


def check_rows(
    estimator: Any, X: Any, *, reset: bool, copy: bool = False, gaps: bool = False
) -> Rows:
    """Rows as float64 or float32, dense (C order) or CSR, finite, of the right width.

    With ``reset`` the width is not known yet; `remember_columns` records it once the fit is done. ``gaps``
    lets NaN and infinity pass, for a caller that looks for them.
    """
    X = admitted(X)
    _refuse_text(X)
    warn_rounded(X)
    x = check_array(
        X,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        order="C",
        ensure_all_finite=False,  # below: with the row and the column
        ensure_min_samples=2 if reset else 1,
        copy=copy,
        estimator=estimator,
        input_name="X",
    )
    if sparse.issparse(x):
        x = sparse.csr_array(x)
    if not gaps:
        require_finite(x, getattr(X, "columns", None))
    if not reset:
        validate_data(estimator, X, reset=False, skip_check_array=True)  # columns as at fit
    return x


def remember_columns(estimator: Any, X: Any) -> None:
    """Number and names of the columns of X, as scikit-learn records them."""
    validate_data(estimator, X, reset=True, skip_check_array=True)


def _refuse_text(X: Any) -> None:
    array = X.to_numpy() if hasattr(X, "to_numpy") else X
    array = array if sparse.issparse(array) else np.asarray(array)
    # Those of the columns of a frame; a series has one dtype, by the same name.
    dtypes = X.dtypes if hasattr(X, "dtypes") and array.ndim == 2 else [array.dtype]
    timed = [j for j, dtype in enumerate(dtypes) if _is_time(dtype)]
    if timed:
        column = _column(timed[0], getattr(X, "columns", None))
        msg = (
            f"X holds times, in column {column}. Numbers were needed: drop that column, make it the index, "
            "or count the seconds from a start."
        )
        raise InputError(msg)
    if getattr(array.dtype, "kind", "") not in "OUS" or array.ndim != 2:
        return
    for (i, j), value in np.ndenumerate(array):
        if isinstance(value, (str, bytes)):
            try:
                float(value)
            except ValueError:
                msg = (
                    f"could not convert string to float: X holds text, {str(value)!r} in row {i}, column "
                    f"{_column(j, getattr(X, 'columns', None))}. Numbers were needed: drop that column, "
                    "or encode it (OneHotEncoder, OrdinalEncoder)."
                )
                raise InputError(msg) from None


def _is_time(dtype: Any) -> bool:
    """Of NumPy and pandas, or of polars."""
    return getattr(dtype, "kind", "") in ("M", "m") or getattr(dtype, "is_temporal", bool)()


def _column(j: int, names: Any) -> str:
    return str(j) if names is None else f"{j} ({names[j]!r})"


def require_finite(x: Rows, names: Any, *, what: str = "Input X") -> None:
    """Raise with the place of the first NaN or infinity."""
    found = first_bad(x)
    if found is None:
        return
    value, row, column, count = found
    which = "NaN" if np.isnan(value) else f"infinity ({value})"
    fill = " (SimpleImputer)" if np.isnan(value) else ""
    msg = (
        f"{what} contains {which}: first in row {row}, column {_column(column, names)}, "
        f"{many(count, 'such value')} in all. Finite numbers are needed: drop those rows, or fill them "
        f"in{fill}."
    )
    raise InputError(msg)


def cast(x: Rows, dtype: np.dtype[Any], *, clip: bool = False, first: int = 0) -> Rows:
    """The rows in the precision of the fit; what that can't hold is refused, or made the largest it can.

    ``first`` is the number of the first row, for words.
    """
    if x.dtype.itemsize <= dtype.itemsize:
        return x.astype(dtype, copy=False)
    with np.errstate(over="ignore"):
        rows = x.astype(dtype)
    found = first_bad(rows)
    if found is None:
        return rows
    if clip and not sparse.issparse(rows):
        return np.nan_to_num(rows, copy=False, nan=np.nan)
    _, row, column, count = found
    msg = (
        f"X has {x[row, column]:.3g} in row {first + row}, column {column}, which {dtype}, the precision of "
        f"the fit, can't hold ({many(count, 'such value')} in all). Fit to float64 rows, or scale the "
        "columns."
    )
    raise InputError(msg)


def check_n_components(n_components: Any, n: int, of: str = "n_samples") -> int | float | None:
    """An int in 1..n, a share of the variance in (0, 1], or None."""
    if n_components is None:
        return None
    if is_whole(n_components) and 1 <= n_components <= n:
        return int(n_components)
    if not is_whole(n_components) and Number(0, 1, ends="(]").holds(n_components):
        return float(n_components)
    wanted = (
        f"an integer from 1 to {n} ({of}), a share of the variance in (0, 1] such as 0.95, or None for all "
        "components"
    )
    raise ParameterError.about(parameter="n_components", value=n_components, must_be=wanted)


def require_fitted(model: Any, kind: type[Any], names: str) -> None:
    """Raise unless it is a fitted model of such a kind."""
    if not isinstance(model, kind):
        msg = (
            f"A fitted mercer.{names} is needed; got a {type(model).__name__}. Of a pipeline, pass the last "
            "step and the rows that reach it."
        )
        raise InputError(msg)
    check_is_fitted(model)


def check_square(x: Rows) -> Array:
    """A precomputed kernel matrix: dense, square and symmetric within rounding (then made exactly so)."""
    if sparse.issparse(x):
        msg = "Sparse input came, but a precomputed kernel matrix has to be dense. Use K.toarray()."
        raise InputError(msg)
    n, m = x.shape
    if n != m:
        msg = (
            f"kernel='precomputed' needs the square matrix of the training points, but {n} x {m} came. "
            "Fit on K = k(X, X); transform takes k(X_new, X)."
        )
        raise InputError(msg)
    largest, gap, where = float(max(x.max(), -x.min())), 0.0, (0, 0)
    for i in row_slices(n, max(1, SLICE_NUMBERS // n)):  # no second n x n array for the check
        part = x[i] - x[:, i].T
        np.abs(part, out=part)
        if part.max() > gap:
            at = np.unravel_index(int(np.argmax(part)), part.shape)
            gap, where = float(part.max()), (int(at[0]) + i.start, int(at[1]))
    if gap == 0.0:
        return np.asarray(x)
    if gap > 100.0 * np.finfo(x.dtype).eps * largest:
        row, column = where
        msg = (
            f"The precomputed kernel matrix is not symmetric: K[{row}, {column}] = {x[row, column]:.6g} but "
            f"K[{column}, {row}] = {x[column, row]:.6g}. Pass (K + K.T) / 2 if that is what you mean."
        )
        raise InputError(msg)
    even = x + x.T
    even *= 0.5
    return np.asarray(even)


def check_weights(sample_weight: Any, n: int) -> Array | None:
    """Weights of the rows as float64, or None where all rows count alike, once."""
    if sample_weight is None:
        return None
    try:
        sample_weight = admitted(sample_weight, what="sample_weight")
        warn_rounded(sample_weight, what="sample_weight")
        weights = np.array(sample_weight, dtype=np.float64)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        msg = f"sample_weight has to be {n} numbers, one a row: {error}."
        raise InputError(msg) from error
    if weights.ndim != 1 or len(weights) != n:
        msg = (
            f"sample_weight has shape {weights.shape}, but X has {n} rows. Give one number a row, as a "
            "1-D array."
        )
        raise InputError(msg)
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        i = int(np.argmax(~np.isfinite(weights) | (weights < 0)))
        msg = (
            f"sample_weight[{i}] is {weights[i]}. Weights are finite and not negative: how often each "
            "row counts."
        )
        raise InputError(msg)
    if np.count_nonzero(weights) < 2:
        msg = (
            f"sample_weight is zero for all but {np.count_nonzero(weights)} of {n} rows, and fewer than "
            "two rows have no variance. Give at least two rows a weight that is not zero."
        )
        raise InputError(msg)
    return None if np.all(weights == 1.0) else weights


# Entries of K are known to eps, so a row of weight w blurs the variance by about eps·w, and all of it comes
# from the others: beyond this many times their weight, the four digits of a told share are not true.
LOPSIDED = 1e-4 / float(np.finfo(np.float64).eps)


def refuse_lopsided(weights: Array | None, kept: Indices | None) -> None:
    """Raise where one row outweighs all others by more than a kernel matrix in float64 can tell.

    ``kept`` are the places of these weights among those that were given.
    """
    if weights is None:
        return
    i = int(np.argmax(weights))
    times = outweighs(weights)
    if times > LOPSIDED:
        place = i if kept is None else int(kept[i])
        msg = (
            f"sample_weight[{place}] is {weights[i]:.3g}, {times:.2g} times all other weights together; "
            f"beyond {LOPSIDED:.1g} times, the variance of the other rows is lost in the "
            "rounding of float64. Lower that weight, or drop the row."
        )
        raise InputError(msg)


def outweighs(weights: Array, past: float = 0.0) -> float:
    """How many times the largest weight is all others together; 0 where there is no other."""
    i = int(np.argmax(weights))
    others = float(np.delete(weights, i).sum()) + past
    return float(weights[i]) / others if others > 0 else 0.0


def as_generator(random_state: Any) -> np.random.Generator:
    """A seeded generator. None is a fixed seed: the same call gives the same result."""
    if random_state is None:
        return np.random.default_rng(0)
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    remedy = "A NumPy generator will do as well."
    return np.random.default_rng(int(require("random_state", random_state, SEED, remedy=remedy)))


def tell(fit: Fit) -> None:
    """Give the warnings of a fit, pointing at the user's call."""
    for category, message in fit.warnings():
        warnings.warn(message, category, stacklevel=users_level())
