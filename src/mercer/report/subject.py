"""What a report is about: a fitted model, rows that it can take, and what one pass over these finds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError
from mercer.data.intake import admitted
from mercer.data.rows import row_blocks
from mercer.data.sources import as_source
from mercer.engine.moments import ColumnMoments, Scale
from mercer.engine.pairwise import dense
from mercer.estimators import KernelPCADetector
from mercer.estimators.prepared import Prepared
from mercer.monitoring.alarms import Gaps
from mercer.report.looks import looks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mercer._core.types import Array, Indices, Rows
    from mercer.model import Fit
    from mercer.report.looks import Looks

BLOCK_ENTRIES = 2**21  # numbers in a block of rows
BLOCK_ROWS = 2**14
MOST_AXES = 10  # components that a picture can be asked for


@dataclass(frozen=True, eq=False)
class Measured:
    """What one pass over the rows has found."""

    columns: (
        Array  # (4, d): least, mean, population standard deviation and largest, in the file's units
    )
    scores: Array  # (n, c): of the first c components
    errors: Array | None  # (n,): squared distance from the components, in feature space
    lengths: Array  # (n,): squared length of all scores of a row


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model and rows, as the model takes them; `raw` brings rows back to the units of the file."""

    model: Any
    rows: Rows  # (n, d): those without a missing cell
    names: tuple[str, ...]  # of the d columns
    gaps: Gaps  # of all rows that were given, N ≥ n
    preparation: Any
    ids: Any  # (N,) or None
    labels: Any  # (n,) or None
    missing: Any  # (d,) values that were missing of each column, or None where nobody counted
    header: Mapping[str, Any]
    notes: tuple[str, ...]
    digest: str | None
    source: str | None  # the data file, as the user calls it; - is standard input
    model_file: str | None
    commands: tuple[str, ...]
    title: str | None

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.rows.shape[0])

    @property
    def d(self) -> int:
        """Number of columns."""
        return int(self.rows.shape[1])

    @property
    def detector(self) -> KernelPCADetector | None:
        """The model, where it is a detector."""
        return self.model if isinstance(self.model, KernelPCADetector) else None

    @property
    def projector(self) -> Any:
        """What gives scores: the model, or the one inside a detector."""
        return self.model if self.detector is None else self.detector.model_

    @property
    def fit(self) -> Fit | None:
        """The evidence; None for a drop-in, which keeps none."""
        return getattr(self.projector, "fit_", None)

    @property
    def kernel(self) -> Any:
        """The kernel with every parameter a number; None for linear PCA."""
        return getattr(self.projector, "kernel_", None)

    @property
    def is_precomputed(self) -> bool:
        """Whether the rows are kernel values, not points."""
        given = getattr(self.projector, "kernel", None)
        ours = bool(getattr(self.kernel, "is_precomputed", False))
        return ours or (isinstance(given, str) and given == "precomputed")

    @property
    def image_shape(self) -> tuple[int, int] | None:
        """Height and width, where a row is a picture."""
        shape = getattr(self.preparation, "image_shape", None)
        if shape is None or int(shape[0]) * int(shape[1]) != self.d:
            return None
        return int(shape[0]), int(shape[1])

    @property
    def k(self) -> int:
        """Number of components."""
        return len(self.projector.eigenvalues_)

    def told(self, part: str, key: str, kind: type) -> Any:
        """An entry of the model file's header; None where it is of another kind: it may hold anything."""
        found = self.header.get(part)
        value = found.get(key) if isinstance(found, dict) else None
        return value if isinstance(value, kind) else None

    # ── rows in, numbers out ────────────────────────────────────────────────
    def blocks(self) -> Iterator[tuple[slice, Rows]]:
        """All rows, some at a time."""
        return row_blocks(self.rows, min(BLOCK_ROWS, max(1, BLOCK_ENTRIES // self.d)))

    def inner(self, block: Rows) -> Rows:
        """Rows as the projector takes them: a detector scales its own."""
        return block if self._scale is None else self._scale(block)

    @property
    def _scale(self) -> Scale | None:
        detector = self.detector
        return None if detector is None else Scale(detector.center_, detector.spread_)

    def scores(self, block: Rows) -> Array:  # (b, d) -> (b, k)
        """Scores of some rows."""
        return self._scored(self.inner(block))

    def _scored(self, rows: Rows) -> Array:
        """Scores; NaN for rows so far out that the kernel overflows, which `transform` refuses."""
        try:
            return np.asarray(self.projector.transform(rows))
        except InputError:
            if rows.shape[0] == 1:
                return np.full((1, self.k), np.nan)
        middle = rows.shape[0] // 2
        return np.concatenate([self._scored(rows[:middle]), self._scored(rows[middle:])])

    def raw(self, block: Rows) -> Array:  # (b, d) -> (b, d)
        """Rows in the units of the file."""
        rows = dense(block)
        return rows if self.preparation is None else np.asarray(self.preparation.unscaled(rows))

    def prepared(self, raw: Array) -> Array:  # (b, d) -> (b, d)
        """Rows as the model takes them, from the units of the file."""
        return raw if self.preparation is None else np.asarray(self.preparation.scaled(raw))

    def back(self, block: Rows) -> Array:  # (b, d) -> (b, d)
        """Rows as the components see them, in the units of the file."""
        found = np.asarray(self.projector.inverse_transform(self.scores(block)))
        return self.raw(found if self._scale is None else self._scale.back(found))

    @property
    def has_way_back(self) -> bool:
        """Whether scores lead back to rows."""
        known = hasattr(self.projector, "inverse_transform")
        # scikit-learn's name for a pre-image.
        known = getattr(self.projector, "fit_inverse_transform", known)
        return getattr(self.projector, "preimage", known or None) is not None

    @cached_property
    def measured(self) -> Measured:
        """What is in the columns, the first scores, and what the components miss."""
        n, d, c = self.n, self.d, min(self.k, MOST_AXES)
        scores, lengths = np.empty((n, c)), np.empty(n)
        measures = hasattr(self.projector, "reconstruction_error") and not self.is_precomputed
        errors = np.empty(n) if measures else None
        seen: ColumnMoments | None = None
        low, high = np.full(d, np.inf), np.full(d, -np.inf)
        # A row so far out that its numbers overflow has infinite ones, and is told of where they are shown.
        with np.errstate(over="ignore", invalid="ignore"):
            for i, block in self.blocks():
                raw = self.raw(block).astype(np.float64, copy=False)
                here = ColumnMoments.of(raw, None, raw[0] if seen is None else seen.shift)
                seen = here if seen is None else seen.merged(here)
                low, high = np.minimum(low, raw.min(axis=0)), np.maximum(high, raw.max(axis=0))
                found = self.scores(block)
                scores[i], lengths[i] = found[:, :c], np.sum(found.astype(np.float64) ** 2, axis=1)
                if errors is not None:
                    errors[i] = self.projector.reconstruction_error(self.inner(block))
        assert seen is not None  # there are rows
        columns = np.stack([low, seen.mean, seen.spread(), high])
        return Measured(columns, scores, errors, lengths)

    # ── what things are called ──────────────────────────────────────────────
    @cached_property
    def looks(self) -> Looks:
        """The labels as classes."""
        return looks(self.labels, self.n)

    @property
    def data_file(self) -> str | None:
        """The data file in words."""
        return "standard input" if self.source == "-" else self.source

    @property
    def files(self) -> tuple[str, str]:
        """Model and data as a command takes them."""
        return self.model_file or "model.mercer", self.source or "data.csv"

    @property
    def row_name(self) -> str:
        """What the rows go by: the column of ids where the file had one, or their number."""
        if self.ids is None:
            return "row"
        return str(getattr(self.preparation, "id", None) or "id")

    @cached_property
    def places(self) -> Indices:  # (n,)
        """The positions of the rows among all that were given."""
        return np.flatnonzero(self.gaps.judged)

    @cached_property
    def called(self) -> Any:  # (N,)
        """What each of the rows that were given is called: its id, or its number from 1 on."""
        return np.arange(1, len(self.gaps.judged) + 1) if self.ids is None else self.ids

    def id_of(self, row: int) -> str:
        """What a row is called."""
        return str(self.called[self.places[row]])


def subject(
    model: Any,
    X: Any,
    *,
    preparation: Any,
    names: Any,
    ids: Any,
    labels: Any,
    missing: Any,
    **known: Any,
) -> Subject:
    """Model and rows, checked: one name a column, one id and one label a row."""
    # A prepared model takes rows of the file; the one inside takes them scaled.
    if isinstance(model, Prepared):
        read = model.rows if not hasattr(model.model, "monitor") else model.gappy_rows
        X, preparation, model = read(X), model.preparation, model.model
    if not hasattr(model, "n_features_in_"):
        msg = (
            f"A report needs a fitted model, but a {type(model).__name__} that was not fitted came. Call "
            "`fit` first."
        )
        raise InputError(msg)
    gaps = _gaps(model, X)
    rows = _rows(X if gaps is None else np.asarray(X)[gaps.judged])
    n, d = map(int, rows.shape)
    if d != int(model.n_features_in_):
        msg = (
            f"The rows have {d} columns, but the model was fitted to {model.n_features_in_}. Pass rows of "
            "the same columns, in the same order."
        )
        raise InputError(msg)
    if n == 0:
        msg = "There are no rows to report on. Pass at least one."
        raise InputError(msg)
    gaps = gaps or Gaps(np.ones(n, dtype=bool), np.zeros(d, dtype=int))
    about = Subject(
        model,
        rows,
        _names(names, preparation, model, X, d),
        gaps,
        preparation,
        ids=_one_each("ids", ids, len(gaps.judged), "rows"),
        labels=_one_each("labels", labels, len(gaps.judged), "rows"),
        missing=_one_each("missing", missing, d, "columns"),
        **known,
    )
    return _complete(about) if gaps.count else about


def _gaps(model: Any, X: Any) -> Gaps | None:
    """The gaps in rows for a detector, which can judge the others; None where there are none."""
    if not isinstance(model, KernelPCADetector) or not hasattr(X, "__array__"):
        return None
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.dtype.kind != "f" or not np.isnan(rows).any():
        return None
    found = Gaps.of(rows)
    if not found.judged.any():
        msg = f"None of {len(rows)} rows is complete: each lacks at least one cell. Pass some that are."
        raise InputError(msg)
    return found


def _complete(about: Subject) -> Subject:
    """The labels of the complete rows, and a note on the others."""
    gaps = about.gaps
    told = f"{gaps.in_words(about.names)} The page is about the others; the charts of Monitoring mark them."
    return replace(
        about,
        labels=None if about.labels is None else about.labels[gaps.judged],
        missing=gaps.missing if about.missing is None else about.missing + gaps.missing,
        notes=(*about.notes, told),
    )


def _rows(X: Any) -> Rows:
    source = as_source(X)
    if source is not None:
        return source
    X = admitted(X)
    if hasattr(X, "indptr"):
        return X.tocsr()
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.dtype.kind not in "biuf":
        msg = (
            f"Rows must be a 2-D array of numbers, but {rows.ndim}-D of dtype {rows.dtype} came. Pass what "
            "the model was fitted to, or rows like those."
        )
        raise InputError(msg)
    return rows if rows.dtype.kind == "f" else rows.astype(np.float64)


def _names(
    names: Sequence[str] | None, preparation: Any, model: Any, X: Any, d: int
) -> tuple[str, ...]:
    for known in (
        names,
        getattr(preparation, "features", None),
        getattr(model, "feature_names_in_", None),
        getattr(X, "columns", None),
    ):
        if known is not None and len(known) == d:
            return tuple(map(str, known))
    if names is not None:
        msg = f"`names` has {len(names)} entries, but there are {d} columns. Give one for each."
        raise InputError(msg)
    return tuple(f"x{j}" for j in range(d))


def _one_each(what: str, values: Any, n: int, of: str) -> Any:
    if values is None:
        return None
    array = np.asarray(values)
    if array.shape != (n,):
        msg = f"`{what}` has shape {array.shape}, but there are {n} {of}. Pass one for each."
        raise InputError(msg)
    return array
