"""The reference lists every public name, and every estimator knows its page."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import mercer
from mercer._core import errors as core_errors
from mercer.errors import MercerError, MercerWarning

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
MODULES = [
    "mercer",
    "mercer.errors",
    *(f"mercer.{name}" for name in mercer.__all__ if inspect.ismodule(getattr(mercer, name))),
]
PUBLIC = [
    (module, name)
    for module in dict.fromkeys(MODULES)
    for name in importlib.import_module(module).__all__
    if name != "__version__"
    and not inspect.ismodule(getattr(importlib.import_module(module), name))
]


def listed(module):
    """The names on the page of a module."""
    page = "estimators.rst" if module == "mercer" else f"{module.removeprefix('mercer.')}"
    found = next(REFERENCE.glob(f"{page.removesuffix('.rst')}.*"))
    return set(re.findall(r"^   (\w+)$", found.read_text(), re.MULTILINE))


@pytest.mark.parametrize("module", dict.fromkeys(module for module, _ in PUBLIC))
def test_the_reference_has_every_public_name_and_no_other(module):
    assert listed(module) == {name for home, name in PUBLIC if home == module}


def test_the_reference_says_what_each_of_its_pages_is_for():
    index = (REFERENCE / "index.rst").read_text()
    said = re.findall(r"^- :doc:`[^<`]+ <([^>]+)>`: .+", index, re.MULTILINE)
    pages = re.findall(r"^   ([/\w-]+)$", index, re.MULTILINE)
    assert len(pages) > 20
    assert sorted(said) == sorted(pages)


PRIVATE = re.compile(r"^(?:>>>|\.\.\.).*\bmercer(?:\.\w+)*\._", re.MULTILINE)


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_examples_use_what_a_reader_may_use(module, name):
    value = getattr(importlib.import_module(module), name)
    members = vars(value).values() if inspect.isclass(value) else ()
    for documented in (value, *members):
        text = inspect.cleandoc(getattr(documented, "__doc__", None) or "")
        assert not (found := PRIVATE.search(text)), found[0]


ESTIMATORS = [
    getattr(importlib.import_module(module), name)
    for module, name in PUBLIC
    if inspect.isclass(getattr(importlib.import_module(module), name))
    and issubclass(getattr(importlib.import_module(module), name), BaseEstimator)
]


@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
def test_the_html_repr_links_to_a_page_of_the_reference(cls, monkeypatch):
    monkeypatch.setenv("MERCER_DOCS", "https://example.org/docs/")
    link = re.search(r'href="(https://example\.org/docs/reference/[^"#]+)', cls()._repr_html_())[1]
    module, _, name = link.rpartition("/")[2].removesuffix(".html").rpartition(".")
    assert getattr(importlib.import_module(module), name) is cls
    assert (module, name) in PUBLIC


def test_without_a_site_there_is_no_link(monkeypatch, tmp_path):
    monkeypatch.delenv("MERCER_DOCS", raising=False)
    monkeypatch.setattr("mercer.estimators.base.BUILT", tmp_path)
    assert mercer.KernelPCA()._get_doc_link() == ""
    assert "Documentation for" not in mercer.KernelPCA()._repr_html_()


def test_every_error_and_warning_is_public_and_says_what_to_do():
    kinds = {
        name: kind
        for name, kind in vars(core_errors).items()
        if isinstance(kind, type) and issubclass(kind, (MercerError, MercerWarning))
    }
    assert set(kinds) == set(mercer.errors.__all__)
    for name, kind in kinds.items():
        assert len((kind.__doc__ or "").split("\n\n")) > 1, f"{name} has no remedy in its docstring"
