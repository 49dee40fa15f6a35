"""The course: pages agree with their pictures, notebooks with the pages. `test_docs.py` runs the pages."""

import contextlib
import importlib
import importlib.util
import io
import json
import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import nbformat
import pytest

mpl.use("Agg")
ROOT = Path(__file__).parents[2]
COURSE = ROOT / "docs" / "course"
CHAPTERS = sorted(COURSE.glob("[0-9]*.md"))


@pytest.fixture(scope="module")
def notebooks():
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs/_ext/notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_contents_list_every_chapter_in_order():
    listed = re.search(
        r"```\{toctree\}.*?\n\n(.*?)```", (COURSE / "index.md").read_text(), re.DOTALL
    )
    assert listed[1].split() == [page.stem for page in CHAPTERS]
    titles = [page.read_text().partition("\n")[0] for page in CHAPTERS]
    numbers = [int(re.match(r"# (\d+)\. ", title)[1]) for title in titles]
    assert numbers == [int(page.stem[:2]) for page in CHAPTERS] == [*range(1, len(CHAPTERS) + 1)]


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda p: p.stem)
def test_a_chapter_shows_the_pictures_that_its_code_writes(page):
    text = page.read_text()
    written = re.findall(r'"([\w-]+\.png)"', text)
    shown = re.findall(r"!\[.+?\]\(images/([\w-]+\.png)\)", text)
    assert written == shown
    assert shown
    assert all((COURSE / "images" / name).exists() for name in shown)


def test_no_picture_is_left_over():
    text = "".join(page.read_text() for page in CHAPTERS)
    assert all(f"(images/{path.name})" in text for path in (COURSE / "images").iterdir())


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda p: p.stem)
def test_every_exercise_has_a_solution_that_is_folded_away(page):
    exercises = page.read_text().partition("\n## Exercises\n")[2]
    parts = re.split(r"^\*\*(\d)\.\*\* ", exercises, flags=re.MULTILINE)[1:]
    assert parts[::2] == ["1", "2", "3"]
    for part in parts[1::2]:
        assert part.count("<details><summary>Solution</summary>\n\n") == 1
        assert part.count("\n\n</details>\n") == 1


def test_notebooks_have_the_code_of_the_chapters(notebooks, tmp_path):
    files = notebooks.write(tmp_path)
    assert [file.stem for file in files] == [page.stem for page in CHAPTERS]
    for file, page in zip(files, CHAPTERS, strict=True):
        cells = json.loads(file.read_text())["cells"]
        code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
        assert code == [
            c.strip() for c in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
        ]
        words = "".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
        assert words.startswith(page.read_text().partition("\n")[0])
        assert not re.search(r"```|<details>|images/", words)


def test_a_notebook_runs_and_prints_what_it_shows(notebooks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace, compared = {}, 0
    for cell in notebooks.notebook(COURSE / "11-new-points.md")["cells"]:
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(cell["source"], namespace)
            assert printed.getvalue() == "".join(shown["text"] for shown in cell["outputs"])
            compared += bool(cell["outputs"])
    plt.close("all")
    assert compared >= 5
    assert (tmp_path / "component-functions.png").exists()


def test_a_notebook_is_valid(notebooks):
    for page in CHAPTERS:
        nbformat.validate(notebooks.notebook(page))


@pytest.mark.parametrize(
    ("tex", "signs"),
    [
        ("(-1)", [True]),
        ("a - b", [False]),
        ("(a) - b = -c", [False, True]),
        (r"\exp(-\gamma x), -2", [True, True]),
        (r"a \;-\; b", [False]),
        (r"\lVert x \rVert - y \quad -z", [False, True]),
    ],
)
def test_a_minus_without_a_left_operand_is_set_as_a_sign(tex, signs, monkeypatch):
    tex2mml = pytest.importorskip("ziamath.tex").tex2mml
    monkeypatch.syspath_prepend(str(ROOT / "docs/_ext"))
    tree = importlib.import_module("formulas").signed(tex2mml(tex))
    assert [part.get("form") == "prefix" for part in tree.iter("mo") if part.text == "−"] == signs
