"""`mercer export`: a model as an ONNX file, written only when onnxruntime says what the model says."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from mercer.cli.data import open_model, read_sheet, reading_options
from mercer.cli.frame import verb
from mercer.cli.output import check_output, replacing, told_file

if TYPE_CHECKING:
    from pathlib import Path

    from mercer.cli.data import Opened
    from mercer.cli.frame import Talk
    from mercer.data.table import Reading
    from mercer.onnx import Agreement

EXAMPLE = """
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label --kernel "rbf(gamma=10)" -o circles.mercer
mercer export circles.mercer circles.onnx --data circles.csv
"""


@dataclass(frozen=True)
class Asked:
    """What to export as, and what to try it on."""

    data: str | None
    opset: int | None
    reading: Reading
    seed: int
    memory: str


@verb(example=EXAMPLE, seed=True, memory=True)
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
@reading_options
def export(
    talk: Talk,
    *,
    model: str,
    out: str,
    data: str | None,
    opset: int | None,
    reading: Reading,
    seed: int,
    memory: str,
) -> None:
    """Write a model as ONNX, and verify it.

    The graph takes rows in the units of the file that MODEL was fitted to and gives scores; that of a
    detector gives T2, Q, index and label. --dtype is the precision of what goes in and comes out: that
    of the model otherwise. OUT is written when onnxruntime agrees with the model on all rows tried, and
    not before; - is stdout.
    """
    path = _checked(out, [model, data or "-"], as_json=talk.as_json)
    opened = open_model(model)
    whole = _whole(opened)
    asked = Asked(data, opset, reading, seed, memory)
    proto, agreement = _verified(talk, opened, whole, asked)
    replaced = path is not None and path.exists()
    content: bytes = proto.SerializeToString()
    _write(content, path)
    results = _results(proto, content, agreement, data)
    text = _in_words(results, whose=data or "points of the model, and rows near them")
    if path is None:  # stdout has the graph
        talk.say(text)
    else:
        talk.say(f"{told_file(path, replaced=replaced)}: {text}")
        talk.tell({"out": out, **results})


def _whole(opened: Opened) -> Any:
    from mercer.estimators.prepared import Prepared

    if opened.preparation is None:
        return opened.model
    return Prepared(opened.preparation, opened.model)


def _checked(out: str, inputs: list[str], *, as_json: bool) -> Path | None:
    """Where to write; None is stdout."""
    if out != "-":
        return check_output(out, inputs, option="OUT")
    if as_json:
        msg = "OUT is -, so stdout has the graph, and --json has no place. Name a file."
        raise click.UsageError(msg)
    return None


def _verified(talk: Talk, opened: Opened, whole: Any, asked: Asked) -> tuple[Any, Agreement]:
    """The graph, and how well it agrees."""
    import numpy as np

    from mercer.onnx import to_onnx, verify
    from mercer.onnx.verify import require_agreement, sample_rows

    with talk.timed("graph"):
        proto = to_onnx(whole, dtype=asked.reading.dtype, opset=asked.opset)
    if asked.data is None:
        rows = sample_rows(whole, rng=np.random.default_rng(asked.seed))
    else:
        reading = replace(asked.reading, dtype=None)  # rows as precise as they are
        rows = read_sheet(talk, asked.data, reading, opened, asked.memory).raw()
    with talk.timed("verification"):
        found = verify(proto, whole, rows)
    require_agreement(found)
    if found.max_rel > found.tolerance:
        talk.warn(
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
        "agreement": {
            "max_abs": found.max_abs,
            "max_rel": found.max_rel,
            "n": found.n,
            "tolerance": found.tolerance,
            "n_far": found.n_far,
            "n_unknown": found.n_unknown,
            "reach": found.reach,
        },
    }


def _in_words(results: dict[str, Any], *, whose: str) -> str:
    found, facts = results["agreement"], results["metadata"]
    return "\n".join(
        [
            f"{facts['mercer.kernel']}, {facts['mercer.route']}",
            f"opset {results['opset']}, IR version {results['ir_version']}; X gives "
            f"{', '.join(results['outputs'])}; computed in {facts['mercer.precision']}",
            f"verified with onnxruntime on {found['n']} rows ({whose}): largest difference "
            f"{found['max_rel']:.1e}, relative (tolerance {found['tolerance']:.0e})",
            *_far_in_words(found),
        ]
    )


def _far_in_words(found: dict[str, Any]) -> list[str]:
    if found["n_far"] == 0:
        return []
    unknown = f", to {found['n_unknown']} of which it answers NaN" if found["n_unknown"] else ""
    return [f"it agrees on {found['n_far']} rows {found['reach']}, too{unknown}"]
