"""The shape of the code, held by tests: lazy imports, true names, messages that name real things."""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mercer
from mercer.cli.ending import PHRASES

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


def test_a_header_is_read_without_scikit_learn_and_a_model_with_few_of_its_modules():
    file = ROOT.parents[1] / "tests" / "data" / "model-format-1.mercer"
    told = f"from mercer.persistence.model_file import read_header; read_header({str(file)!r})"
    assert not {name for name in imported_by(told) if name.startswith(("sklearn", "scipy"))}
    loaded = imported_by(f"import mercer; mercer.load({str(file)!r})")
    assert not loaded & {"sklearn.gaussian_process", "sklearn.decomposition", "sklearn.compose"}


def test_torch_is_imported_by_its_engine_alone_and_when_it_runs():
    """In the bodies of functions: every module can be read where torch is not installed."""
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text())
        typing = [n for n in tree.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n)]
        exempt = {id(inner) for node in typing for inner in ast.walk(node)}
        at_once = {id(node) for node in tree.body}
        imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        for node in imports:
            names = [getattr(node, "module", None), *(each.name for each in node.names)]
            heavy = {str(name).partition(".")[0] for name in names} & {"torch", "triton"}
            if heavy and id(node) not in exempt:
                assert path.parent == ROOT / "engine" / "torch", path
                assert id(node) not in at_once, path


def exported():
    """Modules that say what they export; those with `__getattr__` export lazily."""
    loaded = {name: importlib.import_module(name) for name in ["mercer", *MODULES]}
    return {name: module for name, module in loaded.items() if hasattr(module, "__all__")}


@pytest.mark.parametrize("name", sorted(exported()))
def test_all_is_true(name):
    """Every exported name is there, once; every public name that a package imports is exported."""
    module = importlib.import_module(name)
    names = module.__all__
    assert len(set(names)) == len(names)
    for public in names:
        assert hasattr(module, public), public
    imported = {
        alias.asname or alias.name
        for node in ast.parse(Path(module.__file__).read_text()).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mercer")
        for alias in node.names
    }
    if hasattr(module, "__path__"):
        assert {own for own in imported if not own.startswith("_")} <= set(names)


def test_packages_that_gather_names_export_them():
    packages = {"mercer", "mercer.kernels", "mercer.operators", "mercer.solvers", "mercer.model"}
    assert packages <= set(exported())


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


def trees():
    return [ast.parse(path.read_text()) for path in ROOT.rglob("*.py")]


def defined(tree):
    """Names of functions, classes, parameters, attributes and variables: not those of any text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def messages(tree):
    """The literal parts of texts that are raised, warned of, or kept as `msg`."""
    for node in ast.walk(tree):
        value = None
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            value = node.value if isinstance(target, ast.Name) and target.id == "msg" else None
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            ("warn", "Error", "refuse")
        ):
            value = node
        if value is not None:
            parts = (part.value for part in ast.walk(value) if isinstance(part, ast.Constant))
            yield from (part for part in parts if isinstance(part, str))


FOREIGN = {"skl2onnx"}


def missing(text, known):
    """Names in backquotes of which some part is not known; other packages answer for their own."""
    quoted = re.findall(r"`([A-Za-z_][\w.]*)(?:\(.*?\))?`", text)
    own = (name for name in quoted if name.split(".")[0] not in FOREIGN)
    return [name for name in own if not set(name.split(".")) <= known | {"mercer"}]


def named(tree):
    """Names that templates of messages give to parameters: fields that no part fills."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Message", "refuse"):
            template, parts = node.args[:1], {keyword.arg for keyword in node.keywords}
            texts = [part.value for part in ast.walk(*template) if isinstance(part, ast.Constant)]
            fields = re.findall(r"\{([a-z_]\w*)(?:![s])?(?::[^}]*)?\}", "".join(map(str, texts)))
            if None not in parts:  # **parts have names that only a run knows
                yield from (field for field in fields if field not in parts)


def test_parameters_that_messages_name_exist():
    parsed = trees()
    known = {name for tree in parsed for name in defined(tree)}
    names = {name for tree in parsed for name in named(tree)}
    assert {"memory", "preimage", "approximation", "n_components"} <= names
    assert names <= known | set(PHRASES)


def test_backquoted_names_in_messages_exist():
    """A message that names `something` must name something that is there."""
    parsed = trees()
    known = {name for tree in parsed for name in defined(tree)} | {
        m.split(".")[-1] for m in MODULES
    }
    texts = [text for tree in parsed for text in messages(tree)]
    assert sum("`" in text for text in texts) > 80, "the walk finds no messages any more"
    assert missing("call `no_such_name(X)`", known) == ["no_such_name"]
    found = {name: text for text in texts for name in missing(text, known)}
    assert not found
