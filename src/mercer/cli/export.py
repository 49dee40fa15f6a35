"""`mercer export`: a model as an ONNX file, written only when onnxruntime says what the model says."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mercer.cli.data import open_model, read_sheet, reading_options
from mercer.cli.frame import verb

if TYPE_CHECKING:
    from mercer._core.types import Array
    from mercer.cli.data import Opened
    from mercer.cli.frame import Talk
    from mercer.io.table import Reading

EXAMPLE = """
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label --kernel "rbf(gamma=10)" -o circles.mercer
mercer export circles.mercer circles.onnx --data circles.csv
"""


@verb(example=EXAMPLE, seed=True, memory=True)
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--data",
    metavar="FILE",
    help="Rows to verify the graph on; points of the model, and points near them, otherwise.",
)
@click.option("--opset", type=click.IntRange(min=13), help="Version of ONNX's operators; 13.")
@reading_options
def export(
    talk: Talk,
    *,
    model: Path,
    out: Path,
    data: str | None,
    opset: int | None,
    reading: Reading,
    seed: int,
    memory: str,
) -> None:
    """Write a model as ONNX, and verify it.

    The graph takes rows in the units of the file that the model was fitted to and gives scores; that of a
    detector gives T2, Q, index and label. --dtype is the precision of both; that of the model otherwise.
    OUT is written when onnxruntime agrees with the model on all rows tried, and not before.
    """
    import numpy as np

    from mercer.onnx import to_onnx
    from mercer.onnx.sample import sample_rows

    opened = open_model(model)
    whole = _whole(opened)
    with talk.timed("graph"):
        proto = to_onnx(whole, dtype=reading.dtype, opset=opset)
    with talk.timed("rows"):
        if data is None:
            rows = sample_rows(whole, rng=np.random.default_rng(seed))
        else:
            sheet = read_sheet(talk, data, replace(reading, dtype=None), opened, memory)
            rows = _as_in_the_file(sheet.rows, opened)
    with talk.timed("verification"):
        agreement = _verified(talk, proto, whole, rows)
    size = _written(proto, out)
    facts = {entry.key: entry.value for entry in proto.metadata_props}
    results = {
        "out": str(out),
        "bytes": size,
        "opset": proto.opset_import[0].version,
        "ir_version": proto.ir_version,
        "precision": facts["mercer.precision"],
        "metadata": facts,
        "rows": "file" if data else "sampled",
        "agreement": agreement,
    }
    text = _in_words(results, whose=data or "points of the model, moved a little")
    if str(out) == "-":  # stdout has the graph
        talk.say(text)
    else:
        talk.tell(results, text)


def _whole(opened: Opened) -> Any:
    from mercer.estimators.prepared import Prepared

    if opened.preparation is None:
        return opened.model
    return Prepared(opened.preparation, opened.model)


def _as_in_the_file(rows: Array, opened: Opened) -> Array:
    """Prepared rows in the units that the graph takes."""
    preparation = opened.preparation
    return rows if preparation is None else preparation.unscaled(rows)


def _verified(talk: Talk, proto: Any, whole: Any, rows: Array) -> dict[str, Any]:
    from mercer.onnx.verify import require_agreement, verify

    found = verify(proto, whole, rows)
    require_agreement(found)
    if found.max_rel > found.tolerance:
        talk.warn(
            f"Some components vary so little that rounding shows in their scores: model and graph differ by "
            f"up to {found.max_rel:.1e} of them. Keep fewer components."
        )
    return {
        "max_abs": found.max_abs,
        "max_rel": found.max_rel,
        "n": found.n,
        "tolerance": found.tolerance,
    }


def _written(proto: Any, out: Path) -> int:
    from mercer._core.atomic import written_whole

    content: bytes = proto.SerializeToString()
    if str(out) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return len(content)
    with written_whole(out) as file:
        file.write(content)
    return len(content)


def _in_words(results: dict[str, Any], *, whose: str) -> str:
    found, facts = results["agreement"], results["metadata"]
    return "\n".join(
        [
            f"wrote {results['out']}, {results['bytes']:,} bytes: {facts['mercer.kernel']}, "
            f"{facts['mercer.route']}",
            f"opset {results['opset']}, IR version {results['ir_version']}, computed in "
            f"{results['precision']}",
            f"verified with onnxruntime on {found['n']} rows ({whose}): largest difference "
            f"{found['max_rel']:.1e} of the size of the scores (tolerance {found['tolerance']:.0e})",
        ]
    )
