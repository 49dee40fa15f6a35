"""What a view asks of a fitted model, and of the preparation of its rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._core.errors import InputError
from mercer._core.types import Array, Flags, Indices, Rows
from mercer.data.frames import held
from mercer.data.rows import row_blocks
from mercer.engine.moments import Scale
from mercer.engine.pairwise import dense
from mercer.estimators import KernelPCADetector
from mercer.estimators.anatomy import Anatomy, is_fitted, is_model, is_pipeline
from mercer.estimators.base import Saving
from mercer.estimators.detector_lags import times_of
from mercer.estimators.detector_rows import spread_out
from mercer.estimators.drop_in import Evidence
from mercer.estimators.pipelines import flat_steps, names_after, steps_and_model
from mercer.estimators.prepared import Prepared
from mercer.kernels.rows import as_rows, refuse_twins
from mercer.monitoring.alarms import Gaps
from mercer.monitoring.lags import STATIC, Dynamics
from mercer.monitoring.report import Monitoring
from mercer.operators.sections import KernelSections
from mercer.preprocessing.preparation import Preparation

BLOCK_ENTRIES = 2**21  # numbers in a block of rows
BLOCK_ROWS = 2**14


@contextmanager
def unnamed() -> Iterator[None]:
    """Without scikit-learn's word on rows that have no names: `rows` has compared those of the columns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield


@dataclass(frozen=True, eq=False)
class Fitted(Anatomy):
    """A fitted model of any kind, and the preparation of its rows where it has one.

    Rows are as the model takes them; `raw` brings them back to the units of the file. The steps of a
    pipeline that are no preparation make the rows of the model by their own `transform`, and there is no
    way back: pictures are of the columns that they make.
    """

    preparation: Preparation | None = None
    # What takes rows as a file has them, where one was given.
    prepared_model: Prepared | None = None
    steps: Any = None  # a pipeline of all steps before the model

    @classmethod
    def of(cls, model: Any, preparation: Any = None) -> Fitted:
        """Any model; what is not fitted is refused."""
        whole, steps = None, None
        if is_pipeline(model) and is_fitted(flat_steps(model)[-1]):
            try:
                model = Prepared.from_pipeline(model)
            except InputError:  # of other steps, or with a step behind the model: as it is
                if not any(isinstance(step, Saving) for step in flat_steps(model)[:-1]):
                    steps, model = steps_and_model(model)
        if isinstance(model, Prepared):
            whole, preparation, model = model, model.preparation, model.model
        if not is_model(model) or not is_fitted(model):
            got = "None" if model is None else f"a {type(model).__name__} that is not fitted"
            msg = f"A fitted model is needed; got {got}. Call `fit` first."
            raise InputError(msg)
        return cls(model, preparation, whole, steps)

    # ── what it is ──────────────────────────────────────────────────────────
    @property
    def d(self) -> int:
        """The number of columns."""
        return int(self.model.n_features_in_)

    @property
    def k(self) -> int:
        """The number of components."""
        return len(self.eigenvalues)

    @property
    def limits(self) -> str:
        """Where alarms of a detector begin, in words."""
        return str(self.judge._rule.joint(self.judge.limits_))

    @property
    def judge(self) -> KernelPCADetector:
        """The detector; a model that is none is refused."""
        if self.detector is None:
            msg = f"Monitoring needs a detector; got a {type(self.model).__name__}. Fit a "
            msg += "`KernelPCADetector` to rows of normal operation."
            raise InputError(msg)
        return self.detector

    @property
    def chose_kernel(self) -> bool:
        """Whether a detector chose its kernel by itself."""
        detector = self.detector
        if detector is None or detector.model is not None:
            return False
        return isinstance(detector.kernel, str) and detector.kernel == "auto"

    @property
    def given_kernel(self) -> Any:
        """The kernel as it was asked for; scikit-learn's name for one has its gamma beside it."""
        if isinstance(self.projector, Evidence) and self.kernel is not None:
            return self.kernel
        return self.projector.get_params(deep=False).get("kernel")

    @property
    def seed(self) -> Any:
        """The seed that was given; None where there was none."""
        return self.model.get_params(deep=False).get("random_state")

    @property
    def image_shape(self) -> tuple[int, int] | None:
        """Height and width, where a row is a picture."""
        shape = None if self.preparation is None else self.preparation.image_shape
        height, width = (0, 0) if shape is None else map(int, shape)
        return (height, width) if height * width == self.d else None

    @property
    def training_rows(self) -> Array | None:  # (n, d)
        """The rows of the fit in the units of the file, where the model keeps all of them."""
        fit = self.fit
        sections = None if fit is None or fit.is_low_rank else fit.projection.sections
        if not isinstance(sections, KernelSections) or self.is_precomputed:
            return None
        points = sections.points
        if points.shape[1] != self.d:  # rows with those before them beside them
            return None
        return self.raw(points if self._scale is None else self._scale.back(dense(points)))

    def names(self, given: Any = None, X: Any = None) -> tuple[str, ...]:
        """Names of the d columns: those given, of the preparation, of the fit, of a data frame, or x0, …"""
        prepared = None if self.preparation is None else self.preparation.features
        of_rows = getattr(X, "columns", None) if self.steps is None else names_after(self.steps)
        for known in (given, prepared, self.feature_names, of_rows):
            if known is not None and len(known) == self.d:
                return tuple(map(str, known))
        if given is not None:
            msg = f"`names` has {len(given)} entries, but there are {self.d} columns. Give one for each."
            raise InputError(msg)
        return tuple(f"x{j}" for j in range(self.d))

    # ── rows in, numbers out ────────────────────────────────────────────────
    def rows(self, X: Any) -> Any:
        """Rows as the model takes them; missing cells stay for a detector, which marks their rows."""
        whole = self.prepared_model
        if whole is not None:
            return whole.rows(X) if self.detector is None else whole.gappy_rows(X)
        if self.steps is not None:
            return as_rows(self.steps.transform(X))
        X = held(X)
        if getattr(X, "columns", None) is None or not hasattr(X, "to_numpy"):
            return X
        columns, own = tuple(map(str, X.columns)), self.feature_names
        if own is not None and columns != own:
            msg = f"The columns of `X` must be those of the fit, in their order: {', '.join(own)}; got "
            msg += f"{', '.join(columns)}."
            raise InputError(msg)
        refuse_twins(X)
        return as_rows(X)

    def blocks(self, rows: Rows) -> Iterator[tuple[slice, Rows]]:
        """All rows, some at a time; at once for a detector that judges rows by those before them."""
        if self.looks_back:
            return iter([(slice(0, int(rows.shape[0])), rows[:])])
        return row_blocks(rows, min(BLOCK_ROWS, max(1, BLOCK_ENTRIES // self.d)))

    @property
    def looks_back(self) -> bool:
        """Whether a row is judged by those before it, so that rows can't be taken one by one."""
        return not self._past.static

    def inner_at(self, rows: Rows, places: Indices | None) -> Any:  # (n, d) -> (m, d)
        """Rows at some positions, or all of them, as the projector takes them."""
        if not self.looks_back and places is not None:
            return self.inner(rows[places])
        found, whole = self._inner_of(rows[:])
        if whole is None or places is None:
            return found
        return found[np.isin(np.flatnonzero(whole), places)]

    def inner_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the columns that the projector takes; those of earlier rows are marked."""
        return tuple(self._past.names(names, self.d) or names)

    @property
    def _past(self) -> Dynamics:
        return STATIC if self.detector is None else self.detector._past

    @property
    def _scale(self) -> Scale | None:
        detector = self.detector
        return None if detector is None else Scale(detector.center_, detector.spread_)

    def _with_past(self, block: Any, time: Any = None) -> tuple[Array, Flags]:
        """Rows with those before them, (m, d(l + 1)), and which they end with, (b,); refused without any."""
        every = dense(block)
        found, whole = self.judge._with_past(every, time)
        Gaps.of(every).require_some(self.names())
        return found, whole

    def _inner_of(self, block: Any, time: Any = None) -> tuple[Any, Flags | None]:
        """Rows as the projector takes them, and which of those given they end with; None for all."""
        whole = None
        if self.looks_back:
            block, whole = self._with_past(block, time)
        return block if self._scale is None else self._scale(block), whole

    def inner(self, block: Any, time: Any = None) -> Any:
        """Rows as the projector takes them: a detector scales its own, with their past where it has one."""
        return self._inner_of(block, time)[0]

    def times(self, X: Any, time: Any = None) -> Any:  # (b,)
        """When rows were taken, as given or as they bring it; None where rows are judged one by one."""
        return times_of(X, time) if self.looks_back else None

    def placed(self, block: Any, time: Any = None) -> Indices | None:
        """Positions of the rows that have scores: not of those with too few before them. None: all have."""
        return np.flatnonzero(self._with_past(block, time)[1]) if self.looks_back else None

    def each(self, ask: Callable[[Any], Any], block: Any, time: Any = None) -> Array:  # (b, …)
        """What `ask` says of rows as the projector takes them; NaN where a row has too few before it.

        Times show where there is a gap, after which a detector that looks back begins anew.
        """
        rows, whole = self._inner_of(block, time)
        with unnamed():
            found = np.asarray(ask(rows))
        return found if whole is None else spread_out(found, whole, np.nan)

    def scores(self, block: Any, time: Any = None) -> Array:  # (b, d) -> (b, k)
        """Scores of some rows; times as in `each`."""
        return self.each(self.projector.transform, block, time)

    def raw(self, block: Rows) -> Array:  # (b, d) -> (b, d)
        """Rows in the units of the file."""
        rows = dense(block)
        return rows if self.preparation is None else np.asarray(self.preparation.unscaled(rows))

    def raw_scores(self, raw: Array) -> Array:  # (b, d) -> (b, k)
        """Scores of rows in the units of the file."""
        rows = raw if self.preparation is None else np.asarray(self.preparation.scaled(raw))
        return self.scores(rows)

    def back(self, scores: Array) -> Array:  # (b, k) -> (b, d)
        """The pre-images of scores, in the units of the file."""
        found = np.asarray(self.projector.inverse_transform(scores))
        return self.raw(found if self._scale is None else self._scale.back(found))

    def monitor(self, rows: Any, **knobs: Any) -> Monitoring:
        """What a detector sees in rows."""
        with unnamed():
            return self.judge.monitor(rows, **knobs)

    def contributions(self, rows: Any) -> Array:  # (b, d) -> (b, d)
        """What each variable adds to the statistic of a detector."""
        with unnamed():
            return np.asarray(self.judge.contributions(rows))

    def contributions_at(self, rows: Rows, place: int) -> Array:  # (n, d) -> (d,)
        """Those of one row, judged with the rows before it; NaN where they are too few or have gaps."""
        if place < self._past.lags:
            return np.full(self.d, np.nan)
        first = 0 if self._past.smoothing is not None else place - self._past.lags
        return np.asarray(self.contributions(rows[first : place + 1])[-1])

    def alarm(self, rows: Any, time: Any = None) -> Any:  # (b, d) -> (b,)
        """Which rows are alarms; times as in `each`."""
        if self.looks_back and time is not None:
            return self.monitor(rows, time=time, top=0).table["alarm"]
        with unnamed():
            return np.asarray(self.judge.predict(rows)) == -1


def each_row(ask: Callable[[Rows], Array], rows: Rows, refused: Array) -> Array:  # (b, …)
    """The answer of a model for each of some rows, `refused` in place of it where the model refuses one."""
    try:
        return np.asarray(ask(rows))
    except InputError:
        if rows.shape[0] == 1:
            return refused
    halves = rows[: rows.shape[0] // 2], rows[rows.shape[0] // 2 :]
    return np.concatenate([each_row(ask, part, refused) for part in halves])
