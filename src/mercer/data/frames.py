"""Batches and frames as rows: arrays, and the frames of pandas, polars and Arrow where they are met."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from itertools import compress
from typing import Any, TypeAlias

import numpy as np

from mercer._core.errors import InputError, MercerError, installing, kind_of, quoted
from mercer._core.types import Array, Rows
from mercer.data.arrays import home_of, is_a, is_table
from mercer.data.columns import hint
from mercer.data.files import explained
from mercer.data.rows import as_rows, require_rows
from mercer.data.table import Chunk, objects

FRAMES = {"pandas": ("DataFrame",), "polars": ("DataFrame",), "pyarrow": ("Table", "RecordBatch")}
Named: TypeAlias = tuple[Rows, tuple[str, ...] | None]  # rows, and the names of their columns


class MissingPackageError(MercerError, ImportError):
    """A package that is asked for is not installed; the message has the command that installs it."""


def need(module: str, *, extra: str) -> Any:
    """The module, imported now, or an error with the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as cause:
        package = module.partition(".")[0]
        if (cause.name or "").partition(".")[0] != package:
            raise  # it is there but broken: its own message says more than ours would
        msg = f"This needs {package}, which is not installed. Install it with: {installing(extra)}"
        raise MissingPackageError(msg) from cause


def batch_rows(batch: Any, chosen: Sequence[str] | None, *, what: str) -> Named:
    """An array, CSR matrix or frame as rows of float32 or float64, and the names of its columns."""
    batch = held(batch)
    if frame_package(batch) is not None:
        return frame_rows(batch, chosen, what=what)
    if chosen is not None:
        msg = f"{what} is {kind_of(batch)}: there are no names to choose {list(chosen)} by."
        raise InputError(msg)
    return as_rows(batch, what=what), None


def frame_package(x: Any) -> str | None:
    """Whose frame this is; None where it is not a frame."""
    if isinstance(x, np.ndarray):  # asked several times for each array, which may be of ten rows
        return None
    for package, kinds in FRAMES.items():
        if any(is_a(x, package, kind) for kind in kinds):
            return package
    return None


def frame_rows(frame: Any, chosen: Sequence[str] | None, *, what: str) -> Named:
    """The columns of a frame, or those chosen, as rows of one precision; what is missing is NaN."""
    package = frame_package(frame)
    if package == "pyarrow":
        index = index_columns(frame.schema)  # stored beside the frame: no column of it
        every = frame.column_names
        names = [n for n in every if n not in index] if chosen is None else list(chosen)
        require_names(names, every, what=what)
        frame = frame.select(names)
        kinds = frame.schema.types
        _require_numbers(names, kinds, list(map(is_numeric, kinds)), chosen, what=what)
        return arrow_rows(validated(frame, what=what), arrow_dtype(kinds)), tuple(names)
    names = list(frame.columns)
    if chosen is not None:
        require_names(chosen, names, what=what)
        names, frame = list(chosen), frame[list(chosen)]
    require_rows(frame.shape, what=what, least=0)
    if package == "pandas":
        ok = [dtype.kind in "biuf" for dtype in frame.dtypes]
        _require_numbers(names, frame.dtypes, ok, chosen, what=what)
        single = all(d.kind == "f" and getattr(d, "itemsize", 8) == 4 for d in frame.dtypes)
        rows = frame.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
    else:
        polars = sys.modules["polars"]
        ok = [dtype.is_numeric() or dtype == polars.Boolean for dtype in frame.dtypes]
        _require_numbers(names, frame.dtypes, ok, chosen, what=what)
        single = all(dtype == polars.Float32 for dtype in frame.dtypes)
        rows = frame.cast(polars.Float32 if single else polars.Float64).to_numpy()
    named = all(isinstance(name, str) for name in names)
    return np.ascontiguousarray(rows), tuple(names) if named else None


def require_names(chosen: Sequence[str], names: Sequence[Any], *, what: str) -> None:
    """Raise when a chosen column is not there, or is there twice."""
    counts = Counter(names)
    for name in chosen:
        if counts[name] != 1:
            msg = f"{what} must have one column named {quoted(name)}; got {counts[name]}."
            remedy = "Rename the others." if counts[name] else hint(name, [*map(str, names)])
            raise InputError.saying(msg, remedy, parameter="X", value=name)


def _require_numbers(
    names: Sequence[Any], kinds: Any, ok: list[bool], chosen: Sequence[str] | None, *, what: str
) -> None:
    """Raise unless all columns hold numbers, as `ok` says."""
    if all(ok):
        return
    columns = list(zip(names, kinds, ok, strict=True))
    others = ", ".join(f"{name!r} ({kind})" for name, kind, is_number in columns if not is_number)
    msg = f"{what} has columns that hold no numbers: {others}."
    remedy = f"Encode them, or pass the columns of numbers only: {list(compress(names, ok))}."
    if chosen is not None:  # none of them can be left out
        remedy = "Convert them to numbers, with NaN where a value is missing."
    raise InputError.saying(msg, remedy, parameter="X")


# ── as a reader of files hands them over ────────────────────────────────────
def frame_chunk(frame: Any, numbers: Sequence[str], words: Sequence[str], *, what: str) -> Chunk:
    """The columns of these names, of numbers and of words, whatever else the frame holds."""
    names = frame.column_names if frame_package(frame) == "pyarrow" else list(frame.columns)
    require_names([*numbers, *words], names, what=what)
    rows = frame_rows(frame, numbers, what=what)[0] if numbers else np.empty((len(frame), 0))
    return Chunk(0, rows, {name: texts(frame[name]) for name in words})


def texts(column: Any) -> Any:
    """A column of words, None where one is missing."""
    values = column.to_pylist() if hasattr(column, "to_pylist") else column
    return objects(None if v is None or _is_missing(v) else str(v) for v in values)


def _is_missing(value: Any) -> bool:
    """Whether a value is not equal to itself, as NaN and NaT; pandas' NA refuses to be asked."""
    try:
        return bool(value != value)  # noqa: PLR0124
    except TypeError:
        return True


# ── Arrow ───────────────────────────────────────────────────────────────────
def index_columns(schema: Any) -> set[str]:
    """The columns in which pandas stored the index of a frame."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name for name in index if isinstance(name, str) and name in schema.names}


def is_numeric(kind: Any) -> bool:
    """Whether values of this type of Arrow are numbers."""
    types = need("pyarrow", extra="parquet").types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in tests)


def validated(table: Any, *, what: str) -> Any:
    """The table, after a look at every buffer: Arrow itself trusts the offsets that a file has stored."""
    kinds = sys.modules["pyarrow"].ArrowException
    with explained(what, kinds, remedy="It is damaged: write it again."):
        table.validate(full=True)
    return table


def held(x: Any) -> Any:
    """The table of anything that hands out Arrow's C stream, and what a lazy frame of polars collects to.

    A stream can be read only once, and a query runs whenever it is read, but a fit reads its rows several
    times: they are held in memory. Anything else is handed back as it is.
    """
    if is_a(x, "polars", "LazyFrame"):
        broken = sys.modules["polars"].exceptions.PolarsError
        need("pyarrow", extra="parquet")
        with explained("The polars LazyFrame", broken, remedy="Look at its query."):
            return x.collect().to_arrow()
    if not is_table(x) or frame_package(x) == "pyarrow":
        return x
    if home_of(x) in ("pandas", "polars"):
        return x  # read as frames, with their own types
    pyarrow = need("pyarrow", extra="parquet")
    broken = (TypeError, ValueError, OSError, pyarrow.ArrowException)
    remedy = "Pass a pyarrow.Table, or a function that yields batches."
    with explained(f"The Arrow stream of {kind_of(x)}", broken, remedy=remedy):
        if hasattr(x, "__arrow_c_stream__"):
            return pyarrow.RecordBatchReader.from_stream(x).read_all()
        return pyarrow.Table.from_batches([pyarrow.record_batch(x)])


def arrow_dtype(kinds: Sequence[Any]) -> np.dtype[Any]:
    """float32 when every column is, otherwise float64."""
    single = all(str(kind) == "float" for kind in kinds)  # Arrow's name for 32 bits
    return np.dtype(np.float32 if single else np.float64)


def arrow_rows(table: Any, dtype: np.dtype[Any]) -> Array:
    """A table of numbers as rows; nulls are NaN."""
    pyarrow = need("pyarrow", extra="parquet")
    out = np.empty((table.num_rows, table.num_columns), dtype)
    for j, column in enumerate(table.columns):
        if pyarrow.types.is_decimal(column.type):
            column = column.cast(pyarrow.float64())  # noqa: PLW2901
        out[:, j] = column.to_numpy(zero_copy_only=False)
    return out
