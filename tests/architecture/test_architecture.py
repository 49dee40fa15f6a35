"""The shape of the code, held by tests: lazy imports, true names, messages that name real things."""

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mercer

ROOT = Path(mercer.__file__).parent
MODULES = sorted(
    m.name for m in pkgutil.walk_packages([str(ROOT)], "mercer.") if not m.name.endswith("__main__")
)
HEAVY = [
    "torch",
    "dask",
    "matplotlib",
    "pandas",
    "polars",
    "starlette",
    "sklearn",
    "scipy",
    "numpy",
]


def imported_by(code):
    """Modules that are loaded after running the code in a fresh interpreter."""
    script = f"{code}\nimport sys; print(' '.join(sys.modules))"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


def test_importing_mercer_imports_nothing_heavy():
    assert imported_by("import mercer") & set(HEAVY) == set()


def test_the_kernels_do_without_scikit_learn():
    assert "sklearn" not in imported_by("import mercer.kernels, mercer.model, mercer.preimage")


def test_the_estimators_do_without_matplotlib():
    loaded = imported_by("from mercer import KernelPCA, PCA, check_kernel, plots; KernelPCA()")
    assert not loaded & {"matplotlib", "torch", "dask", "polars"}


@pytest.mark.parametrize("name", ["mercer", *MODULES])
def test_all_is_true(name):
    module = importlib.import_module(name)
    names = getattr(module, "__all__", None)
    if names is None:
        return
    assert len(set(names)) == len(names)
    for public in names:
        assert hasattr(module, public), public


def test_the_public_names():
    assert dir(mercer) == sorted(mercer.__all__)
    with pytest.raises(AttributeError, match="no attribute 'KernelPAC'"):
        _ = mercer.KernelPAC


def test_every_module_says_what_it_is():
    for name in ["mercer", *MODULES]:
        assert (importlib.import_module(name).__doc__ or "").strip(), name


def test_files_stay_small():
    long = {p.name: n for p in ROOT.rglob("*.py") if (n := len(p.read_text().splitlines())) > 400}
    assert not long


def test_backquoted_names_in_messages_exist():
    """A message that names `something` must name something that is there."""
    source = "\n".join(p.read_text() for p in ROOT.rglob("*.py"))
    one = r"msg = \(?((?:(?!\n\n).)*?)\n\s*(?:\)\n\s*)?(?:raise|warnings\.warn|return)"
    messages = re.findall(one, source, flags=re.DOTALL)
    messages += [m.group(1) for m in re.finditer(r'= \(\n(\s+"stopped.*?)\)\n', source, re.DOTALL)]
    quoted = {name for text in messages for name in re.findall(r"`([\w.]+?)(?:\(.*?\))?`", text)}
    assert quoted, "the pattern finds no message any more"
    for name in quoted:
        last = name.split(".")[-1]
        assert re.search(rf"\b(def |class |self\.|)?{last}\b\s*[:(=]", source), name
