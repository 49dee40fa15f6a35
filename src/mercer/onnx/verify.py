"""Does the graph say what the model says? Both are asked about the same rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError, MercerError
from mercer._core.public import public
from mercer.approximations.random_features import FourierSections
from mercer.data.frames import need
from mercer.data.rows import row_slices
from mercer.onnx.export import INPUT, LABEL, SCORES, STATISTICS, Source, unwrapped
from mercer.onnx.maps import MOST_PHASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercer._core.types import Array
    from mercer.onnx.fitted import Fitted


# How many times as far from the centre as the rows at hand: a wrong unit, a stuck sensor, a filler.
SPREADS = (1e3, 1e7, 1e20)
SIZES = (1e-10, 1e-30)  # of tiny rows, beside the rows at hand
ROWS = 20  # of each


@dataclass(frozen=True)
class FarRows:
    """Rows of one kind."""

    factor: float
    rows: Array


def far_rows(x: Array, fitted: Fitted, asked: Callable[[Array], Array]) -> list[FarRows]:
    """Rows spread out, and shrunk: those that the precision of x can hold, of rows without gaps.

    `asked` prepares rows for the model. Where no entry is negative, none becomes so. Random features of rows
    so far away that their phases have lost their digits are left out: there is nothing to agree on.
    """
    whole = x[np.all(np.isfinite(x), axis=1)]
    if len(whole) == 0:
        return []
    some = whole[np.unique(np.linspace(0, len(whole) - 1, ROWS).astype(np.intp))].astype(np.float64)
    centre = np.zeros(some.shape[1]) if np.all(some >= 0) else np.median(some, axis=0)
    groups = [FarRows(s, centre + s * (some - centre)) for s in SPREADS]
    groups += [FarRows(s, s * some) for s in SIZES]
    most = float(np.finfo(x.dtype).max)
    kept = [
        g for g in groups if np.max(np.abs(g.rows)) < most and _has_phases(asked(g.rows), fitted)
    ]
    return [FarRows(g.factor, g.rows.astype(x.dtype)) for g in kept]


def _has_phases(rows: Array, fitted: Fitted) -> bool:
    sections: Any = fitted.projection.sections
    if not isinstance(sections, FourierSections):
        return True
    # Right to 1e-4 of a turn, as scores of float32 are.
    limit = min(MOST_PHASE, 1e-6 / float(np.finfo(np.float64).eps))
    return bool(np.max(np.abs((rows - sections.centre) @ sections.frequencies.T)) < limit)


def reach(groups: list[FarRows]) -> str:
    """What was looked at, in words."""
    factors = [group.factor for group in groups]
    return f"spread out and shrunk by {min(factors):.0e} to {max(factors):.0e}" if factors else ""


# What a difference may be, by the coarser of the two precisions that are compared: that of graph and model.
# float64: kernel values are right to 1e-9 (`mercer.engine.pairwise.ROUNDING`), and sums of them hardly less.
# float32: a fit promises scores to 1e-4 of their spread (`mercer.model.projection.SCORE_ROUNDING`).
TOLERANCES = {4: 1e-4, 8: 1e-9}
# Components of tiny variance amplify rounding, in the model as in the graph: so many times what the model's
# own scores are uncertain by is not held against a graph.
AMPLIFIED = 10.0
# Room for a slice of rows: a graph holds a few (b, m) arrays at a time.
SLICE_BYTES = 2**26


@dataclass(frozen=True)
class Agreement:
    """How far a graph is from its model, on n rows.

    The difference of a score is measured against s_j = max(max_i |score_ij|, σ_j), the largest score of its
    component on these rows and its standard deviation in the fit: ``max_rel`` is max_ij |Δ_ij|/s_j. That of
    T², Q and the index is measured row by row, against the larger of the value and its limit.

    ``excess`` is the largest difference over what it may be: the tolerance, or, where the model's own numbers
    are not certain to that, ten times what rounding leaves open in them.

    Beside the rows that were given, a few of them are looked at spread out by 10³, 10⁷ and 10²⁰, and shrunk
    by 10⁻¹⁰ and 10⁻³⁰, as far as the precision of the graph reaches. There the graph agrees or, where a
    kernel value is out of range, answers NaN: ``excess`` covers them, ``max_abs`` and ``max_rel`` do not.
    """

    max_abs: float
    max_rel: float
    n: int
    tolerance: float
    excess: float
    n_labels: int = 0  # rows that a detector judges otherwise
    n_far: int = 0  # rows beside them that are far away, or tiny
    n_unknown: int = 0  # of those, rows to which the graph answers NaN
    reach: str = ""  # how far away, in words

    @property
    def ok(self) -> bool:
        """Whether the difference is within the tolerance; no number at all is not."""
        return self.excess <= 1.0 and self.n_labels == 0

    def __str__(self) -> str:
        labels = f", {self.n_labels} labels differ" if self.n_labels else ""
        return (
            f"largest difference {self.max_rel:.1e} relative, {self.max_abs:.1e} absolute, on {self.n} rows"
            f"{labels} (tolerance {self.tolerance:.0e}){self._far}"
        )

    @property
    def _far(self) -> str:
        if self.n_far == 0:
            return ""
        unknown = (
            f", {self.n_unknown} of which the graph answers with NaN" if self.n_unknown else ""
        )
        return f"; also on {self.n_far} rows {self.reach}{unknown}"


class DisagreementError(MercerError):
    """A graph does not say what its model says."""


def require_agreement(found: Agreement) -> None:
    """Raise when the difference is beyond the tolerance."""
    if not found.ok:
        msg = (
            f"The graph does not say what the model says: {found}. Nothing was written. Use "
            "dtype='float64'; if it still differs, the model amplifies rounding beyond use: keep fewer "
            "components."
        )
        raise DisagreementError(msg)


@public
def verify(proto: Any, model: Any, rows: Any) -> Agreement:
    """Run the graph with onnxruntime on the CPU, and compare with the model.

    Parameters
    ----------
    proto : onnx.ModelProto
        From `to_onnx`.
    model : the model it was made from
    rows : array-like of shape (n, d)
        What goes into the graph. It is rounded to the precision of the graph first, so that both are asked
        about the same rows.

    Returns
    -------
    Agreement

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import PCA
    >>> from mercer.onnx import to_onnx, verify
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> model = PCA(2).fit(X)
    >>> verify(to_onnx(model), model, X).max_rel < 1e-14
    True
    """
    session = _session(proto)
    dtype = np.dtype(np.float64 if session.get_inputs()[0].type == "tensor(double)" else np.float32)
    x = _rounded(rows, dtype, session.get_inputs()[0].shape[1])
    inner, preparation = unwrapped(model)
    source = Source.of(inner)
    tolerance = TOLERANCES[min(dtype.itemsize, source.fitted.dtype.itemsize)]

    def asked(rows: Array) -> Array:
        rows = rows.astype(np.float64)
        return rows if preparation is None else preparation.scaled(preparation.filled(rows))

    def found(rows: Array) -> dict[str, Array]:
        return _run(session, rows, source.fitted.projection.sections.width)

    groups = far_rows(x, source.fitted, asked)
    if source.detector is not None:
        near = _compared_statistics(source.detector, source.fitted, found(x), asked(x), tolerance)
        parts = [_far_statistics(source, found(g.rows), asked(g.rows), tolerance) for g in groups]
    else:
        near = _compared_scores(inner, source.fitted, found(x)[SCORES], asked(x), tolerance)
        parts = [
            _far_scores(source.fitted, found(g.rows)[SCORES], asked(g.rows), tolerance)
            for g in groups
        ]
    return replace(
        near,
        excess=max([near.excess, *(part.excess for part in parts)]),  # a NaN that is first stays
        n_labels=near.n_labels + sum(part.n_labels for part in parts),
        n_far=sum(len(g.rows) for g in groups),
        n_unknown=sum(part.n_unknown for part in parts),
        reach=reach(groups),
    )


def _rounded(rows: Any, dtype: np.dtype[Any], d: int) -> Array:
    """Rows as the graph takes them, checked."""
    given = np.asarray(rows, dtype=np.float64)
    if given.ndim != 2 or len(given) == 0 or given.shape[1] != d:
        msg = (
            f"Rows of {d} numbers were needed, a 2-D array with at least one, but an array of shape "
            f"{given.shape} came."
        )
        raise InputError(msg)
    with np.errstate(over="ignore"):  # told below, in words
        x: Array = given.astype(dtype)
    if np.any(np.isinf(x) & np.isfinite(given)):
        largest = float(np.max(np.abs(given[np.isfinite(given)])))
        msg = f"The rows hold {largest:.3g}, which float32 can't. Use dtype='float64'."
        raise InputError(msg)
    return x


def _session(proto: Any) -> Any:
    runtime = need("onnxruntime", extra="onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    return runtime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _run(session: Any, x: Array, width: int) -> dict[str, Array]:
    names = [output.name for output in session.get_outputs()]
    height = max(1, SLICE_BYTES // (8 * max(width, x.shape[1])))
    parts = [session.run(names, {INPUT: x[i]}) for i in row_slices(len(x), height)]
    return {name: np.concatenate([part[j] for part in parts]) for j, name in enumerate(names)}


def _compared_scores(
    model: Any, fitted: Fitted, found: Array, asked: Array, tolerance: float
) -> Agreement:
    own = np.asarray(model.transform(asked), dtype=np.float64)
    gap = np.abs(found.astype(np.float64) - own)
    scale = np.maximum(np.max(np.abs(own), axis=0), fitted.spread)
    share = np.divide(gap, scale, out=gap.copy(), where=scale > 0)
    allowed = np.maximum(tolerance, AMPLIFIED * fitted.rounding)
    excess = float(np.max(share / allowed))
    return Agreement(float(np.max(gap)), float(np.max(share)), len(own), tolerance, excess)


def _far_scores(fitted: Fitted, found: Array, asked: Array, tolerance: float) -> Agreement:
    """Where the graph answers, it says what the model says; it may answer NaN."""
    own = _scores_or_nan(fitted, asked)
    known = np.isfinite(found)
    # NaN where the graph has a number and the model has none: that is no agreement.
    gap = np.where(known, np.abs(np.where(known, found, 0.0).astype(np.float64) - own), 0.0)
    scale = np.maximum(np.max(np.abs(own), axis=0, where=known, initial=0.0), fitted.spread)
    share = np.divide(gap, scale, out=gap.copy(), where=scale > 0)
    allowed = np.maximum(tolerance, AMPLIFIED * fitted.rounding) + _wobble(
        fitted, asked, own, scale
    )
    excess = float(np.max(np.where(np.isnan(share), np.inf, share / allowed)))
    unknown = int(np.count_nonzero(~known.all(axis=1)))
    return Agreement(np.nan, np.nan, len(asked), tolerance, excess, n_unknown=unknown)


def _wobble(fitted: Fitted, asked: Array, own: Array, scale: Array) -> Array:  # (b, k)
    """How far scores move, in their units, with the last digits of the rows.

    A sum over d columns is right to (d + 1)ε of its terms. Phases of random features far out are such sums,
    thousands of turns long, and no graph can know them better.
    """
    room = (asked.shape[1] + 1) * float(np.finfo(np.float64).eps)
    signs = np.random.default_rng(0).choice([-room, room], size=asked.shape)
    with np.errstate(invalid="ignore"):  # of scores that are infinite both times
        gap = np.nan_to_num(np.abs(_scores_or_nan(fitted, asked * (1.0 + signs)) - own))
    return np.divide(gap, scale, out=np.zeros_like(gap), where=scale > 0)


def _scores_or_nan(fitted: Fitted, asked: Array) -> Array:
    """The model's scores, NaN for rows that its kernel refuses."""
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            return fitted.projection(asked).astype(np.float64)
        except MercerError:
            if len(asked) == 1:
                return np.full((1, fitted.projection.n_components), np.nan)
            return np.concatenate([_scores_or_nan(fitted, row[None]) for row in asked])


def _far_statistics(
    source: Source, found: dict[str, Array], asked: Array, tolerance: float
) -> Agreement:
    """A graph that can't tell says that a row is infinitely far out, which is an alarm as well."""
    with np.errstate(over="ignore", invalid="ignore"):
        sure = np.isfinite(found["index"])
        if not np.any(sure):
            return Agreement(0.0, 0.0, len(asked), tolerance, 0.0, n_unknown=len(asked))
        known = {name: values[sure] for name, values in found.items()}
        part = _compared_statistics(source.detector, source.fitted, known, asked[sure], tolerance)
    return replace(part, n_unknown=int(np.count_nonzero(~sure)))


def _compared_statistics(
    detector: Any, fitted: Fitted, found: dict[str, Array], asked: Array, tolerance: float
) -> Agreement:
    own: dict[str, Array] = {
        name: np.asarray(c, dtype=np.float64) for name, c in _statistics(detector, asked)
    }
    floors = {"T2": detector.limits_.t2, "Q": detector.limits_.q, "index": 1.0}
    allowed = _allowed(detector, fitted, own, asked)
    largest, share, excess = [0.0], [0.0], [0.0]
    for name in STATISTICS:
        same = np.isinf(own[name]) & (own[name] == found[name])
        gap = np.where(same, 0.0, np.abs(found[name].astype(np.float64) - own[name]))
        size = np.maximum(own[name], floors[name])
        largest.append(np.max(gap))
        share.append(np.max(gap / size))
        excess.append(np.max(gap / (tolerance * size + allowed[name])))
    # A row on the limit may fall on either side of it.
    slack = tolerance * -detector.offset_ + allowed["index"]
    differ = (found[LABEL] != detector.predict(asked)) & (
        np.abs(own["index"] + detector.offset_) > slack
    )
    worst = (float(np.max(values)) for values in (largest, share, excess))  # NaN stays
    most_abs, most_rel, most_excess = worst
    n_labels = int(np.count_nonzero(differ))
    return Agreement(most_abs, most_rel, len(asked), tolerance, most_excess, n_labels)


def _statistics(detector: Any, asked: Array) -> list[tuple[str, Array]]:
    table = detector.statistics(asked)
    return [(name, table[name]) for name in STATISTICS]


def _allowed(
    detector: Any, fitted: Fitted, own: dict[str, Array], asked: Array
) -> dict[str, Array]:  # (b,) each
    """What rounding explains of a difference: T² = Σ(s/σ)² moves by 2Σ|s/σ| times that of the s/σ."""
    rows = detector._rows(asked)
    t2 = 2.0 * AMPLIFIED * np.sqrt(own["T2"]) * np.linalg.norm(fitted.rounding)
    q = AMPLIFIED * detector._gauge.q_rounding(rows)
    return {
        "T2": t2,
        "Q": q,
        "index": np.maximum(t2 / detector.limits_.t2, q / detector.limits_.q),
    }
