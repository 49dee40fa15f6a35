"""Which variables a row differs in: contributions, by sensor and by lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.params import OneOf, require
from mercer.estimators.detector_rows import Answers, spread_out
from mercer.monitoring.contributions import Baselines, need_slopes, warn_incomplete
from mercer.monitoring.statistics import STATISTICS, Statistic

if TYPE_CHECKING:
    from mercer._core.types import Array, Flags


class Blame(Answers):
    """What each variable adds to a statistic of a fitted detector."""

    _baselines: Baselines

    def contributions(self, X: Any, statistic: Statistic | None = None) -> Array:
        """What each variable adds to a statistic: integrated gradients from a normal row to the row.

        That is the training mean where it is normal, else the nearest of ``baselines_``. They sum to the
        statistic of the row less that of its baseline, and don't depend on the units of the variables. For
        linear PCA they are the complete decomposition x_d (Mx)_d. A contribution may be negative; those of
        a row with infinite statistics are NaN.

        Parameters
        ----------
        X : array-like of shape (b, d), or a source of rows
        statistic : "T2", "Q" or "combined", optional
            ``"combined"`` takes, for each row, the statistic that is the larger in units of its limit, in
            these units. By default the one that the detector goes by.

        Returns
        -------
        contributions : ndarray of shape (b, d)
        """
        found, whole = self._contributions(X, statistic)
        return spread_out(self._past.folded(found).sum(axis=1), whole, np.nan)

    def lag_contributions(self, X: Any, statistic: Statistic | None = None) -> Array:
        """What each variable adds to a statistic now, and did a row before, and so on.

        Parameters
        ----------
        X : array-like of shape (b, d), or a source of rows
            In the order of time.
        statistic : "T2", "Q" or "combined", optional
            As in `contributions`.

        Returns
        -------
        contributions : ndarray of shape (b, l + 1, d)
            By row, lag and variable; their sum over lags is `contributions`. Rows that have too few before
            them have NaN.
        """
        found, whole = self._contributions(X, statistic)
        return spread_out(self._past.folded(found), whole, np.nan)

    def _contributions(self, X: Any, statistic: Statistic | None) -> tuple[Array, Flags]:
        """Contributions of the columns of lagged rows, and which rows have them."""
        rows, whole = self._with_past(self._read(X))
        rows = self._judge.scaled(rows)
        which = self._rule.statistic if statistic is None else statistic
        require("statistic", which, OneOf(STATISTICS))
        need_slopes(self._kernel)
        found, gap = self._baselines.explain(self._gauge, self.limits_, rows, which)
        warn_incomplete(gap)
        return self._judge.own(found), whole
