"""`mercer info`: what is in a model file, for people; with --json all of its header."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mercer._core.memory import format_bytes
from mercer.cli.frame import verb

if TYPE_CHECKING:
    from mercer.cli.frame import Talk

SHOWN = 12  # names of features

EXAMPLE = """
mercer demo --csv circles.csv
mercer fit circles.csv --id id --label label -o model.mercer
mercer info model.mercer
"""


@verb(example=EXAMPLE)
@click.argument("model")
def info(talk: Talk, model: str) -> None:
    """Print what is in a model file.

    The file is checked to its last byte first.
    """
    from mercer.io.model_file import read_header

    path = Path(model)
    header = read_header(path)
    talk.tell({"header": header, "bytes": path.stat().st_size}, _told(header, path))


def _told(header: dict[str, Any], path: Path) -> str:
    data, about = header.get("data") or {}, header.get("about") or {}
    rows = [
        ("file", f"{path}, {format_bytes(path.stat().st_size)}, format {header['format']}"),
        ("written by", f"mercer {header['mercer_version']}"),
        ("model", str(header["kind"])),
        ("kernel", str(header["kernel"] or "-")),
        ("features", _names(header.get("features"))),
        ("trained on", _rows(data)),
        ("command", str(about.get("command", "-")) if isinstance(about, dict) else "-"),
    ]
    lines = [f"{title:<12}{text}" for title, text in rows]
    notes = about.get("notes", []) if isinstance(about, dict) else []
    lines += [f"{'done first' if i == 0 else '':<12}{note}" for i, note in enumerate(notes)]
    return "\n".join([*lines, *_evidence(header.get("evidence"))])


def _names(names: Any) -> str:
    if not names:
        return "without names"
    shown = ", ".join(map(str, names[:SHOWN]))
    return shown if len(names) <= SHOWN else f"{shown}, … ({len(names)} in all)"


def _rows(data: dict[str, Any]) -> str:
    if not data:
        return "-"
    size = f"{data.get('n', '?')} rows x {data.get('d', '?')} columns of {data.get('dtype', '?')}"
    digest = data.get("sha256")
    return f"{size}, SHA-256 {digest[:16]}…" if isinstance(digest, str) else size


def _evidence(evidence: Any) -> list[str]:
    """The lines that the fit printed."""
    lines = evidence.get("lines", []) if isinstance(evidence, dict) else evidence or []
    return [str(line) for line in ([lines] if isinstance(lines, str) else lines)]
