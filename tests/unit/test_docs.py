"""What the documents show runs as it is pasted."""

import re
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("Agg")
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda p: p.name
)
@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
def test_blocks_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for number, block in enumerate(BLOCK.findall(page.read_text()), start=1):
        code = compile(block, f"{page.name}, block {number}", "exec")
        exec(code, namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_quick_start_prints_what_it_says(capsys):
    readme = (ROOT / "README.md").read_text()
    exec(BLOCK.findall(readme)[0], {})
    said = re.search(r"^```text\n(.*?)^```", readme, flags=re.MULTILINE | re.DOTALL).group(1)
    digits = re.compile(r"\d\.\de-\d+")  # rounding differs from machine to machine
    assert digits.sub("…", capsys.readouterr().out.strip()) == digits.sub("…", said.strip())
