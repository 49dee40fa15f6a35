"""Containers: safetensors' layout with a seal on every byte, and the layout of format 1 before it."""

import hashlib
import json
import os
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import mercer
from mercer import KernelPCA
from mercer._core import container
from mercer._core.container import DTYPES, NO_SEAL, START, ContainerError, Contents
from mercer.approximations import RPCholesky
from mercer.errors import ModelFileError
from mercer.kernels import RBF
from mercer.persistence import format_1
from mercer.persistence.model_file import load, opened, read_header

X = np.random.default_rng(1).standard_normal((12, 2))
OLD = Path(__file__).parents[1] / "data" / "model-format-1.mercer"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a small model file, with arrays in both orders."""
    path = tmp_path_factory.mktemp("whole") / "m.mercer"
    model = KernelPCA(2, kernel=RBF(0.3), approximation=RPCholesky(rank=5), random_state=0).fit(X)
    model.save(path)
    return path.read_bytes()


@pytest.fixture(params=["format 1", "format 2"])
def honest(request, whole):
    return whole if request.param == "format 2" else OLD.read_bytes()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.mercer"


def read(path, **how):
    with path.open("rb") as file:
        return container.read(file, **how)


# ── the layout is safetensors' ──────────────────────────────────────────────
def some_arrays():
    rng = np.random.default_rng(5)
    found = {name: rng.integers(0, 2, (3, 5)).astype(dtype) for name, dtype in DTYPES.items()}
    x = rng.standard_normal((4, 7))
    found |= {"C": x, "Fortran": np.asfortranarray(x), "3-D": np.asfortranarray(x.reshape(2, 2, 7))}
    found |= {"empty": np.empty((0, 3)), "number": np.array(2.5), "one byte": np.array([True])}
    return found | {'β, "quoted"': x[:1], "rows of a larger one": x[:, 1:3]}


def test_safetensors_sees_the_same_arrays(path):
    arrays = some_arrays()
    container.write(path, {"note": "ünïcode", "n": [1, 2]}, arrays)
    found, contents = safetensors.numpy.load_file(path), read(path)
    assert set(found) == set(contents.arrays) == set(arrays)
    for name, array in arrays.items():
        entry = contents.header["arrays"][name]
        stored = array.T if entry["order"] == "F" else array
        np.testing.assert_array_equal(found[name], stored, strict=True)
        np.testing.assert_array_equal(contents.arrays[name], array, strict=True)
    with safetensors.safe_open(path, "numpy") as file:
        told = file.metadata()
    assert (json.loads(told["note"]), json.loads(told["n"])) == ("ünïcode", [1, 2])
    assert told["mercer_format"] == "2"


@pytest.mark.parametrize("mmap", [False, True])
def test_arrays_keep_their_order_and_are_aligned(path, mmap):
    arrays = some_arrays()
    container.write(path, {}, arrays)
    for name, array in read(path, mmap=mmap).arrays.items():
        assert array.flags.aligned, name
        assert array.flags.f_contiguous == (arrays[name].flags.f_contiguous or array.size < 2), name


def test_a_model_opens_in_safetensors_with_the_arrays_that_it_computes_with(tmp_path):
    model = KernelPCA(2, kernel=RBF(0.3)).fit(X)
    model.save(tmp_path / "m.mercer")
    found = safetensors.numpy.load_file(tmp_path / "m.mercer")
    points, coef, offset = (
        found[f"KernelPCA.fit_.projection.{name}"] for name in ("sections.points", "coef", "offset")
    )
    entries = read_header(tmp_path / "m.mercer")["arrays"]
    if entries["KernelPCA.fit_.projection.coef"]["order"] == "F":
        coef = coef.T
    np.testing.assert_array_equal(points, X)
    np.testing.assert_array_equal(coef, model.fit_.projection.coef)
    np.testing.assert_allclose(RBF(0.3)(X, points) @ coef - offset, model.transform(X), atol=1e-12)


def test_a_file_without_arrays_is_whole_too(path):
    container.write(path, {"a": 1}, {})
    assert read(path, mmap=True) == Contents(2, {"a": 1, "arrays": {}}, {})


# ── every byte counts ───────────────────────────────────────────────────────
def test_one_flipped_bit_is_found_wherever_it_is(path, honest):
    rng = np.random.default_rng(0)
    places = [*range(200), *rng.integers(64, len(honest), 400), len(honest) - 1]
    for at in {*map(int, places)}:
        spoilt = bytearray(honest)
        spoilt[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(spoilt)
        with pytest.raises(ModelFileError):
            read_header(path)


def test_a_cut_or_lengthened_file_is_refused(path, honest):
    for length in [0, 1, 7, 8, 40, 63, 64, 65, 120, 500, len(honest) // 2, len(honest) - 1]:
        path.write_bytes(honest[:length])
        with pytest.raises(ModelFileError, match=r"damaged|not a model file"):
            load(path)
    path.write_bytes(honest + b"\0")
    with pytest.raises(ModelFileError, match=r"announces .* bytes, and the file has"):
        load(path)


@pytest.mark.parametrize("mmap", [False, True])
def test_arrays_are_checked_however_they_are_read(path, honest, mmap):
    path.write_bytes(honest[:-1] + bytes([honest[-1] ^ 1]))
    with pytest.raises(ModelFileError, match="checksum of the array"):
        load(path, mmap=mmap)


# ── a file that changes while it is read ────────────────────────────────────
def test_a_file_is_opened_and_read_once(path, whole, monkeypatch):
    """Model and header are of one reading: a replaced file can't give the one and not the other."""
    path.write_bytes(whole)
    count, real = [], Path.open
    monkeypatch.setattr(Path, "open", lambda *args, **kw: (count.append(1), real(*args, **kw))[1])
    model, header = opened(path)
    assert len(count) == 1
    assert (model.n_components, header["config"]["n_components"]) == (2, 2)


@pytest.mark.parametrize("how", ["replaced", "cut", "changed"])
def test_a_file_that_changes_while_it_is_read(path, whole, monkeypatch, how):
    path.write_bytes(whole)
    expected, real = load(path).transform(X), container._described

    def meanwhile(*args):
        if how == "replaced":
            path.with_suffix(".new").write_bytes(b"another")
            os.replace(path.with_suffix(".new"), path)
        elif how == "cut":
            os.truncate(path, len(whole) - 8)
        else:
            with path.open("r+b") as file:
                file.seek(-8, os.SEEK_END)
                file.write(b"another!")
        return real(*args)

    monkeypatch.setattr(container, "_described", meanwhile)
    if how == "replaced":
        assert np.array_equal(load(path).transform(X), expected)
    else:
        with pytest.raises(ModelFileError, match="damaged"):
            load(path)


def test_a_reader_beside_a_writer_sees_one_model_or_the_other(path):
    models = [KernelPCA(2, kernel=RBF(gamma)).fit(X) for gamma in (0.3, 0.7)]
    models[0].save(path)
    done = threading.Event()

    def write():
        for turn in range(40):
            models[turn % 2].save(path)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        model, header = opened(path)
        assert header["kernel"] == f"RBF(gamma={model.kernel_.gamma})"
    writer.join()


# ── headers with right checksums ────────────────────────────────────────────
def sealed(tree, arrays=b"", version=2, length=None):
    """A file of format 2 with this JSON after the seal, whatever it is, and a right checksum."""
    text = (START % (version, NO_SEAL)).encode() + tree
    start = (len(text) if length is None else length).to_bytes(8, "little")
    seal = hashlib.sha256(start + text).hexdigest().encode()
    return start + text.replace(NO_SEAL.encode(), seal, 1) + arrays


def sealed_1(header, arrays=b"", version=1, length=None):
    """The same of format 1."""
    start = struct.pack("<8sIQ", format_1.MAGIC, version, len(header) if length is None else length)
    return start + hashlib.sha256(start + header).digest() + bytes(12) + header + arrays


def of_arrays(entries, told):
    """A header of these arrays, as JSON after the seal."""
    text = json.dumps(json.dumps(told))
    rest = "".join(f",{json.dumps(name)}:{json.dumps(entry)}" for name, entry in entries)
    return f',"arrays":{text}}}{rest}}}'.encode()


def entry(begin=0, end=16, shape=(2,), dtype="F64", **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end], **more}


SEAL = {"sha256": hashlib.sha256(bytes(16)).hexdigest()}


def test_what_is_sealed_here_is_read(path):
    path.write_bytes(sealed(of_arrays([("a", entry())], {"a": SEAL}), bytes(16)))
    assert np.array_equal(read(path).arrays["a"], np.zeros(2))


def test_a_newer_format_is_refused_with_what_to_upgrade(path):
    path.write_bytes(sealed(b"}}", version=3))
    with pytest.raises(ModelFileError, match=r"format 3, .* up to 2.*pip install --upgrade mercer"):
        load(path)


WRONG = {
    "overlapping": [("a", entry()), ("b", entry(8, 24))],
    "the same place twice": [("a", entry()), ("b", entry())],
    "a gap": [("a", entry()), ("b", entry(24, 40))],
    "outside": [("a", entry(0, 2**40, (2**37,)))],
    "far outside": [("a", entry(2**62, 2**62 + 16))],
    "before the beginning": [("a", entry(-16, 0))],
    "backwards": [("a", entry(16, 0))],
    "no end": [("a", entry() | {"data_offsets": [0]})],
    "offsets that are numbers": [("a", entry(0.0, 16.0))],
    "offsets that are truth values": [("a", entry(False, True, (1,), "U8"))],
    "offsets as text": [("a", entry() | {"data_offsets": "ab"})],
    "one name twice": [("a", entry()), ("a", entry())],
    "metadata twice": [("a", entry()), ("__metadata__", {})],
    "unknown dtype": [("a", entry(dtype="BF16"))],
    "a dtype of NumPy's": [("a", entry(dtype="<f8"))],
    "a dtype that is a list": [("a", entry(dtype=["F64"]))],
    "a shape that does not fit": [("a", entry(shape=(3,)))],
    "a negative shape": [("a", entry(shape=(-2,)))],
    "a shape whose product fits": [("a", entry(shape=(-1, -2)))],
    "a shape of numbers": [("a", entry(shape=(2.0,)))],
    "a shape of truth values": [("a", entry(shape=(True, 2)))],
    "five dimensions": [("a", entry(shape=(1, 1, 1, 1, 2)))],
    "more than any memory": [("a", entry(0, 16, (2**62, 2)))],
    "not a shape": [("a", entry() | {"shape": 2})],
    "no shape": [("a", {"dtype": "F64", "data_offsets": [0, 16]})],
    "a word too many": [("a", entry(more=1))],
    "not an entry": [("a", 3)],
    "an array without a seal": [("a", entry()), ("c", entry(16, 16, (0,)))],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_place_of_an_array_is_refused(path, name):
    told = {"a": SEAL} | ({"b": SEAL} if any(n == "b" for n, _ in WRONG[name]) else {})
    path.write_bytes(sealed(of_arrays(WRONG[name], told), bytes(24)))
    with pytest.raises(ContainerError):
        read(path)
    with pytest.raises(ModelFileError, match=r"refused|damaged"):
        load(path)


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"a": {}},
        {"a": 3},
        [],
        None,
        {"a": {"sha256": 5}},
        {"a": SEAL, "b": SEAL},
        {"a": SEAL | {"order": "K"}},
    ],
    ids=str,
)
def test_a_wrong_seal_is_refused(path, told):
    path.write_bytes(sealed(of_arrays([("a", entry())], told), bytes(16)))
    with pytest.raises(ContainerError):
        read(path)


JSON = [
    b"",
    b"[]",
    b"null",
    b'{"a": NaN}',
    b'{"a": 1, "a": 1}',
    b"\xff\xfe",
    b'{"a": "\\ud800"}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"n": ' + b"9" * 5000 + b"}",
    b"{}",
    b'{"arrays": {}}',
    b'{"arrays": []}',
    b'{"format": 1, "arrays": {}}',
    b'{"format": 1, "arrays": []}',
    b'{"format": 1, "arrays": [3]}',
]


@pytest.mark.parametrize("text", JSON, ids=lambda text: text[:20].decode("latin1"))
def test_a_header_that_is_not_one_is_refused(path, text):
    quoted = json.dumps(text.decode("latin1")).encode()
    for tree in (text, b"," + text, b"}," + text, b',"model":' + text + b"}}", b"}}" + text):
        path.write_bytes(sealed(tree))
        with pytest.raises(ModelFileError):
            load(path)
    for name in (b"arrays", b"model", b"kind"):
        path.write_bytes(sealed(b',"' + name + b'":' + quoted + b"}}"))
        with pytest.raises(ModelFileError):
            load(path)
    path.write_bytes(sealed_1(text))
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.parametrize("length", [2**60, 2**63, 2**64 - 1, 2**30, 10**6])
def test_a_header_of_an_exabyte_is_refused_before_it_is_read(path, whole, length):
    path.write_bytes(sealed(b"}}", whole, length=length))
    with pytest.raises(ModelFileError, match=f"announces a header of {length} bytes"):
        load(path)
    path.write_bytes(sealed_1(b"{}", whole, length=length))
    with pytest.raises(ModelFileError, match=f"announces a header of {length} bytes"):
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
        {"shape": [10**30], "bytes": 8 * 10**30},
        {"shape": [2**30, 2**30], "bytes": 2**63},
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
def test_a_wrong_place_in_format_1_is_refused(path, wrong):
    header = {"format": 1, "arrays": [{**ENTRY, **wrong}]}
    path.write_bytes(sealed_1(json.dumps(header).encode().ljust(256 - 64), bytes(16)))
    with pytest.raises(ModelFileError, match=r"refused|announces"):
        load(path)


def test_bytes_between_the_arrays_of_format_1_are_zero(path):
    text = json.dumps({"format": 1, "arrays": [ENTRY]}).encode()
    path.write_bytes(sealed_1(text, bytes(256 - 64 - len(text) - 1) + b"x" + bytes(16)))
    with pytest.raises(ModelFileError, match="are not zero"):
        load(path)


# ── writers ─────────────────────────────────────────────────────────────────
def test_a_killed_writer_leaves_the_old_file(path, whole):
    path.write_bytes(whole)
    child = os.fork()
    if child == 0:
        container._written = lambda *_: os.kill(os.getpid(), 9)
        mercer.load(path).save(path)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == 9
    assert path.read_bytes() == whole


def test_a_source_that_gives_other_rows_than_it_says_is_not_written(path):
    class Short:
        dtype, shape = np.dtype(float), (5, 2)

        def blocks(self, _height):
            yield slice(0, 3), np.zeros((3, 2))

    path.write_bytes(b"old")
    with pytest.raises(ContainerError, match="must give 80 bytes; got 48"):
        container.write(path, {}, {"a": Short()})
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == [path.name]
