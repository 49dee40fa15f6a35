"""What a report is about: a fitted model, rows that it can take, and what one pass over these finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from mercer._core.errors import InputError, MercerWarning
from mercer._core.findings import collected, warn
from mercer._core.types import Array, Indices, Rows
from mercer.data.frames import batch_rows
from mercer.data.sources import as_source
from mercer.engine.moments import ColumnMoments
from mercer.monitoring.alarms import Gaps
from mercer.monitoring.report import Monitoring, index_times
from mercer.views.classes import Classes, alarm_classes, classes
from mercer.views.fitted import Fitted, each_row
from mercer.views.leaders import watched

MOST_AXES = 10  # components that a picture can be asked for


@dataclass(frozen=True, eq=False)
class Measured:
    """What one pass over the rows has found."""

    # (4, d): least, mean, population standard deviation, largest, in the file's units
    columns: Array
    scores: Array  # (n, c): of the first c components; NaN where a kernel overflows
    errors: Array | None  # (n,): squared distance from the components, in feature space
    lengths: Array  # (n,): squared length of all scores of a row


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model and rows, as the model takes them."""

    fitted: Fitted
    rows: Rows  # (n, d): those without a missing cell
    names: tuple[str, ...]  # of the d columns
    gaps: Gaps  # of all rows that were given, N ≥ n
    ids: Any  # (N,) or None
    labels: Any  # (n,) or None
    missing: Any  # (d,) values that were missing of each column, or None where not counted
    header: Mapping[str, Any]
    notes: tuple[str, ...]
    digest: str | None
    source: str | None  # the data file, as the user calls it; - is standard input
    model_file: str | None
    commands: tuple[str, ...]
    title: str | None
    id_name: str = "id"

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.rows.shape[0])

    def entry(self, part: str, key: str, kind: type) -> Any:
        """An entry of the model file's header; None where it is of another kind: it may hold anything."""
        found = self.header.get(part)
        value = found.get(key) if isinstance(found, dict) else None
        return value if isinstance(value, kind) else None

    @property
    def is_retrained(self) -> bool:
        """Whether a detector learned rows after its fit: the header then describes those."""
        detector = self.fitted.detector
        return detector is not None and len(detector.lineage_) > 0

    # ── what the rows say ───────────────────────────────────────────────────
    @cached_property
    def measured(self) -> Measured:
        """Statistics of the columns, the first scores, and what the components miss."""
        n, d, fitted = self.n, self.fitted.d, self.fitted
        c = min(fitted.k, MOST_AXES)
        # Of rows so far out that the kernel, or a square, overflows.
        no_scores, no_error = np.full((1, fitted.k), np.nan), np.full(1, np.inf)
        scores, lengths = np.empty((n, c)), np.empty(n)
        errors = np.empty(n) if fitted.measures_distance else None
        seen: ColumnMoments | None = None
        low, high = np.full(d, np.inf), np.full(d, -np.inf)
        # A row so far out that its numbers overflow has infinite ones, and the page says so.
        with np.errstate(over="ignore", invalid="ignore"):
            for i, block in fitted.blocks(self.rows):
                raw = fitted.raw(block).astype(np.float64, copy=False)
                here = ColumnMoments.of(raw, None, raw[0] if seen is None else seen.shift)
                seen = here if seen is None else seen.merged(here)
                low, high = np.minimum(low, raw.min(axis=0)), np.maximum(high, raw.max(axis=0))
                own, at, when = block, np.full(int(block.shape[0]), fill_value=True), None
                if fitted.looks_back:  # with those before a row, and what lies between in its place
                    own, at, when = self.every, self.gaps.judged, self.called
                scored = partial(each_row, fitted.projector.transform, refused=no_scores)
                found = fitted.each(scored, own, when)[at]
                scores[i], lengths[i] = found[:, :c], np.sum(found.astype(np.float64) ** 2, axis=1)
                if errors is not None:
                    missed = fitted.projector.reconstruction_error
                    of_rows = partial(each_row, missed, refused=no_error)
                    errors[i] = fitted.each(of_rows, own, when)[at]
        assert seen is not None  # there are rows
        return Measured(np.stack([low, seen.mean, seen.spread(), high]), scores, errors, lengths)

    @cached_property
    def every(self) -> Array:  # (N, d)
        """All rows that were given; those with a missing cell are NaN throughout."""
        found = np.full((len(self.gaps.judged), self.fitted.d), np.nan)
        found[self.gaps.judged] = np.asarray(self.rows[:])
        return found

    @cached_property
    def placed(self) -> Indices:  # (m,)
        """Which of the complete rows a model can place: not those with too few rows before them."""
        if not self.fitted.looks_back:
            return np.arange(self.n)
        return np.flatnonzero(self.watched[0].table["judged"][self.gaps.judged])

    @cached_property
    def watched(self) -> tuple[Monitoring, tuple[str, ...]]:
        """What a detector sees in the rows, and what it warned of."""
        rows = self.every if self.fitted.looks_back else self.rows
        return watched(self.fitted, rows, names=self.names, gaps=self.gaps, time=self.called)

    @cached_property
    def looks(self) -> Classes:
        """The labels as classes."""
        return classes(self.labels, self.n)

    @cached_property
    def score_looks(self) -> Classes:
        """The classes that colour the scores: labels, or alarms."""
        if self.fitted.detector is None:
            return self.looks
        return alarm_classes(self.watched[0].table["alarm"][self.gaps.judged], self.labels)

    # ── what things are called ──────────────────────────────────────────────
    @property
    def data_file(self) -> str | None:
        """The data file in words."""
        return "standard input" if self.source == "-" else self.source

    @property
    def row_name(self) -> str:
        """What rows are named by: the column of ids where the file had one, or their number."""
        if self.ids is None:
            return "row"
        prepared = self.fitted.preparation
        return self.id_name if prepared is None else prepared.id or self.id_name

    @cached_property
    def called(self) -> Any:  # (N,)
        """What each of the rows that were given is called: its id, or its number from 1 on."""
        return np.arange(1, len(self.gaps.judged) + 1) if self.ids is None else self.ids

    @cached_property
    def called_rows(self) -> Any:  # (n,)
        """What each complete row is called."""
        return np.asarray(self.called)[self.gaps.judged]


def subject(
    model: Any,
    X: Any,
    preparation: Any,
    names: Any,
    *,
    ids: Any,
    labels: Any,
    missing: Any,
    **known: Any,
) -> Subject:
    """Model and rows, checked: one name a column, one id and one label a row."""
    fitted = Fitted.of(model, preparation)
    # A pipeline of steps that can't be read says so before its rows are looked at.
    assert fitted.k >= 0
    if ids is None and index_times(X) is not None:
        ids, known["id_name"] = index_times(X), "time"
    warnings: list[MercerWarning] = []
    with collected(warnings.append):
        named, X = fitted.names(names, X), fitted.rows(X)
    for warning in warnings:  # on the page as well
        warn(warning)
    known["notes"] = (*known["notes"], *map(str, warnings))
    gaps = _gaps(fitted, X)
    X = X if gaps is None else np.asarray(X)[gaps.judged]
    source = as_source(X)
    rows = batch_rows(X, None, what="`X`")[0] if source is None else source
    n, d = map(int, rows.shape)
    if d != fitted.d:
        msg = f"The rows have {d} columns, but the model was fitted to {fitted.d}. "
        msg += "Pass rows of the same columns, in the same order."
        raise InputError(msg)
    if n == 0:
        msg = "There are no rows to report on. Pass at least one."
        raise InputError(msg)
    gaps = gaps or Gaps(np.ones(n, dtype=bool), np.zeros(d, dtype=int))
    ids = _shown(_one_each("ids", ids, len(gaps.judged), "rows"))
    labels = _one_each("labels", labels, len(gaps.judged), "rows")
    missing = _one_each("missing", missing, d, "columns")
    if gaps.count:
        labels = None if labels is None else labels[gaps.judged]
        missing = gaps.missing if missing is None else missing + gaps.missing
        words = "The page is about the others; the charts of alarms mark them."
        known["notes"] += (f"{gaps.in_words(named)} {words}",)
    return Subject(fitted, rows, named, gaps, ids=ids, labels=labels, missing=missing, **known)


def _shown(ids: Any) -> Any:
    """Dates as people write them."""
    if ids is None or ids.dtype.kind != "M":
        return ids
    unit = next((u for u in ("m", "s") if np.all(ids.astype(f"M8[{u}]") == ids)), None)
    ids = ids if unit is None else ids.astype(f"M8[{unit}]")
    return np.array([str(date).replace("T", " ") for date in ids])


def _gaps(fitted: Fitted, X: Any) -> Gaps | None:
    """The gaps in rows for a detector, which can judge the others; None where there are none."""
    if fitted.detector is None or not hasattr(X, "__array__"):
        return None
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.dtype.kind != "f" or not np.isnan(rows).any():
        return None
    found = Gaps.of(rows)
    if not found.judged.any():
        msg = f"None of {len(rows)} rows is complete: each lacks at least one cell. Pass some that are."
        raise InputError(msg)
    return found


def _one_each(what: str, values: Any, n: int, of: str) -> Any:
    if values is None:
        return None
    array = np.asarray(values)
    if array.shape != (n,):
        msg = f"`{what}` has shape {array.shape}, but there are {n} {of}. Pass one for each."
        raise InputError(msg)
    return array
