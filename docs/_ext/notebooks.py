"""The chapters of the course as Jupyter notebooks, made from their Markdown so that nothing is kept twice.

    python docs/_ext/notebooks.py --out notebooks

As a Sphinx extension (``extensions = ["notebooks"]``) it writes them beside the chapters of the built site,
and each chapter ends with a link to its own.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

COURSE = Path(__file__).parents[1] / "course"
# A block of Python, with the output that follows it where there is one.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
# In a notebook a picture appears where it is made, and what is folded can't hold a cell.
PICTURE = re.compile(r"^!\[.*?\]\(images/.*?\)\n", re.MULTILINE)
FOLDED = re.compile(r"<details><summary>(.*?)</summary>|</details>")


def chapters() -> list[Path]:
    """The Markdown files of the course, in order."""
    return sorted(COURSE.glob("[0-9]*.md"))


def notebook(page: Path) -> dict[str, Any]:
    """A chapter as the JSON of a notebook: text and code in turn, with the output that the page shows."""
    text, cells, end = page.read_text(encoding="utf-8"), [], 0
    for block in BLOCK.finditer(text):
        cells += _words(text[end : block.start()])
        cells.append(_code(block[1], block[2]))
        end = block.end()
    cells += _words(text[end:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _words(text: str) -> list[dict[str, Any]]:
    """The Markdown between two blocks as a cell; none where nothing is left of it."""
    text = FOLDED.sub(lambda found: f"**{found[1]}**" if found[1] else "", PICTURE.sub("", text))
    return (
        [{"cell_type": "markdown", "metadata": {}, "source": text.strip()}] if text.strip() else []
    )


def _code(source: str, printed: str | None) -> dict[str, Any]:
    shown = [{"name": "stdout", "output_type": "stream", "text": printed}] if printed else []
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}}
    return cell | {"outputs": shown, "source": source.rstrip("\n")}


def write(folder: Path) -> list[Path]:
    """Write every chapter as a notebook to a folder; the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{page.stem}.ipynb" for page in chapters()]
    for page, file in zip(chapters(), files, strict=True):
        file.write_text(json.dumps(notebook(page), ensure_ascii=False, indent=1), encoding="utf-8")
    return files


# ── in Sphinx ───────────────────────────────────────────────────────────────
def setup(app: Any) -> dict[str, bool]:
    """Write notebooks when the site is built, and link each chapter to its own."""
    app.connect("source-read", _linked)
    app.connect("build-finished", _written)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _linked(_app: Any, name: str, source: list[str]) -> None:
    if name in {f"course/{page.stem}" for page in chapters()}:
        file = f"{name.rpartition('/')[2]}.ipynb"
        source[0] += f'\n\n<p><a href="{file}" download>This chapter as a notebook</a></p>\n'


def _written(app: Any, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        write(Path(app.outdir) / "course")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--out", type=Path, default=Path("notebooks"), help="folder for the notebooks"
    )
    for written in write(parser.parse_args().out):
        print(written)  # noqa: T201  # a script
