"""Which detector: kernel, components and past, by what they do for the detection of small deviations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer._core.errors import ParameterError, SelectionWarning, many
from mercer._core.findings import silenced, warn
from mercer._core.params import Number, Whole, require
from mercer._core.public import public
from mercer._core.table import Printed, Table
from mercer._core.types import Flags, Indices
from mercer._core.wording import brief
from mercer.data.dask import refuse_dask
from mercer.diagnostics.detection_trial import Stage, Trial, tried
from mercer.diagnostics.symptoms import median_gamma, require_rows
from mercer.engine.moments import Scale
from mercer.estimators import KernelPCADetector
from mercer.estimators.detector_lags import Remembered, check_past, times_of
from mercer.estimators.detector_rows import learnt_rows
from mercer.estimators.input import as_generator
from mercer.kernels import RBF, Kernel, Linear, as_kernel
from mercer.monitoring.deviations import FAR, deviations, excursions
from mercer.monitoring.set_aside import without_wild
from mercer.monitoring.slowness import TOLERATED
from mercer.monitoring.statistics import Statistic

# σ in median distances. At sixteen, the default of a detector, a Gaussian is as good as linear.
WIDTHS = (8.0, 4.0, 2.0, 1.0)
DEFAULT_SHARE = 0.99  # of a detector
SHARES = (0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999)
EACH = 40  # deviations of each kind
PIECES = 10  # of many rows so many pieces are looked at, from all times
# A difference counts when it is so many of its standard errors over the deviations, paired.
SURE = 2.0
# Nothing is given up for less than this share of rows.
LEAST = 0.005
# Nor for an excursion that is missed in more than this share of the rows that the default detects. Shares are
# of some 125 rows, the same for both: of two detectors as good as each other that disagree on one row in ten,
# the difference is beyond this in one comparison of two thousand.
MISSED = 0.1
SHARE = Number(0, 1, ends="(]")


@dataclass(frozen=True, eq=False, repr=False)
class DetectorSelection(Printed):
    """The detector that was chosen, what every candidate saw, and the reasons. Prints itself.

    Attributes
    ----------
    best_ : KernelPCADetector
        Fitted to X, unless ``refit=False``.
    table_ : Table
        A row for each candidate, best first: kernel, lags, smoothing, components, statistic; ``seen``, the
        share of rows with a small deviation that are alarms; ``missed``, the largest share of the rows of an
        excursion that are alarms of the default and not its own; ``strayed``, the share of normal rows that
        are alarms in a run that strays as far as one in twenty; and whether the last two are tolerated.
    reasons_ : list of str
        What was chosen, what linear PCA would have given, and on what it was tried.
    gain_ : float
        What the chosen kernel sees more than the best linear detector; 0 where that is chosen.
    """

    best_: KernelPCADetector
    table_: Table
    reasons_: list[str]
    gain_: float

    def __str__(self) -> str:
        lines = (f"  - {reason}" for reason in self.reasons_)
        return "\n".join([f"best  {self.best_!r}", *lines, "", str(self.table_)])

    def __repr__(self) -> str:
        return f"DetectorSelection({self.best_!r}, of {len(self.table_)} candidates)"


@public
def select_detector(
    X: Any,
    kernels: Sequence[Any] | None = None,
    *,
    n_components: Sequence[float] = SHARES,
    lags: Sequence[Any] = (0, "auto"),
    smoothing: Sequence[float | None] = (None, 0.3),
    false_alarm: float | None = None,
    confidence: float | None = 0.9,
    statistic: Statistic = "combined",
    folds: int = 5,
    time: Any = None,
    max_rows: int = 1000,
    refit: bool = True,
    random_state: Any = None,
) -> DetectorSelection:
    """Choose a detector by the small deviations that it sees at a held rate of false alarms.

    Only normal rows are needed. Stretches of them are held out; each candidate, fitted to the others, gets
    the limits that hold for them, and then judges them with deviations put in: a sensor that is off, drifts,
    loses its relation to the others or gets noisier, and several that move together, from a third of a spread
    to three. Excursions of 3 to 100 spreads are tried as well, along principal axes and across them: what the
    default `KernelPCADetector` detects of any of these, the choice detects too. Candidates that don't are
    passed over, and those whose limits would not hold in a run that strays a little.

    Of those that are left the one that sees most of the small deviations wins, and the simplest of those that
    see as much within two standard errors. A kernel that bends is used where it sees clearly more than the
    best linear detector.

    Parameters
    ----------
    X : array-like of shape (n, d), or a source of rows, which is read into memory
        Rows of normal operation in the order of time.
    kernels : sequence of kernels, optional
        Linear, and Gaussians of eight, four, two and one median distance otherwise.
    n_components : sequence of float
        Shares of the variance that components keep.
    lags : sequence of int or "auto"
        As in `KernelPCADetector`.
    smoothing : sequence of float or None
        As in `KernelPCADetector`.
    false_alarm : float, optional
        The rate that limits hold; 0.01 otherwise.
    confidence : float or None, default=0.9
        As in `KernelPCADetector`, of the one that is chosen: of many, one with limits that are low by
        chance sees most.
    statistic : "combined", "T2" or "Q", default="combined"
        As in `KernelPCADetector`, for all candidates and the default that they are compared with. T² alone is
        blind to broken relations, Q alone to a process that goes too far in a way that it knows.
    folds : int, default=5
        Stretches that are held out in turn.
    time : array-like of shape (n,), optional
        As in `KernelPCADetector.fit`.
    max_rows : int, default=1000
        Of more rows so many are tried on, in ten pieces over all of them. The winner is fitted to all.
    refit : bool, default=True
    random_state : int, Generator, RandomState or None, default=None

    Returns
    -------
    selection : DetectorSelection

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import select_detector
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 2 * np.pi, 400)
    >>> ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.05 * rng.standard_normal((400, 2))
    >>> found = select_detector(ring, lags=[0], smoothing=[None])
    >>> type(found.best_.kernel).__name__, found.gain_ > 0.1
    ('RBF', True)
    """
    require("folds", folds, Whole(2))
    require("max_rows", max_rows, Whole(50))
    _require_lists(kernels=kernels, n_components=n_components, lags=lags, smoothing=smoothing)
    for share in n_components:
        require("n_components", share, SHARE)
    require_rows(X, 2, "at least 2 rows, of which stretches are held out")
    refuse_dask(X, "select_detector(X.compute())")
    default = KernelPCADetector(
        DEFAULT_SHARE,
        statistic=statistic,
        false_alarm=false_alarm,
        folds=folds,
        random_state=random_state,
    )
    plain = clone(default).set_params(n_components=max(n_components))
    (without_past, *stages), notes = _stages(
        plain, X, time, list(product(lags, smoothing)), max_rows
    )
    (reference,) = tried(without_past, default, [DEFAULT_SHARE])
    trials = [
        trial
        for stage in stages
        for kernel in _kernels(kernels, stage, random_state)
        for trial in tried(stage, clone(plain).set_params(kernel=kernel), n_components)
    ]
    if kernels is None and without_past in stages:
        trials.append(reference)
    rate = 0.01 if false_alarm is None else float(false_alarm)
    best, linear, reasons = _verdict(trials, reference, rate)
    detector = plain.set_params(
        n_components=best.components,
        kernel=best.kernel,
        statistic=best.statistic,
        lags=best.how.lags,
        smoothing=best.how.smoothing,
        confidence=confidence,
    )
    if refit:
        detector.fit(X, time=time)
    gain = 0.0 if linear is None or best is linear else best.power - linear.power
    return DetectorSelection(detector, _table(trials, reference, rate), [*reasons, *notes], gain)


def _require_lists(**lists: Any) -> None:
    """Raise where what is to be tried is not a list, or an empty one; kernels may be None."""
    for name, tried_values in lists.items():
        if name == "kernels" and tried_values is None:
            continue
        is_list = isinstance(tried_values, Collection) and not isinstance(tried_values, str)
        if not is_list or not len(tried_values):
            wanted = "a list of kernels, or None" if name == "kernels" else "a list of what to try"
            raise ParameterError.about(name, tried_values, must_be=wanted)


# ── candidates ──────────────────────────────────────────────────────────────
def _stages(
    plain: KernelPCADetector, X: Any, time: Any, past: list[tuple[Any, Any]], most: int
) -> tuple[list[Stage], list[str]]:
    """Rows as they are, which the default takes, and with each past that is to be tried; notes on them."""
    time = times_of(X, time)
    _, read, _ = learnt_rows(plain, X, None)
    with silenced():  # the fit to all rows will tell
        rows, _, aside, _ = without_wild(read, None, keep=False)
    rng, stages, wanted = as_generator(plain.random_state), {}, {}
    rows = Scale.of(rows)(rows)  # nothing here depends on units, and squares of any could overflow
    some, begins = _spread_over(len(rows), most)
    small, far = deviations(rows[some], EACH, rng), excursions(rows[some], rng)
    for lags, weight in [(0, None), *past]:
        asked = clone(plain).set_params(lags=lags, smoothing=weight)
        check_past(asked)
        found = Remembered.of(asked, read, rows, aside=aside, names=None, time=time)
        how = found.how.lags, weight  # "auto" may be 0
        if how not in stages:
            linked = found.linked[some] & ~begins
            stages[how] = Stage.of(
                rows[some], linked, found.how, found.overlap, small=small, far=far
            )
        if (lags, weight) in past:
            wanted[how] = stages[how]
    notes = [
        f"{len(small)} deviations of 0.3 to 3 spreads and {len(far)} excursions of {FAR[0]:g} to "
        f"{FAR[-1]:g}, made up, in {plain.folds} held-out stretches of {len(some)}"
        f"{f' of {len(rows)}' * (len(some) < len(rows))} normal rows; no fault was seen."
    ]
    notes += [f"Lags: {s.how.note}." for s in wanted.values() if s.how.note][:1]
    return [stages[0, None], *wanted.values()], notes


def _spread_over(n: int, most: int) -> tuple[Indices, Flags]:
    """Positions of at most so many of n rows, in pieces over all of them, and where a piece begins."""
    if n <= most:
        return np.arange(n), np.arange(n) == 0
    length = most // PIECES
    starts = np.linspace(0, n - length, PIECES).round().astype(np.intp)
    return (starts[:, None] + np.arange(length)).ravel(), np.arange(PIECES * length) % length == 0


def _kernels(given: Sequence[Any] | None, stage: Stage, seed: Any) -> list[Kernel]:
    if given is not None:
        return [as_kernel(kernel) for kernel in given]
    median = median_gamma(stage.normal.scaled, rng=as_generator(seed))
    return [Linear(), *(RBF(median / width**2) for width in WIDTHS)]


# ── the verdict ─────────────────────────────────────────────────────────────
def _effort(trial: Trial) -> tuple[Any, ...]:
    """Simpler things come first: straight, without memory, with few components."""
    how = trial.how
    return not trial.is_linear, how.smoothing is not None, how.lags, trial.components


def _clearly(more: Trial, less: Trial) -> bool:
    """Whether one sees more than the other, beyond what the draw of deviations explains."""
    gap = more.seen - less.seen
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    return bool(gap.mean() > max(SURE * error, LEAST))


def _simplest(found: Sequence[Trial]) -> Trial:
    """The simplest of those that see as much as the one that sees most."""
    top = max(found, key=lambda trial: trial.power)
    return min((t for t in found if not _clearly(top, t)), key=lambda t: (_effort(t), -t.power))


def _missed(trial: Trial, reference: Trial) -> float:
    """The largest share of the rows of an excursion that only the default detects."""
    return float(np.max(reference.caught - trial.caught, initial=0.0))


def _sighted(found: Sequence[Trial], reference: Trial) -> list[Trial]:
    """The candidates that detect what the default does; where there is none, those that miss least."""
    missed = [_missed(trial, reference) for trial in found]
    least = min(missed)
    if least > MISSED:
        msg = (
            f"Every candidate misses an excursion that the default detector detects, at best in {least:.0%} "
            "of its rows. The choice is among those that miss least; give more candidates, or use "
            "KernelPCADetector()."
        )
        warn(msg, SelectionWarning, "blind-detector", {"share": least})
    return [t for t, share in zip(found, missed, strict=True) if share <= max(least, MISSED)]


def _verdict(
    found: Sequence[Trial], reference: Trial, rate: float
) -> tuple[Trial, Trial | None, list[str]]:
    """The winner, the best linear candidate, and why."""
    sighted = _sighted(found, reference)
    steady = [t for t in sighted if t.strayed <= TOLERATED * rate]
    if not steady:
        least = min(t.strayed for t in sighted)
        msg = (
            f"No candidate would hold its limits in a run that strays: the steadiest makes {least:.1%} false "
            f"alarms there, not {rate:.2%}. The choice is among the steadiest; give rows from a longer time."
        )
        warn(msg, SelectionWarning, "no-steady-detector", {"share": least, "rate": rate})
        steady = [t for t in sighted if t.strayed <= 1.5 * least]
    straight = [t for t in steady if t.is_linear]
    linear = _simplest(straight) if straight else None
    bent = [t for t in steady if not t.is_linear]
    best = linear or _simplest(bent)
    if linear is not None and bent:
        rival = max(bent, key=lambda t: t.power)
        if _clearly(rival, linear):
            best = _simplest([t for t in bent if not _clearly(rival, t)])
    reasons = [f"It sees {best.power:.1%} of rows with a small deviation: {_words(best)}."]
    if best is reference:
        reasons.append("It is the default detector.")
    if linear is None:
        reasons.append("No linear detector was among the candidates that were not passed over.")
    elif not bent:
        reasons.append("No kernel that bends was among the candidates that were not passed over.")
    elif best is linear:
        reasons.append(
            f"A kernel that bends does not pay: the best sees {rival.power:.1%} ({_words(rival)}), linear "
            f"PCA {linear.power:.1%}."
        )
    else:
        reasons.append(f"The best linear detector would see {linear.power:.1%}: {_words(linear)}.")
    blind, unsteady = len(found) - len(sighted), len(sighted) - len(steady)
    if blind:
        reasons.append(
            f"{blind} of {len(found)} candidates were passed over: they miss an excursion that the default "
            f"detects, in more than {max(MISSED, _missed(best, reference)):.0%} of its rows."
        )
    if unsteady:
        reasons.append(
            f"{unsteady} of {len(found)} candidates were passed over: in a run that strays as far as one in "
            f"twenty does, more than {TOLERATED * rate:.0%} of normal rows would be alarms."
        )
    return best, linear, reasons


def _words(trial: Trial) -> str:
    past = replace(trial.how, note="").in_words()
    words = brief(trial.kernel), many(trial.components, "component"), past, trial.statistic
    return ", ".join(filter(None, words))


def _table(found: Sequence[Trial], reference: Trial, rate: float) -> Table:
    order = sorted(found, key=lambda t: -t.power)
    return Table(
        {
            "kernel": [repr(t.kernel) for t in order],
            "lags": [t.how.lags for t in order],
            "smoothing": [np.nan if t.how.smoothing is None else t.how.smoothing for t in order],
            "components": [t.components for t in order],
            "statistic": [t.statistic for t in order],
            "seen": [t.power for t in order],
            "missed": [_missed(t, reference) for t in order],
            "strayed": [t.strayed for t in order],
            "tolerated": [
                t.strayed <= TOLERATED * rate and _missed(t, reference) <= MISSED for t in order
            ],
        }
    )
