"""What the documents show runs as it is pasted, and prints what they say it prints."""

import re
import shlex
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from markets.commands import run

mpl.use("Agg")
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = {"_build", "gallery", "changes"}  # what the build writes, and fragments of the changelog
PAGES = [
    ROOT / "README.md",
    *(p for p in sorted(DOCS.rglob("*.md")) if p.relative_to(DOCS).parts[0] not in MADE),
]
BLOCK = re.compile(
    r"^```(python|sh)\n(.*?)^```(?:[^`]*?^```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL
)
ENDS = re.compile(r"\s+# exit code (\d+)$")
# Rounding errors, and what is printed of them, differ from machine to machine.
ROUNDING = re.compile(r"\d(?:\.\d+)?e-\d+")
# So do the bytes of a plan, with cores and engine; and where no compiler was, it says so.
PLANNED = re.compile(r"(?<=at most )[\d.]+ [kMG]B|\n  - tiles are NumPy's: .*")


def readable(text):
    return " ".join(ROUNDING.sub("~", PLANNED.sub("", text)).split())


@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if BLOCK.search(p.read_text())],
    ids=lambda p: str(p.relative_to(ROOT)),
)
@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
def test_blocks_run_in_order_and_print_what_they_say(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for number, (language, code, said) in enumerate(BLOCK.findall(page.read_text()), start=1):
        if language == "sh":
            printed = "".join(pasted(line) for line in code.splitlines() if line.strip())
        else:
            exec(compile(code, f"{page.name}, block {number}", "exec"), namespace)
            printed = capsys.readouterr().out
        if said:
            assert readable(printed) == readable(said), f"block {number}"


def pasted(line):
    """A line of the shell that calls mercer, and what it prints on stdout."""
    ends = ENDS.search(line)
    name, *args = shlex.split(line, comments=True)
    assert name == "mercer", line
    result = run(*args)
    assert result.exit_code == int(ends[1] if ends else 0), f"{line}\n{result.output}"
    return result.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.fixture(autouse=True)
def figures_are_closed():
    """Matplotlib warns when more than twenty are open, whichever page opened them."""
    yield
    plt.close("all")
