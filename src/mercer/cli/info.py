"""`mercer info`: a model file, or this machine, in a few lines; with --json, all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mercer import __version__
from mercer._core.errors import many
from mercer._core.memory import format_bytes
from mercer._core.wording import brief
from mercer.app.info import InfoRequest
from mercer.cli.ending import printable
from mercer.cli.verb import Call, verb

SHOWN = 12  # names of features

EXAMPLE = """
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label -o model.mercer
mercer info
mercer info model.mercer
"""


@verb(example=EXAMPLE)
@click.argument("model", required=False)
def info(call: Call, model: str | None) -> None:
    """Print what is in a model file, or what this machine has to compute with.

    A file is checked to its last byte first. Without one: threads, memory, compiled tiles, and the GPUs that
    --engine takes, or why there is none.
    """
    found = call.run(InfoRequest(model=model)).value
    if model is None:
        call.tell(found.facts, _worded(found.facts, found.devices))
    else:
        call.tell(found.facts, _model_text(found.facts["header"], Path(model)))


def _worded(machine: dict[str, Any], devices: tuple[str, ...]) -> str:
    isa, threads = machine["compiled_tiles"], many(machine["threads"], "thread")
    rows = [
        ("mercer", f"{__version__}, Python {machine['python']}"),
        ("processor", f"{threads}, {format_bytes(machine['free_bytes'])} free"),
        ("tiles", f"compiled, {isa}" if isa else f"NumPy's: {machine['no_compiled_tiles']}"),
    ]
    lines = [f"{title:<12}{text}" for title, text in rows]
    return "\n".join(map(printable, [*lines, *_block("devices", list(devices))]))


def _model_text(header: dict[str, Any], path: Path) -> str:
    data, about = _dict(header.get("data")), _dict(header.get("about"))
    rows = [
        ("file", f"{path}, {format_bytes(path.stat().st_size)}, format {header['format']}"),
        ("written by", f"mercer {header['mercer_version']}"),
        ("model", str(header["kind"])),
        ("kernel", brief(header["kernel"] or "-")),
        ("features", _names(header.get("features"))),
        ("trained on", _rows(data)),
        ("command", str(about.get("command") or "-")),
    ]
    lines = [f"{title:<12}{text}" for title, text in rows]
    lines += _block("retrained", about.get("retrained"))
    lines += _block("done first", about.get("notes")) + _block("warnings", about.get("warnings"))
    lines += _block("chosen", _dict(about.get("selection")).get("reasons"))
    lines += _evidence(_dict(header.get("evidence")), _dict(about.get("events")))
    back = _dict(header.get("config")).get("preimage")
    lines += [] if back is None else [f"{'pre-images':<12}{back}"]
    return "\n".join(map(printable, lines))  # a file may hold anything


def _block(title: str, texts: Any) -> list[str]:
    """Lines under one title, which stands before the first."""
    return [f"{'' if i else title:<12}{text}" for i, text in enumerate(_list(texts))]


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _names(names: Any) -> str:
    found = _list(names)
    if not found:
        return "without names"
    shown = ", ".join(map(str, found[:SHOWN]))
    return shown if len(found) <= SHOWN else f"{shown}, … ({len(found)} in all)"


def _rows(data: dict[str, Any]) -> str:
    if not data:
        return "-"
    # Not known of rows that were not kept.
    dtype = f" of {data['dtype']}" if data.get("dtype") else ""
    size = f"{data.get('n', '?')} rows x {data.get('d', '?')} columns{dtype}"
    digest = data.get("digest")
    return f"{size}, SHA-256 {digest[:16]}…" if isinstance(digest, str) else size


def _evidence(evidence: dict[str, Any], taught: dict[str, Any]) -> list[str]:
    """The lines that the fit printed, the limits of a detector, and the events that it knows."""
    lines = [f"{'limits':<12}{line}" for line in _list(evidence.get("limits"))]
    own, known = evidence.get("fingerprint"), _list(evidence.get("known_events"))
    if own is not None:
        same = f" (the same model, with {many(len(known), 'known event')})" if known else ""
        lines.append(f"{'fingerprint':<12}{own}{same}")
    lines += _block("lineage", evidence.get("lineage"))
    rows = {name: _rows(_dict(taught.get(str(name)))) for name in known}
    lines += _block("knows", [n if rows[n] == "-" else f"{n}: {rows[n]}" for n in known])
    return [*map(str, _list(evidence.get("summary"))), *lines]
