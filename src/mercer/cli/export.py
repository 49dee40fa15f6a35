"""`mercer export`: a model as an ONNX file, written only when onnxruntime says what the model says."""

from __future__ import annotations

import sys
from typing import Any

import click

from mercer._core.wording import brief
from mercer.app.export import ExportRequest
from mercer.cli.ending import refuse
from mercer.cli.options import option
from mercer.cli.verb import Call, verb

EXAMPLE = """
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label --kernel "rbf(gamma=10)" -o circles.mercer
mercer export circles.mercer circles.onnx --data circles.csv
"""


@verb("reading", "seed", "memory", example=EXAMPLE)
@click.argument("model")
@click.argument("output", metavar="OUT")
@option(
    "--data",
    "Rows to verify the graph on; points of the model, and rows near them, otherwise.",
    "FILE",
)
@option("--opset", "Version of ONNX's operators to state; 13 otherwise.", click.IntRange(min=13))
def export(call: Call, *, output: str, data: str | None, **options: Any) -> None:
    """Write a model as ONNX, and verify it.

    The graph takes rows in the units of the file that MODEL was fitted to and gives scores; that of a
    detector gives T2, Q, index and label. --dtype is the precision of what goes in and comes out: that
    of the model otherwise. OUT is written when onnxruntime agrees with the model on all rows tried, and
    not before; - is stdout.
    """
    if output == "-" and call.as_json:
        refuse("OUT - and --json both write to stdout. Name a file for the graph.")
    target = None if output == "-" else output
    request = call.request(ExportRequest, output=target, data=data or "", **options)
    exported = call.run(request).value
    text = _in_words(exported.facts, whose=data or "points of the model, and rows near them")
    if output == "-":
        _print(exported.content)
    call.say(text)
    if output != "-":
        call.tell({"out": output, **exported.facts})


def _print(content: bytes) -> None:
    if sys.stdout is None:  # started without one
        msg = "The standard output is closed, and the model can't be written to it. Name a file."
        raise OSError(msg)
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _in_words(results: dict[str, Any], *, whose: str) -> str:
    found, facts = results["agreement"], results["metadata"]
    lines = [
        f"{brief(facts['mercer.kernel'])}, {facts['mercer.route']}",
        f"opset {results['opset']}, IR version {results['ir_version']}; X gives "
        f"{', '.join(results['outputs'])}; computed in {facts['mercer.precision']}",
        f"verified with onnxruntime on {found['n']} rows ({whose}): largest difference "
        f"{found['max_rel']:.1e}, relative (tolerance {found['tolerance']:.0e})",
    ]
    if found["n_far"]:
        unknown = f", to {found['n_unknown']} of which it answers NaN" if found["n_unknown"] else ""
        lines.append(f"it agrees on {found['n_far']} rows {found['reach']}, too{unknown}")
    return "\n".join(lines)
