"""Does a graph agree with its model? Both compute the same rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer._core.errors import InputError, MercerError, kind_of, refuse
from mercer._core.public import public
from mercer._core.types import Array
from mercer.approximations.random_features import FourierSections
from mercer.data.frames import frame_package, frame_rows, held, need
from mercer.data.rows import row_slices
from mercer.data.sources import as_source, in_memory
from mercer.data.table import Table
from mercer.engine.pairwise import dense
from mercer.estimators.prepared import Prepared
from mercer.onnx.fitted import MOST_PHASE, Fitted, fitted
from mercer.onnx.graph import INPUT, LABEL, SCORES, STATISTICS
from mercer.views.fitted import each_row, unnamed

# How many times as far from the centre as the rows at hand: a wrong unit, a stuck sensor, a filler.
SPREADS = (1e3, 1e7, 1e20)
SIZES = (1e-10, 1e-30)  # of tiny rows, beside the rows at hand
ROWS = 20  # of each
# Rows where none are at hand; how far points are moved, in standard deviations of a column; and the
# share of the numbers that are left out, where the model fills them.
SAMPLE_ROWS, JITTER, MISSING = 500, 0.1, 0.05


def far_rows(x: Array, fitted: Fitted, asked: Callable[[Array], Array]) -> dict[float, Array]:
    """Rows spread out, and shrunk, by factor: those that the precision of x can hold, of rows without gaps.

    `asked` prepares rows for the model. Where no entry is negative, none becomes so. Random features of rows
    so far away that their phases have lost their digits are left out: there is nothing to agree on.
    """
    whole = x[np.all(np.isfinite(x), axis=1)]
    if len(whole) == 0:
        return {}
    some = whole[np.unique(np.linspace(0, len(whole) - 1, ROWS).astype(np.intp))].astype(np.float64)
    centre = np.zeros(some.shape[1]) if np.all(some >= 0) else np.median(some, axis=0)
    groups = {factor: centre + factor * (some - centre) for factor in SPREADS}
    groups |= {factor: factor * some for factor in SIZES}
    most = float(np.finfo(x.dtype).max)
    return {
        factor: rows.astype(x.dtype)
        for factor, rows in groups.items()
        if np.max(np.abs(rows)) < most and _has_phases(asked(rows), fitted)
    }


def _has_phases(rows: Array, fitted: Fitted) -> bool:
    sections: Any = fitted.projection.sections
    if not isinstance(sections, FourierSections):
        return True
    # Right to 1e-4 of a turn, as scores of float32 are.
    limit = min(MOST_PHASE, 1e-6 / float(np.finfo(np.float64).eps))
    return bool(np.max(np.abs((rows - sections.centre) @ sections.frequencies.T)) < limit)


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

    The difference of a score is measured against ``s_j = max(max_i |score_ij|, σ_j)``, the largest score of
    its component on these rows and its standard deviation in the fit: ``max_rel`` is ``max_ij |Δ_ij|/s_j``.
    That of T², Q and the index is measured row by row, against the larger of the value and its limit.

    ``excess`` is the largest difference over what it may be: the tolerance, or ten times what rounding leaves
    open in the model's own numbers.

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
        far = f"; also on {self.n_far} rows {self.reach}" if self.n_far else ""
        if self.n_far and self.n_unknown:
            far += f", {self.n_unknown} of which the graph answers with NaN"
        return (
            f"largest difference {self.max_rel:.1e} relative, {self.max_abs:.1e} absolute, on {self.n} rows"
            f"{labels} (tolerance {self.tolerance:.0e}){far}"
        )


class DisagreementError(MercerError):
    """The scores of a graph differ from those of its model by more than rounding; no file is written.

    Where it is in float32, export with ``dtype='float64'``; if it still differs, keep fewer components.
    """


def require_agreement(found: Agreement) -> None:
    """Raise when the difference is beyond the tolerance."""
    if not found.ok:
        msg = (
            f"The graph does not agree with the model: {found}. Nothing was written. Use dtype='float64' "
            "where that of the graph is float32; if it differs in float64, the model amplifies rounding "
            "beyond use: keep fewer components."
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
    rows : array-like of shape (n, d), a data frame or a file
        What goes into the graph: of a frame or a file, the columns of the model, words as columns of 0 and 1
        (`Prepared.coded_rows`). It is rounded to the precision of the graph first, so that both are asked
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
    session, source = _session(proto), fitted(model)
    (taken,), preparation = session.get_inputs(), source.preparation
    dtype = np.dtype(np.float64 if taken.type == "tensor(double)" else np.float32)
    x = _rounded(_coded(rows, source), dtype, taken.shape[1])
    tolerance = TOLERANCES[min(dtype.itemsize, source.dtype.itemsize)]

    def asked(rows: Array) -> Array:
        rows = rows.astype(np.float64)
        return rows if preparation is None else preparation.scaled(preparation.filled(rows))

    def compared(rows: Array, *, far: bool) -> Agreement:
        found, rows = _run(session, rows, source.projection.sections.width), asked(rows)
        k = found[SCORES].shape[1] if SCORES in found else None
        if k != (None if source.detector is not None else source.projection.n_components):
            what = f"{', '.join(found)} of another model than this {type(model).__name__}"
            msg = f"The graph gives {what}. Pass the model that it was made from."
            raise InputError(msg)
        if source.detector is not None:
            return _compared_statistics(source, found, rows, tolerance, far=far)
        with unnamed():  # rows without names are what a graph takes, too
            own = _scores_or_nan(source, rows) if far else source.model.transform(rows)
        own = np.asarray(own, dtype=np.float64)
        return _compared_scores(source, found[SCORES], rows, own, tolerance, far=far)

    groups = far_rows(x, source, asked)
    near = compared(x, far=False)
    parts = [compared(rows, far=True) for rows in groups.values()]
    return replace(
        near,
        excess=float(np.max([part.excess for part in (near, *parts)])),  # NaN stays
        n_labels=sum(part.n_labels for part in (near, *parts)),
        n_far=sum(map(len, groups.values())),
        n_unknown=sum(part.n_unknown for part in parts),
        reach=f"spread out and shrunk by {min(groups):.0e} to {max(groups):.0e}" if groups else "",
    )


def _coded(rows: Any, source: Fitted) -> Any:
    """The columns of a frame or a file that the graph takes; arrays are those already."""
    is_file = isinstance(rows, (str, os.PathLike, Table))
    rows = rows if is_file else held(rows)
    if not is_file and frame_package(rows) is None:
        return rows
    if source.preparation is not None:
        return Prepared(source.preparation, source.model).coded_rows(rows)
    if is_file:
        read = as_source(rows, columns=source.names)
        assert read is not None  # a path, or what `open_table` opened
        return in_memory(read)
    return frame_rows(rows, source.names, what="The data frame")[0]


def _rounded(rows: Any, dtype: np.dtype[Any], d: int) -> Array:
    """Rows as the graph takes them, checked."""
    try:
        given = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        refuse("rows", rows, f"{d} columns of numbers", f"{kind_of(rows)}: {error}")
    if given.ndim != 2 or len(given) == 0 or given.shape[1] != d:
        must_be = f"a 2-D array of at least one row and {d} columns"
        refuse("rows", rows, must_be, f"an array of shape {given.shape}")
    with np.errstate(over="ignore"):  # refused below, in words
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
    fitted: Fitted, found: Array, asked: Array, own: Array, tolerance: float, *, far: bool
) -> Agreement:
    """Compare scores: a graph may answer NaN to far rows, and must agree wherever it answers."""
    known = np.isfinite(found) if far else np.ones(found.shape, dtype=bool)
    # NaN where the graph has a number and the model has none: they do not agree.
    gap = np.where(known, np.abs(np.where(known, found, 0.0).astype(np.float64) - own), 0.0)
    scale = np.maximum(np.max(np.abs(own), axis=0, where=known, initial=0.0), fitted.spread)
    share = np.divide(gap, scale, out=gap.copy(), where=scale > 0)
    allowed = np.maximum(tolerance, AMPLIFIED * fitted.rounding)
    if far:
        allowed = allowed + _wobble(fitted, asked, own, scale)
    excess = float(np.max(np.where(np.isnan(share), np.inf, share / allowed)))
    worst, unknown = float(np.max(gap)), int(np.count_nonzero(~known.all(axis=1)))
    return Agreement(worst, float(np.max(share)), len(own), tolerance, excess, n_unknown=unknown)


def _scores_or_nan(fitted: Fitted, asked: Array) -> Array:
    """The model's scores, NaN for rows that its kernel refuses."""
    refused = np.full((1, fitted.projection.n_components), np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        return each_row(fitted.projection, asked, refused).astype(np.float64)


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


def _compared_statistics(
    source: Fitted, found: dict[str, Array], asked: Array, tolerance: float, *, far: bool
) -> Agreement:
    """A graph that can't tell says that a row is infinitely far out, which is an alarm as well."""
    sure = np.isfinite(found["index"]) if far else np.ones(len(asked), dtype=bool)
    unknown = int(np.count_nonzero(~sure))
    if unknown == len(asked):
        return Agreement(0.0, 0.0, len(asked), tolerance, 0.0, n_unknown=unknown)
    found, asked = {name: values[sure] for name, values in found.items()}, asked[sure]
    detector: Any = source.detector
    floors = {"T2": detector.limits_.t2, "Q": detector.limits_.q, "index": 1.0}
    with np.errstate(over="ignore", invalid="ignore"):
        table = detector.statistics(asked)
        own: dict[str, Array] = {name: np.asarray(table[name], np.float64) for name in STATISTICS}
        # What rounding explains: T² = Σ(s/σ)² moves by 2Σ|s/σ| times what the s/σ move by. An infinite T² may
        # stand beside an index that is a number, and ∞ · 0 is none.
        t2 = 2.0 * AMPLIFIED * np.sqrt(np.nan_to_num(own["T2"])) * np.linalg.norm(source.rounding)
        q = AMPLIFIED * detector._gauge.q_rounding(detector._rows(asked))
        index = np.maximum(t2 / detector.limits_.t2, q / detector.limits_.q)
        allowed = {"T2": t2, "Q": q, "index": index}
        gaps, shares, excesses = [], [], []
        for name, values in own.items():
            # What the coarser of both precisions can't hold is infinite in it.
            coarse = min(found[name].dtype, table[name].dtype, key=lambda kind: kind.itemsize)
            same = np.isinf(values.astype(coarse)) & np.isinf(found[name].astype(coarse))
            gap = np.where(same, 0.0, np.abs(found[name].astype(np.float64) - values))
            size = np.maximum(values, floors[name])
            gaps.append(gap)
            shares.append(gap / size)
            excesses.append(np.where(same, 0.0, gap / (tolerance * size + allowed[name])))
        # A row on the limit may fall on either side of it.
        slack = tolerance * -detector.offset_ + allowed["index"]
        clear = np.abs(own["index"] + detector.offset_) > slack
        n_labels = int(np.count_nonzero((found[LABEL] != detector.predict(asked)) & clear))
    worst, share, excess = (float(np.max(kind)) for kind in (gaps, shares, excesses))  # NaN stays
    return Agreement(worst, share, len(asked), tolerance, excess, n_labels, n_unknown=unknown)


# ── rows to try a graph on when none are at hand ─────────────────────────────
def sample_rows(model: Any, *, rng: np.random.Generator) -> Array:  # -> (n, d)
    """Rows as the graph of a model takes them.

    Points of the model and points moved a little. A model of explicit features has none: for PCA rows are
    drawn with its mean and its components, for others from a normal distribution about the centre that
    is known.
    """
    source = fitted(model)
    rows, detector, preparation = _prepared_rows(source, rng), source.detector, source.preparation
    if detector is not None:
        rows = rows * detector.spread_ + detector.center_
    if preparation is None:
        return rows
    rows = np.array(preparation.unscaled(rows), dtype=np.float64)
    if preparation.fills is not None:
        numbers = rows[:, : len(preparation.numbers)]  # they come first
        numbers[rng.random(numbers.shape) < MISSING] = np.nan
    return rows


def _prepared_rows(model: Fitted, rng: np.random.Generator) -> Array:
    sections, d = model.projection.sections, model.model.n_features_in_
    noise = rng.standard_normal((SAMPLE_ROWS, d))
    if model.points is not None:
        z = dense(model.some_points(SAMPLE_ROWS // 2)).astype(np.float64)
        again = z[np.arange(len(noise) - len(z)) % len(z)]
        moved = again + JITTER * z.std(axis=0) * noise[: len(again)]
        return np.concatenate([z, np.abs(moved) if np.all(z >= 0) else moved])  # counts stay counts
    if isinstance(sections, FourierSections):
        lengths = np.linalg.norm(sections.frequencies, axis=1)
        return sections.centre + noise / max(float(np.median(lengths)), 1e-300)
    if model.mean is not None and len(model.mean) == d:  # PCA
        scores = rng.standard_normal((SAMPLE_ROWS, len(model.spread))) * model.spread
        axes = model.projection.coef.astype(np.float64).T
        return model.mean + scores @ axes + JITTER * float(np.mean(model.spread)) * noise
    return noise
