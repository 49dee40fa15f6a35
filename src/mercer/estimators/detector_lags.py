"""What a detector remembers of earlier rows: how much of it, and rows with their past beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from mercer._core.errors import InputError, ParameterError
from mercer._core.params import Constraint, Number, Whole, require
from mercer._core.types import Array, Flags, Indices, Rows
from mercer.data.dask import DaskRows
from mercer.data.table import Table
from mercer.data.times import as_times, read_times
from mercer.data.training import TrainingData
from mercer.engine.moments import Scale
from mercer.estimators.input import as_generator, check_flag
from mercer.monitoring.clock import in_turn, require_pace, rows_before, warn_unread
from mercer.monitoring.lag_choice import chosen_lags
from mercer.monitoring.lags import STATIC, Dynamics, of_rows, usual_step
from mercer.monitoring.report import index_times

PAST: dict[str, Constraint] = {
    "lags": Whole(0, also=("auto",)),
    "smoothing": Number(0, 1, also=(None,)),
}
# Spreads from the centre beyond which a reading counts in the mean as one that far: a single wild one would
# otherwise be remembered for hundreds of rows. But one that stays must be an alarm whatever the other columns
# do, and T² of m columns has a limit of some m, or several m of a slow process: it is at least WIDE √m. Of a
# sensor that stands still, its own size is the spread.
REACH, WIDE, SMALLEST = 10.0, 5.0, 1e-3
# A weighted mean remembers 1/w rows; so many times as many are nearly all that it does.
MEMORIES = 2.0
IDS = 20_000  # rows of a file whose ids are read at a time


def check_past(detector: Any) -> None:
    """Raise unless `lags`, `differences` and `smoothing` can be used, and together."""
    for name, allowed in PAST.items():
        require(name, getattr(detector, name), allowed)
    if check_flag("differences", detector.differences) and detector.lags == 0:
        raise ParameterError.about(
            parameter="differences",
            value=True,
            must_be="False where there are no lags",
            remedy="Set `lags` to 1 or more, or to 'auto'.",
        )


@dataclass(frozen=True, eq=False)
class Remembered:
    """Training rows with their past."""

    how: Dynamics
    rows: Rows  # (m, d(l + 1))
    columns: Any  # names of the columns of lagged rows
    overlap: int  # rows on either side of a stretch that are in its lagged rows
    linked: Flags  # (n,), which of the rows that were kept follow the one before

    def sensors(self, columns: Indices) -> Indices:
        """The sensors that columns of lagged rows are of."""
        return np.unique(columns % (int(self.rows.shape[1]) // (self.how.lags + 1)))

    @classmethod
    def of(
        cls, detector: Any, read: TrainingData, rows: Rows, *, aside: Array, names: Any, time: Any
    ) -> Remembered:
        """The rows that were kept, in the order of time; a row that was set aside ends a history."""
        if detector.lags == 0 and detector.smoothing is None:
            return cls(STATIC, rows, names, 0, np.arange(int(rows.shape[0])) > 0)
        _refuse_unordered(read, rows)
        require_pace(time, read.n)
        warn_unread(time, read.n)
        step = usual_step(time, read.n)
        kept = np.ones(read.n, dtype=bool)
        kept[aside[:, 0].astype(np.intp)] = False
        linked = (Dynamics(step=step).links(read.n, time) & np.append(False, kept[:-1]))[kept]
        how = _learned(detector, rows, linked, step)
        lagged, _ = how.rows(rows, follows=linked)
        if len(lagged) < 2:
            needed = f"lags={how.lags} needs at least {how.lags + 2} rows in a row"
            msg = f"{needed}; X has {read.n}. Give more rows, or lower `lags`."
            if read.n >= how.lags + 2:
                msg = (
                    f"{needed}, without a gap between them; {len(lagged)} of {read.n} rows have "
                    f"{rows_before(how.lags)} directly before them. Lower `lags`, or give rows without gaps."
                )
            raise InputError(msg)
        memory = 0 if how.smoothing is None else ceil(MEMORIES / how.smoothing)
        columns = how.names(names, int(rows.shape[1]))
        return cls(how, lagged, columns, how.lags + memory, linked)


def _learned(detector: Any, rows: Array, linked: Flags, step: float | None) -> Dynamics:
    how = Dynamics(0, bool(detector.differences), None, step)
    if detector.lags == "auto":
        found = chosen_lags(rows, linked, as_generator(detector.random_state))
        differences = how.differences and found.lags > 0
        how = replace(how, lags=found.lags, differences=differences, note=str(found))
    else:
        how = replace(how, lags=int(detector.lags))
    if detector.smoothing is None:
        return how
    usual, weight = Scale.of(rows), float(detector.smoothing)
    still = SMALLEST * np.maximum(np.abs(usual.mean), 1.0)
    spreads = max(REACH, WIDE * np.sqrt(how.width(rows.shape[1])))
    with np.errstate(over="ignore"):  # as far as there are numbers
        reach = spreads * np.where(usual.spread > 0.0, usual.spread, still)
    return replace(how, smoothing=weight, centre=usual.mean, reach=reach)


def _refuse_unordered(read: TrainingData, rows: Rows) -> None:
    """Rows on workers and rows with weights have no past to put beside them."""
    if isinstance(rows, DaskRows):
        msg = "`lags` and `smoothing` need rows in memory; got a dask collection. Use X.compute()."
        raise InputError(msg)
    if read.weights is not None or read.kept is not None:
        msg = (
            "`lags` and `smoothing` are of rows that follow each other, of which weights say nothing. Leave "
            "`sample_weight` out, or fit without lags."
        )
        raise InputError(msg)


def times_of(X: Any, time: Any = None, *, gaps: bool = False) -> Any:
    """The times of rows: as given, or those that the rows bring, in an index or a column of ids."""
    if time is not None or not isinstance(X, Table):
        return index_times(X) if time is None else time
    if X.id_name is None:
        return None
    found = np.concatenate([np.asarray(chunk.ids) for chunk in X.chunks(IDS)])
    form = X.reading.time_format
    if form is None:
        return found
    times = read_times(found, form) if gaps else None  # what is not written so is NaT
    return as_times(found, form) if times is None else times


class Memory:
    """Lagged rows of new rows, for a fitted detector."""

    @property
    def _past(self) -> Dynamics:
        """How rows are made of those up to them; as they are, of a detector older than lags."""
        return vars(self).get("dynamics_", STATIC)

    def _with_past(self, rows: Array, time: Any = None) -> tuple[Array, Flags]:
        """Lagged rows (m, d(l + 1)), and which of the rows they end with (b,)."""
        n, how = len(rows), self._past
        if time is not None:
            of_rows(time, n)
        if how.static:
            return how.rows(rows)
        require_pace(time, n, how)
        warn_unread(time, n)
        there, whole = in_turn(time, n), np.zeros(n, dtype=bool)
        if there.all():
            found, whole = how.rows(rows, time)
        else:
            found, whole[there] = how.rows(rows[there], np.asarray(time)[there])
        lacking = int(np.isnan(rows).any(axis=1).sum())
        if len(found) == 0 and lacking < n:
            raise InputError(self._no_history(n, lacking, time))
        return found, whole

    def _no_history(self, n: int, lacking: int, time: Any) -> str:
        """Why none of n rows has as many before it as the detector looks back."""
        lags = self._past.lags
        if n <= lags:
            return (
                f"X must have at least {lags + 1} rows, since the detector looks back {lags}; got {n}. Give "
                "the rows before them too, or use a `Lagger`."
            )
        gaps = n - 1 - int(self._past.links(n, time).sum())
        reasons = [(gaps, "follow a gap in time"), (lacking, "lack a reading")]
        why = " and ".join(f"{k} {what}" for k, what in reasons if k)
        lacked = f"No row has {rows_before(lags)} directly before it"
        return f"{lacked}: {why}, of {n} rows. Give rows without gaps."
