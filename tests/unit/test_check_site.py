"""The check of the built site sees what a reader would stumble over."""

import runpy
from pathlib import Path

import pytest

broken = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "check_site.py"))["broken"]
OTHER = '<h1 id="here">Other</h1>'


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ('<a href="other.html#here">x</a> <a href="https://example.org/a">y</a>', None),
        ('<a href="folder/a%20b.txt">x</a> <img src="data:image/png;base64,AA">', None),
        ('<a href="gone.html">x</a>', "no file"),
        ('<a href="other.html#there">x</a>', "no place"),
        ('<a href="#there">x</a>', "no place"),
        ('<img src="gone.png">', "no file"),
        ('<script src="https://example.org/a.js"></script>', "loads"),
        ('<link rel="stylesheet" href="//example.org/a.css">', "loads"),
    ],
)
def test_a_link_leads_to_a_file_and_a_place_of_the_site(body, word, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a b.txt").write_text("x")
    (tmp_path / "other.html").write_text(OTHER)
    (tmp_path / "index.html").write_text(f"<body>{body}</body>")
    found, n_pages, n_links = broken(tmp_path)
    assert n_pages == 2
    assert n_links >= 1
    assert [word in each for each in found] == ([] if word is None else [True])
