"""A model as an ONNX graph, handed over only when onnxruntime agrees with the model."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._core.atomic import replacing
from mercer._core.errors import Remedy
from mercer._core.findings import silenced
from mercer.app.outcome import Request, Run
from mercer.app.rows import OfModel, check_output, open_model, read_sheet, write_note
from mercer.estimators.prepared import Prepared

if TYPE_CHECKING:
    from mercer.onnx import Agreement

AGREEMENT = ("max_abs", "max_rel", "n", "tolerance", "n_far", "n_unknown", "reach")

# What writes and tries a graph changes the filters of warnings, which are those of the process.
ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Exported:
    """The graph as bytes, and the facts of it."""

    content: bytes
    facts: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ExportRequest(OfModel, Request[Exported]):
    """Write a model as ONNX, and verify it.

    Parameters
    ----------
    data : str
        Rows to verify the graph on; empty: points of the model, and rows near them.
    output : str, optional
        The ONNX file; without one the outcome holds its bytes.
    opset : int, optional
        The version of ONNX's operators to state.
    """

    data: str = ""
    output: str | None = None
    opset: int | None = None
    seed: int = 0

    def fulfil(self, run: Run) -> Exported:
        """The file is written when onnxruntime agrees on all rows tried, and not before."""
        inputs = [self.model, self.data or "-"]
        path = None if self.output is None else check_output(self.output, inputs)
        proto, agreement = self._verified(run)
        content: bytes = proto.SerializeToString()
        if path is not None:
            replaced = path.exists()
            with replacing(path) as file:
                file.write(content)
            run.say(write_note(path, replaced=replaced), "wrote", path=str(path))
        facts = {
            "bytes": len(content),
            "opset": proto.opset_import[0].version,
            "ir_version": proto.ir_version,
            "inputs": [value.name for value in proto.graph.input],
            "outputs": [value.name for value in proto.graph.output],
            "metadata": {entry.key: entry.value for entry in proto.metadata_props},
            "verified_on": "data" if self.data else "points of the model",
            "agreement": {name: getattr(agreement, name) for name in AGREEMENT},
        }
        return Exported(content, facts)

    def _verified(self, run: Run) -> tuple[Any, Agreement]:
        """The graph, and how well it agrees."""
        from mercer.onnx import to_onnx, verify
        from mercer.onnx.verify import require_agreement, sample_rows

        opened = open_model(self.model)
        known = opened.preparation
        whole = opened.model if known is None else Prepared(known, opened.model)
        with run.timed("graph"), ONE_AT_A_TIME, silenced():  # it is verified below, on more rows
            proto = to_onnx(whole, dtype=run.reading.dtype, opset=self.opset)
        if not self.data:
            with ONE_AT_A_TIME:
                rows = sample_rows(whole, rng=np.random.default_rng(self.seed))
        else:
            run.reading = replace(run.reading, dtype=None)  # rows as precise as they are
            rows = read_sheet(run, self.data, opened).raw()
        with run.timed("verification"), ONE_AT_A_TIME:
            found = verify(proto, whole, rows)
        require_agreement(found)
        if found.max_rel > found.tolerance:
            run.warn(
                "Some components vary so little that rounding shows in their scores: model and graph differ "
                f"by up to {found.max_rel:.1e} of them. Keep fewer components, or fit in float64 if it was "
                "float32.",
                "rounding",
                remedy=Remedy("dtype", "float64"),
                max_rel=found.max_rel,
            )
        return proto, found
