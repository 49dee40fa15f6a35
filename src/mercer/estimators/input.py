"""What comes in, checked once: rows in memory or from a source, weights, a number of components, a seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from mercer._core.errors import InputError, ParameterError, many, refuse
from mercer._core.findings import are_columns_matched
from mercer._core.params import Number, Whole, is_whole, require
from mercer._core.types import Array, Indices, Rows
from mercer._core.wording import Message
from mercer.data.arrays import NotNumbersError, is_tensor
from mercer.data.dask import DaskRows
from mercer.data.frames import held
from mercer.data.intake import admitted, is_single, named_column, refuse_text
from mercer.data.rounding import warn_rounded
from mercer.data.rows import RowSource, aligned, first_bad, row_slices
from mercer.data.sources import as_source, in_memory
from mercer.data.training import TrainingData, read_height
from mercer.engine.resolve import AUTO, resolve_engine
from mercer.kernels import Kernel
from mercer.kernels.rows import refuse_twins

SLICE_NUMBERS = 2**18  # of a kernel matrix that are compared at a time
SEED = Whole(0, also=(None,))


# ── rows to fit ─────────────────────────────────────────────────────────────
def training_rows(
    estimator: Any, X: Any, sample_weight: Any, *, copy: bool = False, pairwise: bool = False
) -> TrainingData:
    """The rows of X that count, checked. With ``copy`` the caller may change their array later."""
    source, engine = _source(X, pairwise=pairwise), getattr(estimator, "engine", AUTO)
    if source is not None and pairwise:
        wanted = "the kernel matrix as an array, for kernel='precomputed'"
        lazy = isinstance(source, DaskRows)
        remedy = "Use X.compute()." if lazy else "Read it: np.load(path, mmap_mode='r')[:]."
        refuse("X", X, wanted, repr(source), remedy)
    rows = check_rows(estimator, X, reset=True, copy=copy) if source is None else source
    rows = resolve_engine(engine).settle(rows)
    n = int(rows.shape[0])
    if source is not None and n < 2:
        refuse("X", rows.shape, "at least 2 rows", f"{many(n, 'row')}, {rows!r}")
    weights = check_weights(sample_weight, n)
    if source is not None:
        return TrainingData(rows, weights)
    data = _without_weightless(TrainingData(rows, weights, copied=copy), pairwise=pairwise)
    if not pairwise:
        return data
    square = check_square(data.rows)  # a copy of a matrix that is symmetric within rounding only
    return replace(data, rows=square, copied=square is not data.rows)


def loaded(data: TrainingData) -> TrainingData:
    """The rows of a source in memory, those of weight zero left out; chunks of dask's stay where they are."""
    if not isinstance(data.rows, DaskRows):
        data = TrainingData(in_memory(data.rows), data.weights)
    return _without_weightless(data, pairwise=False)


def _without_weightless(data: TrainingData, *, pairwise: bool) -> TrainingData:
    """A row of weight zero is a row that is not there."""
    if data.weights is None or np.all(data.weights):
        return data
    kept = np.flatnonzero(data.weights)
    if isinstance(data.rows, DaskRows):
        rows: Rows = data.rows.taken(kept)
    else:
        rows = data.rows[np.ix_(kept, kept)] if pairwise else data.rows[kept]
    weights = data.weights[kept]
    return replace(data, rows=rows, weights=None if np.all(weights == 1.0) else weights, kept=kept)


def remember(estimator: Any, X: Any, rows: Rows) -> None:
    """Number and names of the columns, as scikit-learn records them."""
    named = hasattr(type(X), "columns") or hasattr(X, "__dataframe__")
    known = isinstance(rows, RowSource) or (not named and getattr(rows, "ndim", 0) == 2)
    if not known:
        validate_data(estimator, X, reset=True, skip_check_array=True)
        return
    names = getattr(rows, "columns", None)
    estimator.n_features_in_ = int(rows.shape[1])
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


# ── rows to ask about ───────────────────────────────────────────────────────
def new_rows(
    estimator: Any, X: Any, dtype: np.dtype[Any], *, clip: bool = False, gaps: bool = False
) -> Rows:
    """Rows to project, checked against those of the fit; `clip` as in `cast`, `gaps` as in `check_rows`."""
    kernel = getattr(estimator, "kernel_", None)
    # Tags take as long as the scores of a row.
    known = None if kernel is None else bool(kernel.is_precomputed)
    pairwise = estimator.__sklearn_tags__().input_tags.pairwise if known is None else known
    X = held(X)  # names may be looked for twice
    source = _source(X, pairwise=pairwise, names=getattr(estimator, "feature_names_in_", None))
    if source is None:
        try:
            rows = check_rows(estimator, X, reset=False, gaps=gaps)
        except ValueError as error:
            if not known or "is expecting" not in str(error):
                raise
            msg = f"{error} K is k(X_new, X_train), a column for each training row."
            raise InputError(msg) from None
        return cast(rows, dtype, clip=clip)
    check_width(estimator, source.shape[1], f"{source.shape[1]}, {source!r}", source.shape)
    wider = source.dtype.itemsize > dtype.itemsize
    return CastRows(source, dtype, clip=clip) if wider else source


def check_width(estimator: Any, d: int, got: str, value: Any) -> None:
    """Raise unless rows of d columns are as wide as those of the fit; `got` are words for `value`."""
    if d != estimator.n_features_in_:
        wanted = f"rows of {estimator.n_features_in_} columns, as {type(estimator).__name__} was fitted on"
        refuse("X", value, wanted, got, "Give the same features in the same order.")


class CastRows(RowSource):
    """Rows that are read a slice at a time, in the precision of the fit."""

    def __init__(self, source: RowSource, dtype: np.dtype[Any], *, clip: bool) -> None:
        self.source, self.dtype, self.clip = source, dtype, clip
        self.shape, self.name, self.random_access = source.shape, source.name, source.random_access

    def __getitem__(self, key: slice | Indices) -> Rows:
        return cast(self.source[key], self.dtype, clip=self.clip)

    def blocks(self, height: int) -> Iterator[tuple[slice, Rows]]:
        for i, block in self.source.blocks(height):
            yield i, cast(block, self.dtype, clip=self.clip, first=i.start)

    def resident_bytes(self, height: int) -> int:
        return self.source.resident_bytes(height)

    def check_unchanged(self) -> None:
        self.source.check_unchanged()


def cast(x: Rows, dtype: np.dtype[Any], *, clip: bool = False, first: int = 0) -> Rows:
    """The rows in the precision of the fit; what that can't hold is refused, or made the largest it can."""
    if x.dtype.itemsize <= dtype.itemsize:
        return x.astype(dtype, copy=False)
    with np.errstate(over="ignore"):
        rows = x.astype(dtype)
    found = first_bad(rows)
    if found is None:
        return rows
    if not clip or sparse.issparse(rows):
        _, row, column, count = found
        value, wanted = x[row, column], f"numbers that {dtype}, the precision of the fit, can hold"
        place = f"row {first + row}, column {column}"  # the first of these rows is row `first`
        got = f"{value:.3g} in {place} ({many(count, 'such value')} in all)"
        refuse("X", value, wanted, got, "Fit to float64 rows, or scale the columns.")
    return np.nan_to_num(rows, copy=False, nan=np.nan)


def _source(X: Any, *, pairwise: bool, names: Any = None) -> RowSource | None:
    """A source of rows, None for those in memory; columns by the names of the fit, whatever else there is."""
    if isinstance(X, Kernel):
        refuse("X", X, "rows", f"a kernel, {X!r}", "Check the order of the arguments.")
    # A kernel matrix has to be symmetric, which only the whole of it shows: a memory map is an array there.
    if type(X) is np.ndarray or (pairwise and isinstance(X, np.ndarray)) or is_tensor(X):
        return None
    if names is None or isinstance(X, np.ndarray):
        return as_source(X)
    try:
        return as_source(X, columns=list(names))
    except InputError as lacking:
        try:
            source = as_source(X)
        except InputError:
            raise lacking from None
        if source is None or source.columns is None:  # rows without names go by position
            return source
        raise


# ── rows in memory ──────────────────────────────────────────────────────────
def check_rows(
    estimator: Any, X: Any, *, reset: bool, copy: bool = False, gaps: bool = False
) -> Rows:
    """Rows as float64 or float32, dense (C order) or CSR, finite but with ``gaps``, of the right width.

    With ``reset`` the width is not known yet; `remember` records it once the fit is done.
    """
    if _is_ready(X, least=2 if reset else 1) and not copy:
        if not gaps:
            require_finite(X)
        named = hasattr(estimator, "feature_names_in_") and not are_columns_matched()
        if not reset and (named or X.shape[1] != estimator.n_features_in_):
            with in_our_name():
                validate_data(estimator, X, reset=False, skip_check_array=True)  # raises or warns
        return X
    X = admitted(X)
    refuse_twins(X)
    refuse_text(X)
    warn_rounded(X)
    with in_our_name():
        x = check_array(
            X,
            accept_sparse="csr",
            dtype=np.float32 if is_single(X) else [np.float64, np.float32],
            order="C",
            ensure_all_finite=False,  # below: with the row and the column
            ensure_min_samples=2 if reset else 1,
            copy=copy,
            estimator=estimator,
            input_name="X",
        )
    x = aligned(sparse.csr_array(x) if sparse.issparse(x) else x)
    if not gaps:
        require_finite(x, getattr(X, "columns", None))
    if not reset:
        with in_our_name():
            validate_data(estimator, X, reset=False, skip_check_array=True)  # columns as at fit
    return x


@contextmanager
def in_our_name() -> Iterator[None]:
    """What scikit-learn has against rows, in its words, as an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except TypeError as error:
        msg = str(error)
        raise NotNumbersError(msg) from error
    except ValueError as error:
        msg = str(error)
        raise InputError(msg) from error


def _is_ready(X: Any, *, least: int) -> bool:
    """Whether X is what `check_array` would return: asking it takes longer than a small fit."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.shape[0] < least or X.shape[1] < 1:
        return False
    plain = X.dtype in (np.float64, np.float32) and X.dtype.isnative
    return bool(plain and X.flags.c_contiguous and X.flags.aligned)


def require_finite(x: Rows, names: Any = None) -> None:
    """Raise with the place of the first NaN or infinity."""
    found = first_bad(x)
    if found is None:
        return
    value, row, column, count = found
    which, fill = f"infinity ({value})", ""
    if np.isnan(value):
        which, fill = "NaN", " (SimpleImputer)"
    place = f"row {row}, column {named_column(column, names)}"
    got = f"{which}, first in {place}, {many(count, 'such value')} in all"
    refuse("X", value, "finite", got, f"Drop those rows, or fill them in{fill}.")


def check_square(x: Rows) -> Array:
    """A precomputed kernel matrix: dense, square and symmetric within rounding (then made exactly so)."""
    if sparse.issparse(x):
        wanted = "a dense kernel matrix, for kernel='precomputed'"
        refuse("X", x, wanted, "a sparse one", "Use K.toarray().")
    n, m = x.shape
    if n != m:
        wanted = "the square matrix of the training points, for kernel='precomputed'"
        remedy = "Fit on K = k(X, X); transform takes k(X_new, X)."
        refuse("X", x.shape, wanted, f"{n} x {m}", remedy)
    largest, gap, where = float(max(x.max(), -x.min())), 0.0, (0, 0)
    for i in row_slices(n, max(1, SLICE_NUMBERS // n)):  # no second n x n array for the check
        part = x[i] - x[:, i].T
        np.abs(part, out=part)
        if part.max() > gap:
            at = np.unravel_index(int(np.argmax(part)), part.shape)
            gap, where = float(part.max()), (int(at[0]) + i.start, int(at[1]))
    if gap > 100.0 * np.finfo(x.dtype).eps * largest:
        (row, column), wanted = where, "a symmetric kernel matrix, for kernel='precomputed'"
        got = f"K[{row}, {column}] = {x[where]:.6g} and K[{column}, {row}], which differs by {gap:.3g}"
        refuse("X", gap, wanted, got, "Pass (K + K.T) / 2 if that is what you mean.")
    if gap > 0.0:
        x = x + x.T
        x *= 0.5
    return np.asarray(x)


def check_kernel_rows(kernel: Kernel, rows: Rows) -> None:
    """Raise when the kernel is not defined on the rows; those of a source are read once for that."""
    if not isinstance(rows, RowSource):
        kernel.check_rows(rows)
    elif kernel.looks_at_rows:
        rows.look(kernel.check_rows, read_height(rows))


# ── weights ─────────────────────────────────────────────────────────────────
def check_weights(sample_weight: Any, n: int, *, least: int = 2) -> Array | None:
    """Weights of the rows as float64, `least` or more above zero; None where all rows count alike, once."""
    if sample_weight is None:
        return None
    sample_weight = admitted(sample_weight, what="sample_weight")
    warn_rounded(sample_weight, what="sample_weight")
    wanted = f"{n} numbers, one for each row"
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        got = f"a {type(sample_weight).__name__} ({error})"
        refuse("sample_weight", sample_weight, wanted, got)
    if weights.shape != (n,):
        refuse("sample_weight", weights.shape, wanted, f"an array of shape {weights.shape}")
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        i, wanted = int(np.argmax(bad)), "finite and not negative: how often each row counts"
        refuse("sample_weight", weights[i], wanted, f"{weights[i]} for row {i}")
    with np.errstate(over="ignore"):
        if not np.isfinite(weights.sum()):
            remedy = "Divide them by the largest."
            refuse("sample_weight", np.inf, "numbers with a finite sum", "a sum of inf", remedy)
    n_there = np.count_nonzero(weights)  # of a batch none need be
    if n_there < least:
        wanted = f"more than zero for at least {least} rows, since fewer have no variance"
        refuse("sample_weight", n_there, wanted, f"{n_there} such rows of {n}")
    return None if np.all(weights == 1.0) else weights


# Entries of K are known to eps, so a row of weight w blurs the variance by about eps·w, and all of it comes
# from the others: beyond this many times their weight, the four digits of a share are not true.
LOPSIDED = 1e-4 / float(np.finfo(np.float64).eps)


def refuse_lopsided(weights: Array, kept: Indices | None) -> None:
    """Raise where one row outweighs all others by more than a kernel matrix in float64 can show."""
    times, i = outweighs(weights), int(np.argmax(weights))
    if times > LOPSIDED:
        row = i if kept is None else int(kept[i])  # among those that were given
        got = f"{weights[i]:.3g} for row {row}, {times:.2g} times as much"
        wanted = (
            f"at most {LOPSIDED:.1g} times all other weights together, beyond which the variance of the "
            "other rows is lost in the rounding of float64"
        )
        refuse("sample_weight", weights[i], wanted, got, "Lower that weight, or drop the row.")


def outweighs(weights: Array, past: float = 0.0) -> float:
    """How many times the largest weight is all others together; 0 where there is no other."""
    i = int(np.argmax(weights))
    others = float(np.delete(weights, i).sum()) + past
    return float(weights[i]) / others if others > 0 else 0.0


# ── parameters ──────────────────────────────────────────────────────────────
def check_n_components(n_components: Any, n: int, of: str = "n_samples") -> int | float | None:
    """An int in 1..n, a share of the variance in (0, 1], or None."""
    if n_components is None:
        return None
    if is_whole(n_components) and 1 <= n_components <= n:
        return int(n_components)
    if not is_whole(n_components) and Number(0, 1, ends="(]").holds(n_components):
        return float(n_components)
    wanted = Message(
        f"an integer from 1 to {n} ({of if '(' in of else f'{{{of}!s}}'}), a share of the variance in (0, 1] "
        "such as 0.95, or {None for all components!s}"
    )
    raise ParameterError.about(parameter="n_components", value=n_components, must_be=wanted)


def check_flag(name: str, value: Any) -> bool:
    """The value of a parameter that is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError.about(name, value, must_be="True or False")
    return bool(value)


def is_whitened(whiten: Any) -> bool:
    """Whether scores are to have unit variance."""
    return check_flag("whiten", whiten)


def as_generator(random_state: Any) -> np.random.Generator:
    """A seeded generator. None is a fixed seed: the same call gives the same result."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    remedy = "A NumPy Generator or RandomState works too."
    require("random_state", random_state, SEED, remedy=remedy)
    return np.random.default_rng(0 if random_state is None else int(random_state))
