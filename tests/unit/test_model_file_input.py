"""Model files that are damaged, foreign, too new or forged, and models that no file can hold."""

import errno
import json
import random
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

import mercer
from mercer import KernelPCA, KernelPCADetector
from mercer._core import container
from mercer._core.errors import InputError, ModelFileError
from mercer._core.findings import silenced
from mercer.approximations import RPCholesky
from mercer.data.sources import as_source
from mercer.kernels import RBF, Custom, GaussianProcess, Polynomial
from mercer.model.checkpoint import Checkpoint
from mercer.persistence.model_file import load, opened, read_header, save
from mercer.planning.recipe import Tiles, plan_of_flags
from mercer.preimage import Ridge
from mercer.solvers import BlockKrylov, Lapack

DATA = Path(__file__).parents[1] / "data"
X = np.random.default_rng(1).standard_normal((12, 2))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A small file, and its bytes."""
    path = tmp_path_factory.mktemp("whole") / "m.mercer"
    model = KernelPCA(2, kernel=RBF(0.3), approximation=RPCholesky(rank=5), random_state=0).fit(X)
    model.save(path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path, whole):
    file = tmp_path / "m.mercer"
    file.write_bytes(whole)
    return file


# ── not a model file at all ────────────────────────────────────────────────────
def test_what_is_not_a_model_file_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="There is no model file"):
        load(tmp_path / "nowhere.mercer")
    with pytest.raises(ModelFileError, match="is a folder"):
        load(tmp_path)
    for content in (b"", b"PK\3\4 a zip", b"a,b\n1,2\n", b"\x93NUMPY\1\0" + bytes(99)):
        (tmp_path / "foreign").write_bytes(content)
        with pytest.raises(
            ModelFileError, match="is not a model file: its first bytes are not those of one"
        ):
            load(tmp_path / "foreign")
    with pytest.raises(InputError, match="zero bytes"):
        load("a\0b")
    with pytest.raises(InputError, match="must be a string or a Path; got an int"):
        load(3)


def test_a_checkpoint_is_not_a_model(tmp_path):
    Checkpoint(tmp_path / "fit.ckpt", {}).keep(lambda: {"basis": X})
    with pytest.raises(ModelFileError, match="refused: it is a checkpoint of a fit"):
        load(tmp_path / "fit.ckpt")


@pytest.mark.parametrize("version", [1, 2])
def test_every_format_is_read_for_ever(version):
    """Written when each was new, and never again."""
    kept = json.loads((DATA / f"model-format-{version}.json").read_text())
    model, header = opened(DATA / f"model-format-{version}.mercer")
    rows = pd.DataFrame(kept["rows"], columns=["length", "width"])
    np.testing.assert_allclose(model.transform(rows), kept["scores"], atol=1e-12)
    np.testing.assert_allclose(model.reconstruct(rows), kept["reconstructed"], atol=1e-9)
    assert (header["format"], header["features"]) == (version, ["length", "width"])


def test_a_plan_of_the_first_format_is_one_of_today():
    """It was kept as flags, before there were recipes."""
    model = load(DATA / "model-format-1.mercer")
    assert isinstance(model.plan_.recipe, Tiles)
    assert model.plan_.n_threads >= 1
    assert model.engine == "auto"


def test_the_first_format_is_saved_in_the_second_with_the_same_scores(tmp_path):
    kept = json.loads((DATA / "model-format-1.json").read_text())
    rows = pd.DataFrame(kept["rows"], columns=["length", "width"])
    model = load(DATA / "model-format-1.mercer", mmap=True)
    model.save(tmp_path / "m.mercer")
    again, header = opened(tmp_path / "m.mercer")
    assert header["format"] == 2
    assert np.array_equal(again.transform(rows), model.transform(rows))
    assert np.array_equal(again.reconstruct(rows), model.reconstruct(rows))


FLAGS = {
    "route": "dual",
    "solver": BlockKrylov(),
    "n_bytes": 10,
    "reasons": (),
    "storage": "tiles",
    "width": 384,
    "sketch": False,
    "double": False,
    "hold_bytes": 0,
    "held": 0.0,
    "packed": False,
    "sliced": False,
    "n_threads": 0,
}


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({}, "K in tiles (384 wide), none stored"),
        ({"storage": "full", "double": True}, "K stored"),
        ({"storage": "none", "solver": Lapack()}, "K formed once"),
        ({"route": "primal", "storage": "none"}, "explicit map"),
        ({"route": "low-rank", "storage": "none"}, "K never formed"),
        (
            {"sketch": True, "hold_bytes": 9 * 384**2 * 4, "held": 0.25, "n_threads": 2},
            "K in float32 tiles, proved in float64 (384 wide, 2 threads), 25% of them held",
        ),
        (
            {"sketch": True, "hold_bytes": 10 * 384**2 * 2, "held": 1.0, "packed": True},
            "half of K held as 16-bit tiles, checked in float64 (384 wide)",
        ),
    ],
)
def test_plans_that_were_kept_as_flags_say_what_they_said(flags, text):
    assert f", {text}, at most 10 B" in str(plan_of_flags(**(FLAGS | flags)))


# ── headers with right checksums ────────────────────────────────────────────
def read(path):
    with path.open("rb") as file:
        return container.read(file)


def forged(path, change):
    """The file again, with another model in its header and every checksum right."""
    contents = read(path)
    header = deepcopy(contents.header)
    model = header["model"]
    change(model["objects"], model, contents.arrays)
    container.write(path, header, contents.arrays)


def at(objects, name):
    """The last object of that type: parameters come before what was learned."""
    return next(entry for entry in reversed(objects) if entry["type"] == name)


def put(name, field, value, part="fields"):
    return lambda objects, *_: at(objects, name)[part].__setitem__(field, value)


def drop(name, field, part="fields"):
    return lambda objects, *_: at(objects, name)[part].pop(field)


def bomb(objects, *_):
    """A kernel plus itself, sixty times over: 2⁶⁰ kernels in sixty lines."""
    place = next(i for i, entry in enumerate(objects) if entry["type"] == "RBF")
    ours = at(objects, "KernelSections")
    for _ in range(60):
        objects.append(
            {"type": "Sum", "fields": {"left": {"$ref": place}, "right": {"$ref": place}}}
        )
        place = len(objects) - 1
    ours["fields"]["kernel"] = {"$ref": place}


def deep(objects, *_):
    tree = 1
    for _ in range(500):
        tree = [tree]
    at(objects, "KernelPCA")["fields"]["verbose"] = [tree] * 30


def infinite(objects, _, arrays):
    arrays[at(objects, "Projection")["fields"]["coef"]["$array"]][0, 0] = np.inf


def state(**changes):
    """Random numbers that NumPy would read from outside of their table."""
    key = {"$tuple": [{"$scalar": "<u4", "value": 1}] * 624}
    inner = {"$dict": {"key": key, "pos": changes["pos"]}}
    return {"$generator": {"$dict": {"bit_generator": changes["bits"], "state": inner}}}


def ceiling(values):
    """Bounds of eigenvalues that no fit has proved."""

    def change(objects, _, arrays):
        arrays["ceiling"] = np.asarray(values)
        at(objects, "Fit")["fields"]["ceiling"] = {"$array": "ceiling"}

    return change


COEF = {"$array": "KernelPCA.fit_.projection.coef"}
CSR = {"data": COEF, "indices": COEF, "indptr": COEF}
FORGERIES = {
    "unknown type": lambda objects, *_: objects[0].update(type="os.system"),
    "type that is no text": lambda objects, *_: objects[0].update(type=["RBF"]),
    "missing field": drop("Projection", "offset"),
    "field too many": put("Projection", "scale", 1.0),
    "text for an array": put("Projection", "coef", "coef"),
    "wrong shape": lambda objects, _, arrays: arrays.__setitem__(
        at(objects, "Projection")["fields"]["offset"]["$array"], np.zeros(9)
    ),
    "infinite coefficient": infinite,
    "a bound too many": ceiling(np.full(9, 50.0)),
    "a bound that is not a number": ceiling([np.nan, 50.0]),
    "impossible kernel": put("RBF", "gamma", -1.0),
    "kernel that waits for data": put("RBF", "gamma", "median"),
    "kernel of another type": put("KernelSections", "kernel", COEF),
    "forward reference": lambda objects, *_: objects[0]["fields"].update(gamma={"$ref": 99}),
    "reference to itself": lambda objects, *_: objects[0]["fields"].update(gamma={"$ref": 0}),
    "negative reference": put("KernelSections", "kernel", {"$ref": -1}),
    "array that is not there": put("Projection", "coef", {"$array": "coef"}),
    "array by its place": put("Projection", "coef", {"$array": 0}),
    "array by a list": put("Projection", "coef", {"$array": ["KernelPCA.fit_.projection.coef"]}),
    "bomb of references": bomb,
    "bomb of brackets": deep,
    "huge integer": put("Plan", "n_bytes", 10**60),
    "number for a text": put("Plan", "route", 3),
    "status that is none": put("Status", "name", "__class__"),
    "unknown mark": put("KernelPCA", "verbose", {"$pickle": "gASV"}),
    "no mark": put("KernelPCA", "verbose", {"a": 1}),
    "objects in an array": put("KernelPCA", "verbose", {"$objects": [None, [1]]}),
    "two marks": put("KernelPCA", "verbose", {"$tuple": [], **COEF}),
    "a number and something beside it": put(
        "KernelPCA", "verbose", {"$scalar": "<i8", "value": 1, "more": 2}
    ),
    "unknown parameter": put("KernelPCA", "n_jobs", 1),
    "parameter of another kind": put("KernelPCA", "kernel", COEF),
    "unknown attribute": put("KernelPCA", "__class__", 1, "learned"),
    "lost attribute": drop("KernelPCA", "fit_", "learned"),
    "other columns": put("KernelPCA", "n_features_in_", 3, "learned"),
    "names of other columns": put("KernelPCA", "feature_names_in_", {"$names": ["a"]}, "learned"),
    "dtype of integers": put("KernelPCA", "_dtype", {"$dtype": "<i8"}, "learned"),
    # NumPy finds both equal to float64.
    "no dtype": put("KernelPCA", "_dtype", None, "learned"),
    "text for a dtype": put("KernelPCA", "_dtype", "float64", "learned"),
    "not fitted": lambda objects, *_: at(objects, "KernelPCA").pop("learned"),
    "position beyond a table": put("KernelPCA", "random_state", state(bits="MT19937", pos=625)),
    "unknown random numbers": put("KernelPCA", "random_state", state(bits="BitGenerator", pos=0)),
    "sparse rows that are none": put(
        "KernelSections", "points", {"$csr": CSR, "shape": [5, 2], "kind": "array"}
    ),
    "root that is no model": lambda _, model, *__: model.update(root={"$ref": 0}),
    "no root": lambda _, model, *__: model.pop("root"),
    "objects that are no list": lambda _, model, *__: model.update(objects={}),
}


@pytest.mark.parametrize("name", sorted(FORGERIES))
def test_a_forged_model_is_refused(path, name):
    forged(path, FORGERIES[name])
    with pytest.raises(ModelFileError):
        load(path)


# What a file may be older than. Any other default would make another model of it, in silence.
LATER = {
    "Baselines.relations",
    "Baselines.unit",
    "EigenPairs.rounding",
    "EigenPairs.unseen",
    "Fit.ceiling",
    "Limits.high",
    "Limits.low",
    "Limits.note",
    "Plan.preimage",
    "Plan.preimage_bytes",
    "Plan.host_bytes",
    "Plan.preimage_seconds",
    "Quality.noisy",
}
FITTED = {
    "explicit map": lambda: KernelPCA(2, kernel=Polynomial(2, gamma=0.3, coef0=0.5)),
    "low rank": lambda: KernelPCA(
        2, approximation=RPCholesky(rank=5), preimage="fixed-point", random_state=0
    ),
    "Gaussian process": lambda: KernelPCA(
        2, kernel=GaussianProcess(ConstantKernel(2.0) * Matern(0.3))
    ),
    "detector": lambda: KernelPCADetector(random_state=0),
}


@pytest.mark.parametrize("name", FITTED)
def test_a_field_that_is_missing_is_refused(name, tmp_path, rng):
    path = tmp_path / "m.mercer"
    FITTED[name]().fit(rng.standard_normal((40, 3))).save(path)
    contents = read(path)
    lost = set()
    for place, entry in enumerate(contents.header["model"]["objects"]):
        for field in () if "learned" in entry else entry["fields"]:
            header = deepcopy(contents.header)
            del header["model"]["objects"][place]["fields"][field]
            container.write(path, header, contents.arrays)
            try:
                load(path)
            except ModelFileError:
                continue
            lost.add(f"{entry['type']}.{field}")
    assert {one for one in lost if not one.endswith("_bounds")} <= LATER


# A column less, no rows, and numbers that are no sizes.
SPOILS = {
    "narrower": lambda a: np.ascontiguousarray(a[:, :-1] if a.ndim > 1 else a),
    "empty": lambda a: a[:0],
    "NaN": lambda a: np.full_like(a, np.nan),
    "infinite": lambda a: np.full_like(a, np.inf),
    "huge": lambda a: np.full_like(a, 1e300),
}


@pytest.mark.parametrize("how", SPOILS)
def test_a_detector_of_other_arrays_is_refused_or_judges(how, tmp_path, rng):
    path, rows = tmp_path / "m.mercer", rng.standard_normal((60, 3))
    new = rows[:20] + np.outer(np.arange(20) > 9, [0.0, 12.0, 0.0])
    detector = KernelPCADetector(lags=1).fit(rows)
    detector.learn_event("leak", new)
    detector.save(path)
    contents = read(path)
    for name, array in contents.arrays.items():
        if ".model_." not in name:
            container.write(path, contents.header, contents.arrays | {name: SPOILS[how](array)})
            with suppress(ModelFileError), silenced(), np.errstate(all="ignore"):
                model = load(path)
                assert len(str(model.monitor(new))) + len(str(model.limits_)) > 0
                assert len(model.p_values(new)) == len(new)
                assert all(str(event) for event in model.events(new))
    container.write(path, contents.header, contents.arrays)
    forged(path, put("Limits", "index", 0.0))
    with pytest.raises(ModelFileError, match="no limit"):
        load(path)


@pytest.mark.parametrize(
    ("name", "change"),
    {
        "kernel": put("RBF", "gamma", 99.0),
        "features": put("KernelPCA", "feature_names_in_", {"$names": list("xy")}, "learned"),
    }.items(),
)
def test_a_model_that_is_not_what_its_header_tells_is_refused(path, name, change):
    forged(path, change)
    with pytest.raises(ModelFileError, match=f"its header says {name} .*, but its model has"):
        load(path)


def test_a_word_of_many_pages_is_quoted_in_a_line(path):
    forged(path, put("RBF", "gamma", "long " * 10_000))
    with pytest.raises(ModelFileError, match="can't be used") as caught:
        load(path)
    forged(path, lambda objects, *_: objects[0].__setitem__("type", "long " * 10_000))
    with pytest.raises(ModelFileError, match="can't be used: it holds a 'long") as again:
        load(path)
    assert max(len(str(caught.value)), len(str(again.value))) < 1000


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "it holds a value without a mark"),
        ({"width": 1}, "it holds a value without a mark"),
        ({"$other": 1}, r"it holds a value marked '\$other'"),
        ({"$path": 3}, r"'\$path' marks a value of type int"),
    ],
)
def test_a_value_that_is_marked_wrongly_is_named(path, value, said):
    forged(path, put("RBF", "gamma", value))
    with pytest.raises(ModelFileError, match=said):
        load(path)


def test_a_forger_who_changes_nothing_is_believed(path):
    expected = load(path).transform(X)
    forged(path, lambda *_: None)
    assert np.array_equal(load(path).transform(X), expected)


# ── what no file can hold ───────────────────────────────────────────────────
class Mine(KernelPCA):
    pass


def test_functions_and_foreign_classes_are_refused_by_name(tmp_path):
    file = tmp_path / "m.mercer"
    with pytest.raises(ModelFileError, match=r"KernelPCA.kernel is a Python function.*joblib"):
        KernelPCA(2, kernel=lambda x, y: float(x @ y)).fit(X).save(file)
    with pytest.raises(ModelFileError, match=r"KernelPCA.kernel.function"):
        KernelPCA(2, kernel=Custom(np.inner, "matrices")).fit(X).save(file)
    with pytest.raises(ModelFileError, match=r"got a .*Mine"):
        Mine(2, kernel=RBF(0.3)).fit(X).save(file)
    with pytest.raises(ModelFileError, match=r"got a builtins\.list"):
        save([], file)
    model = KernelPCA(2, kernel=RBF(0.3)).fit(X)
    model.random_state = random.SystemRandom()
    with pytest.raises(ModelFileError, match=r"KernelPCA.random_state is a random.SystemRandom"):
        model.save(file)
    assert not file.exists()


def test_what_would_be_lost_is_refused(tmp_path):
    model = KernelPCA(2, kernel=RBF(0.3))
    with pytest.raises(ModelFileError, match="not fitted yet"):
        model.save(tmp_path / "m.mercer")
    model.fit(X).note = "mine"
    with pytest.raises(ModelFileError, match="attribute 'note'"):
        model.save(tmp_path / "m.mercer")
    handed = KernelPCA(2, kernel="precomputed", preimage=Ridge(rows=X.tolist())).fit(RBF(0.3)(X))
    handed.save(tmp_path / "m.mercer")  # lists of numbers are plain
    handed.preimage.rows = np.array([["a"]], dtype=object)
    with pytest.raises(ModelFileError, match=r"preimage.rows"):
        handed.save(tmp_path / "m.mercer")


def test_a_path_that_cant_be_written_leaves_everything_as_it_was(tmp_path, monkeypatch, whole):
    model = KernelPCA(2, kernel=RBF(0.3)).fit(X)
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        model.save(tmp_path / "nowhere" / "m.mercer")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        model.save(tmp_path)
    old = tmp_path / "m.mercer"
    old.write_bytes(whole)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(container, "_written", full)
    with pytest.raises(OSError, match="No space left"):
        model.save(old)
    assert old.read_bytes() == whole
    assert [p.name for p in tmp_path.iterdir()] == ["m.mercer"]


def test_rows_in_a_file_that_changed_are_told_when_the_model_is_saved(tmp_path):
    np.save(tmp_path / "x.npy", X)
    source = as_source(tmp_path / "x.npy")
    model = KernelPCA(2, kernel=RBF(0.3)).fit(X)
    sections = replace(model.fit_.projection.sections, points=source)
    model.fit_ = replace(model.fit_, projection=replace(model.fit_.projection, sections=sections))
    np.save(tmp_path / "x.npy", X[:5])
    with pytest.raises(InputError, match=r"x\.npy. changed while it was in use"):
        save(model, tmp_path / "m.mercer", data={"n": 12})
    assert not (tmp_path / "m.mercer").exists()


def test_a_link_keeps_its_place(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.mercer"
    link.symlink_to(tmp_path / "real" / "m.mercer")
    KernelPCA(2, kernel=RBF(0.3)).fit(X).save(link)
    assert link.is_symlink()
    assert mercer.load(tmp_path / "real" / "m.mercer").n_components_ == 2


def test_data_and_about_have_to_be_what_they_are_said_to_be(tmp_path):
    model = KernelPCA(2, kernel=RBF(0.3)).fit(X)
    with pytest.raises(InputError, match="`data` has dtype <U1: text, but numbers are needed"):
        save(model, tmp_path / "m.mercer", data=[["a", "b"]])
    with pytest.raises(ModelFileError, match="UTF-8"):
        save(model, tmp_path / "m.mercer", about={"who": "\ud800"})
    with pytest.raises(ModelFileError, match="plain JSON in UTF-8, but: maximum recursion depth"):
        save(model, tmp_path / "m.mercer", about=reduce(lambda inner, _: [inner], range(10**5), 1))
    assert not list(tmp_path.iterdir())
    save(model, tmp_path / "m.mercer", data={"n": 5, "file": "x.csv"}, about={"note": ("a", 1)})
    header = read_header(tmp_path / "m.mercer")
    assert header["data"] == {"n": 5, "file": "x.csv"}
    assert header["about"] == {"note": ["a", 1]}
