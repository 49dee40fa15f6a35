"""Does the graph say what the model says? Both are asked about the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.errors import InputError, MercerError
from mercer.engine.frames import need
from mercer.engine.tiles import row_slices
from mercer.onnx.export import INPUT, LABEL, SCORES, STATISTICS, Source, unwrapped

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.onnx.fitted import Fitted

# What a difference may be, by the coarser of the two precisions that are compared: that of graph and model.
# float64: kernel values are right to 1e-9 (`mercer.engine.pairwise.ROUNDING`), and sums of them hardly less.
# float32: a fit promises scores to 1e-4 of their spread (`mercer.model.projection.SCORE_ROUNDING`).
TOLERANCES = {4: 1e-4, 8: 1e-9}
# Components of tiny variance amplify rounding, in the model as in the graph: so many times what float64
# leaves uncertain is not held against a graph.
AMPLIFIED = 10.0
# Room for a slice of rows: a graph holds a few (b, m) arrays at a time.
SLICE_BYTES = 2**26


@dataclass(frozen=True)
class Agreement:
    """How far a graph is from its model, on n rows.

    The difference of a score is measured against s_j = max(max_i |score_ij|, σ_j), the largest score of its
    component on these rows and its standard deviation in the fit: ``max_rel`` is max_ij |Δ_ij|/s_j. That of
    T², Q and the index is measured row by row, against the larger of the value and its limit.

    ``excess`` is the largest difference over what it may be: the tolerance, or, for a component whose scores
    float64 does not determine to that, ten times what it leaves uncertain.
    """

    max_abs: float
    max_rel: float
    n: int
    tolerance: float
    excess: float
    n_labels: int = 0  # rows that a detector judges otherwise

    @property
    def ok(self) -> bool:
        """Whether the difference is within the tolerance; no number at all is not."""
        return self.excess <= 1.0 and self.n_labels == 0

    def __str__(self) -> str:
        labels = f", {self.n_labels} labels differ" if self.n_labels else ""
        return (
            f"largest difference {self.max_rel:.1e} relative, {self.max_abs:.1e} absolute, on {self.n} rows"
            f"{labels} (tolerance {self.tolerance:.0e})"
        )


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
    x = np.asarray(rows, dtype=np.float64).astype(dtype)
    if x.ndim != 2 or len(x) == 0:
        msg = f"Rows were needed, a 2-D array with at least one, but an array of shape {x.shape} came."
        raise InputError(msg)
    inner, preparation = unwrapped(model)
    source = Source.of(inner)
    asked = x.astype(np.float64)
    if preparation is not None:
        asked = preparation.scaled(preparation.filled(asked))
    found = _run(session, x, source.fitted.projection.sections.width)
    tolerance = TOLERANCES[min(dtype.itemsize, source.fitted.dtype.itemsize)]
    if source.detector is not None:
        return _compared_statistics(source.detector, found, asked, tolerance)
    return _compared_scores(inner, source.fitted, found[SCORES], asked, tolerance)


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


def _compared_statistics(
    detector: Any, found: dict[str, Array], asked: Array, tolerance: float
) -> Agreement:
    table, limits = detector.statistics(asked), detector.limits_
    floors = {"T2": limits.t2, "Q": limits.q, "index": 1.0}
    largest, share = 0.0, 0.0
    for name in STATISTICS:
        own = np.asarray(table[name], dtype=np.float64)
        both_infinite = np.isinf(own) & np.isinf(found[name])
        gap = np.where(both_infinite, 0.0, np.abs(found[name].astype(np.float64) - own))
        largest = float(np.max([largest, np.max(gap)]))  # NaN stays
        share = float(np.max([share, np.max(gap / np.maximum(own, floors[name]))]))
    # A row on the limit may fall on either side of it.
    margin = np.abs(np.asarray(table["index"]) + detector.offset_) > tolerance * -detector.offset_
    differ = (found[LABEL] != detector.predict(asked)) & margin
    n_labels = int(np.count_nonzero(differ))
    return Agreement(largest, share, len(asked), tolerance, share / tolerance, n_labels)
