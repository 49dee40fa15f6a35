"""The detector with PyOD's conventions: labels 0 and 1, scores that rise with abnormality; without PyOD.

from mercer.pyod import KernelPCADetector
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy import special, stats
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer._core.memory import Memory
from mercer._core.params import Number, OneOf, require
from mercer._core.public import Public, public
from mercer._core.types import Array
from mercer.estimators import KernelPCADetector as _Detector
from mercer.estimators.base import Documented
from mercer.estimators.parameters import ApproximationLike, EngineLike, KernelLike, Seed
from mercer.monitoring.limits import Wild
from mercer.monitoring.statistics import Statistic

__all__ = ["KernelPCADetector"]


@public
@dataclass(eq=False, repr=False)
class KernelPCADetector(Documented, Public, BaseEstimator):  # type: ignore[misc]
    """`mercer.KernelPCADetector` as PyOD has its detectors.

    Parameters
    ----------
    contamination : float, default=0.1
        In (0, 0.5): the share of the training rows that are called outliers.
    n_components, kernel, approximation, model, scale, statistic, wild, memory, engine, random_state
        As in `mercer.KernelPCADetector`.

    Attributes
    ----------
    decision_scores_, labels_ : ndarray of shape (n,)
        What `decision_function` and `predict` say of the training rows.
    threshold_ : float
        The quantile 1 - contamination of these scores: rows above are outliers.
    detector_ : mercer.KernelPCADetector
        The fitted detector, with limits, contributions and `monitor`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.pyod import KernelPCADetector
    >>> rows = np.random.default_rng(0).standard_normal((200, 3))
    >>> detector = KernelPCADetector(contamination=0.05).fit(rows)
    >>> detector.predict([[0.0, 0.0, 0.0], [9.0, 9.0, 9.0]]), int(detector.labels_.sum())
    (array([0, 1]), 10)
    """

    contamination: float = 0.1
    _: KW_ONLY
    n_components: int | float | None = 0.99
    kernel: KernelLike = "auto"
    approximation: ApproximationLike = None
    model: Any = None
    scale: bool = True
    statistic: Statistic = "combined"
    wild: Wild = "aside"
    memory: Memory = "auto"
    engine: EngineLike = "auto"
    random_state: Seed = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what is normal from rows of which a few are not.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : ignored

        Returns
        -------
        self
        """
        del y
        require("contamination", self.contamination, Number(0, 0.5))
        detector = _Detector(**self.get_params(deep=False)).fit(X)
        scores = -detector.score_samples(X)
        self.detector_, self.decision_scores_ = detector, scores
        self.threshold_ = float(np.percentile(scores, 100.0 * (1.0 - self.contamination)))
        self.labels_ = (scores > self.threshold_).astype(int)
        self.n_features_in_ = detector.n_features_in_
        return self

    def decision_function(self, X: Any) -> Array:
        """How abnormal each row is: the index of T² and Q, higher for outliers.

        Parameters
        ----------
        X : array-like of shape (b, d)

        Returns
        -------
        scores : ndarray of shape (b,)
        """
        check_is_fitted(self)
        return -self.detector_.score_samples(X)

    def predict(self, X: Any, return_confidence: bool = False) -> Any:
        """0 for rows that look normal, 1 for outliers.

        Parameters
        ----------
        X : array-like of shape (b, d)
        return_confidence : bool, default=False
            Whether to return `predict_confidence` as well.

        Returns
        -------
        labels : ndarray of shape (b,), or a tuple of it and the confidence
        """
        labels = (self.decision_function(X) > self.threshold_).astype(int)
        return (labels, self.predict_confidence(X)) if return_confidence else labels

    def fit_predict(self, X: Any, y: Any = None) -> Array:
        """Fit, and give the labels of the training rows.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        return self.fit(X, y).labels_

    def predict_proba(
        self, X: Any, method: Literal["linear", "unify"] = "linear", return_confidence: bool = False
    ) -> Any:
        """Scores brought to [0, 1], as PyOD does it. They are no probabilities of anything.

        Parameters
        ----------
        X : array-like of shape (b, d)
        method : "linear" or "unify", default="linear"
            Between the least and the largest training score; or by the normal distribution with the mean and
            the variance of these (Kriegel et al. 2011). For p-values see `mercer.KernelPCADetector.p_values`.
        return_confidence : bool, default=False
            Whether to return `predict_confidence` as well.

        Returns
        -------
        shares : ndarray of shape (b, 2), or a tuple of it and the confidence
            Of normal, and of outlier.
        """
        require("method", method, OneOf(("linear", "unify")))
        scores = np.asarray(self.decision_function(X), dtype=np.float64)
        known = self.decision_scores_
        low, high = float(known.min()), float(known.max())
        if method == "linear":
            outlier = (scores - low) / (high - low if high > low else 1.0)
        else:
            outlier = special.erf((scores - known.mean()) / (known.std() * np.sqrt(2.0)))
        outlier = np.clip(outlier, 0.0, 1.0)
        shares = np.column_stack([1.0 - outlier, outlier])
        return (shares, self.predict_confidence(X)) if return_confidence else shares

    def predict_confidence(self, X: Any) -> Array:
        """How likely a label would be the same for another sample of training rows (Perini et al. 2020).

        Parameters
        ----------
        X : array-like of shape (b, d)

        Returns
        -------
        confidence : ndarray of shape (b,)
        """
        scores, n = self.decision_function(X), len(self.decision_scores_)
        below = np.searchsorted(np.sort(self.decision_scores_), scores, side="right")
        chance = (1.0 + below) / (2.0 + n)
        found = 1.0 - stats.binom.cdf(n - int(n * self.contamination), n, chance)
        return np.where(scores > self.threshold_, found, 1.0 - found)
