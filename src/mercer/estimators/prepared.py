"""A fitted model together with the preparation of its rows: it takes rows as a file has them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from mercer._core.errors import InputError, ReadingWarning, refuse
from mercer._core.findings import warn
from mercer._core.types import Array, Rows
from mercer.data.columns import listed
from mercer.data.frames import frame_chunk, frame_package, held
from mercer.data.intake import admitted, refuse_text
from mercer.data.rounding import warn_rounded
from mercer.data.table import Chunk, Table
from mercer.estimators.base import Saving
from mercer.estimators.detector_lags import times_of
from mercer.estimators.input import in_our_name
from mercer.estimators.parameters import PreimageLike
from mercer.estimators.pipelines import prepared_parts, steps_of
from mercer.monitoring.alarm_rule import AlarmRule
from mercer.monitoring.events import Event
from mercer.monitoring.judge import LiveStream
from mercer.monitoring.lags import STATIC
from mercer.monitoring.report import Monitoring
from mercer.preprocessing.align import file_rows
from mercer.preprocessing.learn import Unseen
from mercer.preprocessing.preparation import Preparation

FILES = (str, os.PathLike, Table)
# What a model may be asked about rows.
ASKED = (
    "transform", "inverse_transform", "reconstruct", "reconstruction_error", "predict", "decision_function",
    "p_values", "contributions", "monitor", "stream", "events",
)  # fmt: skip
TIMES = """
        time : array-like of shape (b,), optional
            As in `mercer.KernelPCADetector.predict`."""


def _of_rows(name: str, says: str, result: str, *, timed: bool = False) -> Callable[..., Array]:
    """A method that asks the model about raw rows; of a detector, which takes times, ``timed``."""

    def asked(self: Prepared, X: Any) -> Array:
        answer = self._asked(name)(self.rows(X))
        return self.preparation.unscaled(answer) if name == "reconstruct" else answer

    def judged(self: Prepared, X: Any, time: Any = None) -> Array:
        rows, time = self.rows(X), self._times(X, time)
        return self._asked(name)(rows, *(() if time is None else (time,)))

    method, times = (judged, TIMES) if timed else (asked, "")
    method.__name__, method.__qualname__ = name, f"Prepared.{name}"
    method.__doc__ = f"""{says}

        Parameters
        ----------
        X : array-like or data frame, as in `rows`{times}

        Returns
        -------
        {result}
        """
    return method


@dataclass(frozen=True, eq=False)
class Prepared(Saving):
    """A model of prepared rows, for rows that are not: filled, one-hot, scaled, then asked.

    The command line keeps its models so: a model without its scaling is half a model. What goes in and comes
    out is in the units of the file.

    Parameters
    ----------
    preparation : Preparation
        What was done to the rows before the fit.
    model : fitted estimator
        Of prepared rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCA, Prepared
    >>> from mercer.preprocessing.preparation import Preparation
    >>> X = np.random.default_rng(0).standard_normal((50, 2)) * [1.0, 100.0]
    >>> center, spread = X.mean(axis=0), X.std(axis=0)
    >>> scaled = Preparation(numbers=("a", "b"), center=center, spread=spread)
    >>> prepared = Prepared(scaled, KernelPCA(2).fit((X - center) / spread))
    >>> np.allclose(prepared.transform(X), prepared.model.transform((X - center) / spread))
    True
    """

    preparation: Preparation
    model: Any

    def rows(self, X: Any) -> Rows:
        """Raw rows as the model takes them.

        Parameters
        ----------
        X : array-like of shape (b, p), a data frame of pandas, polars or Arrow, or a file
            Arrays have the columns of the file in its order and no categories; the columns of a frame or of
            a file, by its path or as `mercer.open_table` opens it, are found by name, whatever else it holds.

        Returns
        -------
        rows : ndarray of shape (b, d), or a source of rows of a file that does not fit in half of the memory
        """
        if isinstance(X, FILES):
            return file_rows(X, self.preparation)
        return self.preparation(self._chunk(X))

    def gappy_rows(self, X: Any) -> Array:
        """The same, with NaN where a value is missing and nothing is there to be put in its place.

        Parameters
        ----------
        X : array-like or data frame, as in `rows`

        Returns
        -------
        rows : ndarray of shape (b, d)
        """
        if isinstance(X, FILES):
            return file_rows(X, self.preparation, gaps=True)[:]
        return self.preparation.gappy(self._chunk(X))

    def coded_rows(self, X: Any) -> Array:
        """Raw rows, words as columns of 0 and 1: what an exported graph takes.

        Parameters
        ----------
        X : array-like or data frame, as in `rows`

        Returns
        -------
        rows : ndarray of shape (b, d), with NaN where a number of a frame is missing
        """
        if isinstance(X, FILES):
            return self.preparation.unscaled(np.asarray(file_rows(X, self.preparation)[:]))
        return self.preparation.coded(self._chunk(X))

    transform = _of_rows("transform", "Scores of raw rows.", "scores : ndarray of shape (b, k)")
    reconstruct = _of_rows(
        "reconstruct",
        "Each raw row as the components see it, in the units of the file.",
        "rows : ndarray of shape (b, d), columns as in ``preparation.features``",
    )
    reconstruction_error = _of_rows(
        "reconstruction_error",
        "Squared distance in feature space of each raw row from its projection.",
        "errors : ndarray of shape (b,)",
    )
    predict = _of_rows(
        "predict",
        "1 for raw rows that look normal to a detector, -1 for others.",
        "labels : ndarray of shape (b,), of integers",
        timed=True,
    )
    decision_function = _of_rows(
        "decision_function",
        "Below zero for raw rows that a detector calls outliers.",
        "scores : ndarray of shape (b,)",
        timed=True,
    )
    p_values = _of_rows(
        "p_values",
        "How often a normal row lies as far out as each raw row, for a detector.",
        "p_values : ndarray of shape (b,)",
        timed=True,
    )

    def inverse_transform(self, X: Any) -> Array:
        """Rows in the units of the file whose scores are near the given ones.

        Parameters
        ----------
        X : array-like of shape (b, k)

        Returns
        -------
        rows : ndarray of shape (b, d), columns as in ``preparation.features``
        """
        return self.preparation.unscaled(self._asked("inverse_transform")(X))

    def contributions(self, X: Any, statistic: str | None = None, time: Any = None) -> Array:
        """What each prepared column adds to a detector's statistic.

        Parameters
        ----------
        X : array-like or data frame, as in `rows`
        statistic, time
            As in `mercer.KernelPCADetector.contributions`.

        Returns
        -------
        contributions : ndarray of shape (b, d)
        """
        return self._asked("contributions")(self.rows(X), statistic, self._times(X, time))

    def monitor(
        self, X: Any, time: Any = None, top: int = 3, explain: str = "alarms"
    ) -> Monitoring:
        """A detector's report on raw rows, with the names of the file; incomplete rows are marked.

        Parameters
        ----------
        X : array-like or data frame, as in `rows`
        time, top, explain
            As in `mercer.KernelPCADetector.monitor`.

        Returns
        -------
        monitoring : Monitoring
        """
        rows, time = self.gappy_rows(X), times_of(X, time, gaps=True)
        return self._asked("monitor")(rows, time, self.preparation.features, top, explain)

    def stream(self, rule: AlarmRule | None = None, top: int = 3) -> LiveStream:
        """Judge rows as the model takes them, when they arrive: push `gappy_rows` of raw ones.

        Parameters
        ----------
        rule, top
            As in `mercer.KernelPCADetector.stream`.

        Returns
        -------
        stream : LiveStream
        """
        return self._asked("stream")(self.preparation.features, rule=rule, top=top)

    def events(self, X: Any, time: Any = None, rule: AlarmRule | None = None) -> list[Event]:
        """The events in raw rows, with the names of the file.

        Parameters
        ----------
        X : array-like or data frame, as in `rows`
        time, rule
            As in `mercer.KernelPCADetector.events`.

        Returns
        -------
        events : list of Event
        """
        rows, time = self.gappy_rows(X), times_of(X, time, gaps=True)
        return self._asked("events")(rows, time, self.preparation.features, rule)

    def truncated(self, n_components: int | float, X: Any = None) -> Prepared:
        """The same preparation and model with fewer components, without a refit.

        Parameters
        ----------
        n_components : int or float
            As in `mercer.KernelPCA.truncated`.
        X : array-like or data frame, as in `rows`, optional
            The training rows, where a pre-image needs them.

        Returns
        -------
        prepared : Prepared
        """
        rows = () if X is None else (self.rows(X),)
        return replace(self, model=self._asked("truncated")(n_components, *rows))

    def with_preimage(self, preimage: PreimageLike, X: Any = None) -> Prepared:
        """The same preparation and model with another pre-image, without a refit.

        Parameters
        ----------
        preimage : str, Preimage or None
            As in `mercer.KernelPCA.with_preimage`.
        X : array-like or data frame, as in `rows`, optional
            The training rows, where the model does not keep them.

        Returns
        -------
        prepared : Prepared
        """
        rows = None if X is None else self.rows(X)
        return replace(self, model=self._asked("with_preimage")(preimage, rows))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the scores, as scikit-learn has them.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of str
        """
        del input_features
        return self._asked("get_feature_names_out")()

    def to_pipeline(self) -> Any:
        """A scikit-learn pipeline that gives the same scores: imputer, encoder, scaler and the model.

        Where columns hold categories, it takes data frames only, and making it needs pandas.

        Returns
        -------
        pipeline : sklearn.pipeline.Pipeline
            Fitted. `mercer.save` keeps it.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import PCA, Prepared
        >>> from mercer.preprocessing.preparation import Preparation
        >>> X = np.random.default_rng(0).standard_normal((50, 2)) + 100.0
        >>> centred = Preparation(numbers=("a", "b"), center=X.mean(axis=0))
        >>> pipeline = Prepared(centred, PCA(2).fit(X - X.mean(axis=0))).to_pipeline()
        >>> [name for name, _ in pipeline.steps]
        ['scale', 'model']
        """
        from sklearn.pipeline import Pipeline

        return Pipeline([*steps_of(self.preparation), ("model", self.model)])

    @classmethod
    def from_pipeline(cls, pipeline: Any) -> Prepared:
        """A fitted scikit-learn pipeline of imputers, one-hot encoders and scalers before a model of mercer.

        Reports, exports and the command line then take it. Scores are the same to rounding. A word that an
        encoder did not see at its fit is refused, or becomes zeros with a warning that counts them, as its
        ``handle_unknown`` says.

        Parameters
        ----------
        pipeline : sklearn.pipeline.Pipeline
            Fitted. Columns that have no names are called x0, x1, …

        Returns
        -------
        prepared : Prepared

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import PCA, Prepared
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> X = np.random.default_rng(0).standard_normal((50, 2)) * [1.0, 100.0]
        >>> pipeline = make_pipeline(StandardScaler(), PCA(1)).fit(X)
        >>> np.allclose(Prepared.from_pipeline(pipeline).transform(X), pipeline.transform(X))
        True
        """
        return cls(*prepared_parts(pipeline))

    def _times(self, X: Any, time: Any) -> Any:
        """The times of raw rows, which a detector that does not look back has no use for."""
        static = getattr(self.model, "dynamics_", STATIC).static
        return time if static else times_of(X, time, gaps=True)

    def _chunk(self, X: Any) -> Chunk:
        """Raw rows as a reader would hand them over; words that become zeros are counted in a warning."""
        X, unseen = held(X), Unseen()
        words = [column for column, _ in self.preparation.categories]
        if frame_package(X) is None:
            chunk = Chunk(0, _array(X, self.preparation.numbers, words), {})
        else:
            chunk = frame_chunk(X, self.preparation.numbers, words, what="The data frame")
        unseen.add(chunk, self.preparation.lenient)
        for sentence, (column, n) in zip(unseen.sentences, unseen.counts.items(), strict=True):
            found = {"column": column, "rows": n, "of": len(chunk)}
            warn(sentence, ReadingWarning, code="unseen-words", numbers=found)
        return chunk

    def _asked(self, name: str) -> Any:
        """The method of the model, or an error that says what this model can."""
        method = getattr(self.model, name, None)
        if method is None:
            can = ", ".join(one for one in ASKED if hasattr(self.model, one))
            msg = f"A {type(self.model).__name__} has no `{name}`. It has {can}."
            raise InputError(msg)
        return method


def _array(X: Any, names: Sequence[str], words: list[str]) -> Array:
    if words:
        wanted = f"a data frame, since the columns {listed(words)} hold categories"
        refuse("X", X, wanted, "rows without names", "Pass a frame with the columns of the file.")
    X = admitted(X)
    refuse_text(X)
    warn_rounded(X)
    with in_our_name():
        kept = [np.float64, np.float32]
        rows = check_array(X, dtype=kept, ensure_all_finite="allow-nan", input_name="X")
    if rows.shape[1] != len(names):
        wanted = f"rows of the {len(names)} columns that the model was fitted on, {listed(names)}"
        refuse("X", rows.shape, wanted, f"{rows.shape[1]}")
    return np.asarray(rows)
