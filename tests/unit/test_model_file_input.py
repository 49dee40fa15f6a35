"""Model files that are damaged, foreign, too new or forged, and models that no file can hold."""

import errno
import hashlib
import json
import random
import struct
from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

import mercer
from mercer import KernelPCA, KernelPCADetector
from mercer._core.errors import InputError, ModelFileError
from mercer.approximations import RPCholesky
from mercer.io import container, model_file
from mercer.io.container import read
from mercer.io.model_file import load, read_header, save
from mercer.kernels import RBF, Custom, GaussianProcess, Polynomial
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


# ── every byte counts ───────────────────────────────────────────────────────
def test_one_flipped_bit_is_found_wherever_it_is(path, whole):
    rng = np.random.default_rng(0)
    places = [*range(64), *rng.integers(64, len(whole), 400), len(whole) - 1]
    (length,) = struct.unpack_from("<Q", whole, 12)
    padding = range(64 + length, container.aligned(64 + length))
    for at in {*map(int, places), *padding}:
        spoilt = bytearray(whole)
        spoilt[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(spoilt)
        with pytest.raises(ModelFileError):
            read_header(path)


def test_a_cut_or_lengthened_file_is_refused(path, whole):
    for length in [0, 1, 7, 8, 40, 63, 64, 65, 500, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match=r"damaged|no model file"):
            load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ModelFileError, match=r"announces .* bytes, but the file has"):
        load(path)


@pytest.mark.parametrize("mmap", [False, True])
def test_arrays_are_checked_however_they_are_read(path, whole, mmap):
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ModelFileError, match="checksum of the array"):
        load(path, mmap=mmap)


def test_a_file_without_arrays_is_whole_too(tmp_path):
    container.write(tmp_path / "m", 1, {"a": 1}, [])
    contents = read(tmp_path / "m", 1, mmap=True)
    assert (contents.header, contents.arrays) == ({"a": 1, "arrays": []}, [])


# ── no model file at all ────────────────────────────────────────────────────
def test_what_is_no_model_file_is_told_apart(tmp_path):
    with pytest.raises(ModelFileError, match="There is no model file"):
        load(tmp_path / "nowhere.mercer")
    with pytest.raises(ModelFileError, match="is a folder"):
        load(tmp_path)
    for content in (b"", b"PK\3\4 a zip", b"a,b\n1,2\n", b"\x93NUMPY\1\0" + bytes(99)):
        (tmp_path / "foreign").write_bytes(content)
        with pytest.raises(ModelFileError, match=r"no model file|damaged"):
            load(tmp_path / "foreign")
    with pytest.raises(InputError, match="zero bytes"):
        load("a\0b")
    with pytest.raises(InputError, match="path of a model file was needed, but a int"):
        load(3)


def sealed(header, version=1, arrays=b"", length=None):
    """The bytes of a file with this header, whatever it is, and a right checksum."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    start = struct.pack("<8sIQ", container.MAGIC, version, len(text) if length is None else length)
    return start + hashlib.sha256(start + text).digest() + bytes(12) + text + arrays


def test_a_newer_format_is_refused_with_what_to_upgrade(path):
    path.write_bytes(sealed({"format": 2}, version=2))
    with pytest.raises(ModelFileError, match=r"format 2, .* up to 1.*pip install --upgrade mercer"):
        load(path)


def test_an_older_format_is_brought_up_step_by_step(path, monkeypatch):
    """A third format that tells something else about a model, read back through two steps."""
    expected = load(path).transform(X)

    def second(header):
        return {**header, "second": True}

    def third(header):
        assert header["second"]
        return {**header, "about": "brought up"}

    monkeypatch.setattr(model_file, "FORMAT", 3)
    monkeypatch.setattr(model_file, "UPGRADES", {1: second, 2: third})
    assert read_header(path)["about"] == "brought up"
    assert np.array_equal(load(path).transform(X), expected)


def test_the_first_format_is_read_for_ever():
    """Written when format 1 was new, and never again."""
    kept = json.loads((DATA / "model-format-1.json").read_text())
    model = load(DATA / "model-format-1.mercer")
    rows = pd.DataFrame(kept["rows"], columns=["length", "width"])
    np.testing.assert_allclose(model.transform(rows), kept["scores"], atol=1e-12)
    np.testing.assert_allclose(model.reconstruct(rows), kept["reconstructed"], atol=1e-9)
    assert read_header(DATA / "model-format-1.mercer")["features"] == ["length", "width"]
    # Its plan was kept as flags, before there were recipes.
    assert isinstance(model.plan_.recipe, Tiles)
    assert model.plan_.n_threads >= 1
    assert model.engine == "auto"


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
@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"arrays": NaN}',
        b'{"format": 1, "format": 1}',
        b"\xff\xfe",
        b'{"a": "\\ud800"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"n": ' + b"9" * 5000 + b"}",
        b"{}",
        b'{"arrays": {}}',
        b'{"arrays": []}',
        b'{"arrays": [3]}',
    ],
    ids=lambda text: text[:20].decode("latin1"),
)
def test_a_header_that_is_none_is_refused(path, header):
    path.write_bytes(sealed(header))
    with pytest.raises(ModelFileError):
        load(path)


def test_a_petabyte_is_refused_before_it_is_allocated(path, whole):
    entry = {"dtype": "<f8", "order": "C", "offset": 128, "sha256": "0" * 64}
    for shape in ([2**47], [2**30, 2**30], [10**30], [2**62, 2]):
        n_bytes = 8 * int(np.prod([int(s) for s in shape], dtype=object))
        path.write_bytes(sealed({"arrays": [{**entry, "shape": shape, "bytes": n_bytes}]}))
        with pytest.raises(ModelFileError):
            load(path)
    path.write_bytes(sealed(b"{}", length=2**50) + whole)
    with pytest.raises(ModelFileError, match="header of 1125899906842624 bytes"):
        load(path)


ENTRY = {"dtype": "<f8", "shape": [2], "order": "C", "offset": 256, "bytes": 16, "sha256": "0" * 64}


@pytest.mark.parametrize(
    "wrong",
    [
        {"dtype": "|O"},
        {"dtype": "<f2"},
        {"dtype": ">f8"},
        {"dtype": ["<f8"]},
        {"shape": 2},
        {"shape": [-2]},
        {"shape": [2.0]},
        {"shape": [True, 2]},
        {"shape": [1, 1, 1, 1, 2]},
        {"order": "K"},
        {"offset": 0},
        {"offset": 257},
        {"bytes": 15},
        {"bytes": "16"},
        {"sha256": None},
        {"more": 1},
    ],
    ids=str,
)
def test_a_wrong_place_of_an_array_is_refused(path, wrong):
    text = json.dumps({"arrays": [{**ENTRY, **wrong}]}).encode().ljust(256 - 64)
    path.write_bytes(sealed(text, arrays=bytes(16)))
    with pytest.raises(ModelFileError, match="refused"):
        load(path)


def forged(path, change):
    """The file again, with another model in its header and every checksum right."""
    contents = read(path, 1)
    header = deepcopy(contents.header)
    model = header["model"]
    change(model["objects"], model, contents.arrays)
    header.pop("arrays")
    container.write(path, 1, header, contents.arrays)


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


CSR = {"data": {"$array": 0}, "indices": {"$array": 0}, "indptr": {"$array": 0}}
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
    "impossible kernel": put("RBF", "gamma", -1.0),
    "kernel that waits for data": put("RBF", "gamma", "median"),
    "kernel of another type": put("KernelSections", "kernel", {"$array": 0}),
    "forward reference": lambda objects, *_: objects[0]["fields"].update(gamma={"$ref": 99}),
    "reference to itself": lambda objects, *_: objects[0]["fields"].update(gamma={"$ref": 0}),
    "negative reference": put("KernelSections", "kernel", {"$ref": -1}),
    "array that is not there": put("Projection", "coef", {"$array": 99}),
    "bomb of references": bomb,
    "bomb of brackets": deep,
    "huge integer": put("Plan", "n_bytes", 10**60),
    "number for a text": put("Plan", "route", 3),
    "status that is none": put("Status", "name", "__class__"),
    "unknown mark": put("KernelPCA", "verbose", {"$pickle": "gASV"}),
    "no mark": put("KernelPCA", "verbose", {"a": 1}),
    "two marks": put("KernelPCA", "verbose", {"$tuple": [], "$array": 0}),
    "a number and something beside it": put(
        "KernelPCA", "verbose", {"$scalar": "<i8", "value": 1, "more": 2}
    ),
    "unknown parameter": put("KernelPCA", "n_jobs", 1),
    "parameter of another kind": put("KernelPCA", "kernel", {"$array": 0}),
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
    "Baselines.unit",
    "EigenPairs.rounding",
    "EigenPairs.unseen",
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
    contents = read(path, 1)
    lost = set()
    for place, entry in enumerate(contents.header["model"]["objects"]):
        for field in () if "learned" in entry else entry["fields"]:
            header = deepcopy(contents.header)
            header.pop("arrays")
            del header["model"]["objects"][place]["fields"][field]
            container.write(path, 1, header, contents.arrays)
            try:
                load(path)
            except ModelFileError:
                continue
            lost.add(f"{entry['type']}.{field}")
    assert {one for one in lost if not one.endswith("_bounds")} <= LATER


@pytest.mark.parametrize(
    ("name", "change"),
    {
        "kernel": put("RBF", "gamma", 99.0),
        "features": put("KernelPCA", "feature_names_in_", {"$names": list("xy")}, "learned"),
    }.items(),
)
def test_a_model_that_is_not_what_its_header_tells_is_refused(path, name, change):
    forged(path, change)
    with pytest.raises(ModelFileError, match=f"its header tells {name} .*, but its model has"):
        load(path)


def test_a_word_of_many_pages_is_quoted_in_a_line(path):
    forged(path, put("RBF", "gamma", "long " * 10_000))
    with pytest.raises(ModelFileError, match="can't be used") as caught:
        load(path)
    forged(path, lambda objects, *_: objects[0].__setitem__("type", "long " * 10_000))
    with pytest.raises(ModelFileError, match="can't be used: it holds a 'long") as again:
        load(path)
    assert max(len(str(caught.value)), len(str(again.value))) < 1000


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
    with pytest.raises(ModelFileError, match="Mine came"):
        Mine(2, kernel=RBF(0.3)).fit(X).save(file)
    with pytest.raises(ModelFileError, match="list came"):
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

    monkeypatch.setattr(container, "_write_array", full)
    with pytest.raises(OSError, match="No space left"):
        model.save(old)
    assert old.read_bytes() == whole
    assert [p.name for p in tmp_path.iterdir()] == ["m.mercer"]


def test_a_link_keeps_its_place(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.mercer"
    link.symlink_to(tmp_path / "real" / "m.mercer")
    KernelPCA(2, kernel=RBF(0.3)).fit(X).save(link)
    assert link.is_symlink()
    assert mercer.load(tmp_path / "real" / "m.mercer").n_components_ == 2


def test_data_and_about_have_to_be_what_they_are_said_to_be(tmp_path):
    model = KernelPCA(2, kernel=RBF(0.3)).fit(X)
    with pytest.raises(InputError, match="`data` needs the training rows"):
        save(model, tmp_path / "m.mercer", data=[["a", "b"]])
    with pytest.raises(ModelFileError, match="UTF-8"):
        save(model, tmp_path / "m.mercer", about={"who": "\ud800"})
    save(model, tmp_path / "m.mercer", data={"n": 5, "file": "x.csv"}, about={"note": ("a", 1)})
    header = read_header(tmp_path / "m.mercer")
    assert header["data"] == {"n": 5, "file": "x.csv"}
    assert header["about"] == {"note": ["a", 1]}
