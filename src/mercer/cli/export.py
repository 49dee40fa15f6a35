"""`mercer export`: a model as an ONNX file, written only when onnxruntime says what the model says."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mercer.cli.data import Opened, open_model, read_sheet
from mercer.cli.output import check_output_or_stdout, replacing, told_file
from mercer.cli.verb import Call, verb

if TYPE_CHECKING:
    from pathlib import Path

    from mercer.onnx import Agreement

EXAMPLE = """
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label --kernel "rbf(gamma=10)" -o circles.mercer
mercer export circles.mercer circles.onnx --data circles.csv
"""


AGREEMENT = ("max_abs", "max_rel", "n", "tolerance", "n_far", "n_unknown", "reach")


@verb("reading", "seed", "memory", example=EXAMPLE)
@click.argument("model")
@click.argument("out")
@click.option(
    "--data",
    metavar="FILE",
    help="Rows to verify the graph on; points of the model, and rows near them, otherwise.",
)
@click.option(
    "--opset",
    type=click.IntRange(min=13),
    help="Version of ONNX's operators to state; 13 otherwise.",
)
def export(call: Call, *, model: str, out: str, data: str | None, opset: int | None) -> None:
    """Write a model as ONNX, and verify it.

    The graph takes rows in the units of the file that MODEL was fitted to and gives scores; that of a
    detector gives T2, Q, index and label. --dtype is the precision of what goes in and comes out: that
    of the model otherwise. OUT is written when onnxruntime agrees with the model on all rows tried, and
    not before; - is stdout.
    """
    clash = "OUT is -, so stdout has the graph, and --json has no place. Name a file."
    path = check_output_or_stdout(call, out, [model, data or "-"], clash=clash, option="OUT")
    proto, agreement = _verified(call, open_model(model), data, opset)
    replaced = path is not None and path.exists()
    content: bytes = proto.SerializeToString()
    _write(content, path)
    results = _results(proto, content, agreement, data)
    text = _in_words(results, whose=data or "points of the model, and rows near them")
    if path is None:  # stdout has the graph
        call.say(text)
    else:
        call.say(f"{told_file(path, replaced=replaced)}: {text}")
        call.tell({"out": out, **results})


def _verified(
    call: Call, opened: Opened, data: str | None, opset: int | None
) -> tuple[Any, Agreement]:
    """The graph, and how well it agrees."""
    import numpy as np

    from mercer.estimators.prepared import Prepared
    from mercer.onnx import to_onnx, verify
    from mercer.onnx.verify import require_agreement, sample_rows

    known = opened.preparation
    whole = opened.model if known is None else Prepared(known, opened.model)
    with call.timed("graph"):
        proto = to_onnx(whole, dtype=call.reading.dtype, opset=opset)
    if data is None:
        rows = sample_rows(whole, rng=np.random.default_rng(call.params["seed"]))
    else:
        call.reading = replace(call.reading, dtype=None)  # rows as precise as they are
        rows = read_sheet(call, data, opened).raw()
    with call.timed("verification"):
        found = verify(proto, whole, rows)
    require_agreement(found)
    if found.max_rel > found.tolerance:
        call.warn(
            f"Some components vary so little that rounding shows in their scores: model and graph differ by "
            f"up to {found.max_rel:.1e} of them. Keep fewer components, or fit in float64 if it was float32."
        )
    return proto, found


def _write(content: bytes, path: Path | None) -> None:
    if path is None:
        if sys.stdout is None:  # started without one
            msg = "The model was to go to the standard output, but it is closed. Name a file."
            raise OSError(msg)
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    with replacing(path) as file:
        file.write(content)


def _results(proto: Any, content: bytes, found: Agreement, data: str | None) -> dict[str, Any]:
    facts = {entry.key: entry.value for entry in proto.metadata_props}
    return {
        "bytes": len(content),
        "opset": proto.opset_import[0].version,
        "ir_version": proto.ir_version,
        "inputs": [value.name for value in proto.graph.input],
        "outputs": [value.name for value in proto.graph.output],
        "metadata": facts,
        "verified_on": "data" if data else "points of the model",
        "agreement": {name: getattr(found, name) for name in AGREEMENT},
    }


def _in_words(results: dict[str, Any], *, whose: str) -> str:
    found, facts = results["agreement"], results["metadata"]
    lines = [
        f"{facts['mercer.kernel']}, {facts['mercer.route']}",
        f"opset {results['opset']}, IR version {results['ir_version']}; X gives "
        f"{', '.join(results['outputs'])}; computed in {facts['mercer.precision']}",
        f"verified with onnxruntime on {found['n']} rows ({whose}): largest difference "
        f"{found['max_rel']:.1e}, relative (tolerance {found['tolerance']:.0e})",
    ]
    if found["n_far"]:
        unknown = f", to {found['n_unknown']} of which it answers NaN" if found["n_unknown"] else ""
        lines.append(f"it agrees on {found['n_far']} rows {found['reach']}, too{unknown}")
    return "\n".join(lines)
