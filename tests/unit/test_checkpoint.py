"""Checkpoints: what was kept comes back, whole or not at all, and to the fit it belongs to."""

import errno
import json
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy
from scipy import sparse

from mercer._core import atomic, container
from mercer.data.rows import RowSource, row_blocks
from mercer.errors import InputError
from mercer.model.checkpoint import PATIENCE, PAUSE, Checkpoint, digest, fingerprint

MINE = {"rows": "ab12", "n": 60, "kernel": "RBF(gamma=0.5)", "seed": 0, "weights": None}
BIT_GENERATORS = ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"]


def eager(path, mine=MINE):
    """A checkpoint that writes every state."""
    return Checkpoint(path, mine, pause=0.0, patience=0.0)


def some_state(rng):
    return {
        "basis": rng.standard_normal((6, 3)),
        "single": rng.standard_normal((2, 3)).astype(np.float32),
        "product": 3,
        "worst": 1.5e-7,
        "done": False,
        "note": "ünïcode",
        "nothing": None,
        "rng": np.random.default_rng(5).bit_generator.state,
    }


def same(found, kept):
    if isinstance(kept, np.ndarray):
        assert found.dtype == kept.dtype
        np.testing.assert_array_equal(found, kept, strict=True)
    elif isinstance(kept, dict):
        assert list(found) == list(kept)
        for name, value in kept.items():
            same(found[name], value)
    else:
        assert found == kept
        assert type(found) is type(kept)


@pytest.fixture
def saved(tmp_path, rng):
    """A small file, its bytes and its state."""
    path, state = tmp_path / "fit.ckpt", some_state(rng)
    eager(path).keep(lambda: state)
    return path, path.read_bytes(), state


# ── round trips ─────────────────────────────────────────────────────────────
def arrays():
    base = np.random.default_rng(3).standard_normal((30, 20))
    return {
        "C": base,
        "Fortran": np.asfortranarray(base),
        "columns of a larger one": base[:, 3:11],
        "every other row": base[::2],
        "backwards": base[::-1, ::-1],
        "transposed slice": base[2:9].T,
        "float32": base.astype(np.float32),
        "integers": np.arange(12).reshape(3, 4),
        "truth values": base > 0,
        "big endian": base.astype(">f8"),
        "empty": np.empty((0, 4)),
        "no dimension": np.array(2.5),
        "not finite": np.array([np.nan, np.inf, -np.inf, -0.0]),
        "read-only": np.broadcast_to(np.arange(3.0), (4, 3)),
    }


@pytest.mark.parametrize("name", arrays())
def test_an_array_comes_back_as_it_was(tmp_path, name):
    array = arrays()[name]
    eager(tmp_path / "fit.ckpt").keep(lambda: {"array": array})
    found = eager(tmp_path / "fit.ckpt").resume()["array"]
    same(found, np.array(array).astype(array.dtype.newbyteorder("<")))  # as every file has it
    assert found.flags.writeable
    assert found.flags.f_contiguous == (array.flags.f_contiguous or array.size == 0)


def test_plain_values_come_back_as_they_were(saved):
    path, _, state = saved
    same(eager(path).resume(), state)


def test_numpy_numbers_come_back_with_their_value(tmp_path):
    state = {"a": np.float64(0.1), "b": np.int64(2**60), "c": np.bool_(True), "d": float("inf")}
    eager(tmp_path / "fit.ckpt").keep(lambda: state)
    assert eager(tmp_path / "fit.ckpt").resume() == state


@pytest.mark.parametrize("name", BIT_GENERATORS)
def test_a_random_generator_goes_on_where_it_was(tmp_path, name):
    kind = getattr(np.random, name)
    rng = np.random.Generator(kind(7))
    rng.standard_normal(1001)
    eager(tmp_path / "fit.ckpt").keep(lambda: {"rng": rng.bit_generator.state})
    other = np.random.Generator(kind(8))
    other.bit_generator.state = eager(tmp_path / "fit.ckpt").resume()["rng"]
    np.testing.assert_array_equal(other.standard_normal(50), rng.standard_normal(50))


def test_what_cannot_come_back_is_not_kept(saved):
    path, content, _ = saved
    with pytest.raises(TypeError, match="set"):
        eager(path).keep(lambda: {"a": {1, 2}})
    with pytest.raises(InputError, match=r"holds arrays of numbers; got state\.a of dtype object"):
        eager(path).keep(lambda: {"a": np.array([{}, None])})
    assert path.read_bytes() == content
    assert os.listdir(path.parent) == [path.name]


def test_there_is_nothing_to_resume_at_first(tmp_path):
    assert eager(tmp_path / "fit.ckpt").resume() is None
    assert os.listdir(tmp_path) == []


def test_safetensors_reads_the_file_too(saved):
    path, _, state = saved
    found = safetensors.numpy.load_file(path)
    np.testing.assert_array_equal(found["state.basis"], state["basis"], strict=True)
    np.testing.assert_array_equal(found["state.single"], state["single"], strict=True)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "far").mkdir()
    link = tmp_path / "fit.ckpt"
    link.symlink_to(tmp_path / "far" / "real.ckpt")
    eager(link).keep(lambda: {"a": 1})
    assert link.is_symlink()
    assert (tmp_path / "far" / "real.ckpt").is_file()
    assert eager(str(link)).resume() == {"a": 1}


def test_writing_takes_no_second_copy(tmp_path):
    whole = np.ones((400_000, 24))  # 77 MB, and a slice of it
    for array in (whole[:, :20], np.asfortranarray(whole[:, :20])):
        tracemalloc.start()
        eager(tmp_path / "fit.ckpt").keep(lambda array=array: {"basis": array})
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.6 * array.nbytes


# ── damage ──────────────────────────────────────────────────────────────────
def refused(path, content, match):
    path.write_bytes(content)
    with pytest.raises(InputError, match=match) as caught:
        eager(path).resume()
    with pytest.raises(InputError, match=match):
        eager(path).keep(lambda: {"a": 1})
    assert path.read_bytes() == content
    assert "delete the file" in str(caught.value)


def test_every_byte_counts(saved, rng):
    path, content, state = saved
    checkpoint, masks = eager(path), rng.integers(1, 256, len(content))
    with path.open("r+b", buffering=0) as file:
        for at, mask in enumerate(masks.tolist()):
            os.pwrite(file.fileno(), bytes([content[at] ^ mask]), at)
            with pytest.raises(InputError, match="damaged"):
                checkpoint.resume()
            os.pwrite(file.fileno(), content[at : at + 1], at)
    same(checkpoint.resume(), state)


def test_a_file_cut_short_anywhere_is_refused(saved):
    path, content, _ = saved
    checkpoint = eager(path)
    for length in reversed(range(len(content))):
        os.truncate(path, length)
        with pytest.raises(InputError, match="damaged"):
            checkpoint.resume()


@pytest.mark.parametrize("extra", [b"\0", b"x" * 64, b"PK"], ids=["zero", "64 bytes", "PK"])
def test_bytes_before_or_behind_are_refused(saved, extra):
    path, content, _ = saved
    refused(path, content + extra, "announces")
    refused(path, extra + content, "begin|ZIP archive")
    refused(path, content + content, "announces")


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"PK", b"hello, world\n" * 30, bytes(range(256)) * 9],
    ids=["empty", "one byte", "two bytes", "text", "every byte"],
)
def test_garbage_is_refused_and_left_alone(tmp_path, content):
    refused(tmp_path / "fit.ckpt", content, r"is damaged, or is not a checkpoint|ZIP archive")


def test_an_archive_of_somebody_else_is_refused_and_left_alone(tmp_path):
    np.savez(tmp_path / "fit.npz", a=np.eye(3))
    refused(
        tmp_path / "fit.npz", (tmp_path / "fit.npz").read_bytes(), "ZIP archive: a checkpoint of"
    )


# ── another fit ─────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"kernel": "RBF(gamma=1.0)"},
            r"kernel is RBF\(gamma=0.5\) there and RBF\(gamma=1.0\) here",
        ),
        ({"rows": "cd34"}, "rows is ab12 there and cd34 here"),
        ({"weights": "ef56"}, "weights is None there and ef56 here"),
        ({"n": 61, "seed": 1}, "n is 60 there and 61 here; seed is 0 there and 1 here"),
        ({"solver": "krylov"}, "solver is None there and krylov here"),
    ],
)
def test_another_fit_is_refused_and_told_apart(saved, change, told):
    path, content, _ = saved
    with pytest.raises(InputError, match=told) as caught:
        eager(path, MINE | change).resume()
    assert str(caught.value).count(" there and ") == len(change)
    with pytest.raises(InputError, match=told):
        eager(path, MINE | change).keep(lambda: {"a": 1})
    assert path.read_bytes() == content


def test_a_file_that_another_fit_wrote_meanwhile_is_not_overwritten(tmp_path):
    path = tmp_path / "fit.ckpt"
    first, second = eager(path), eager(path, MINE | {"n": 61})
    assert first.resume() is None
    assert second.resume() is None
    second.keep(lambda: {"a": 2})
    with pytest.raises(InputError, match="belongs to another fit"):
        first.keep(lambda: {"a": 1})
    assert eager(path, MINE | {"n": 61}).resume() == {"a": 2}


def test_two_runs_of_one_fit_may_share_a_file(tmp_path):
    path = tmp_path / "fit.ckpt"
    first, second = eager(path), eager(path)
    for step in range(3):
        first.keep(lambda step=step: {"a": step})
        second.keep(lambda step=step: {"a": step})
    assert eager(path).resume() == {"a": 2}


def test_a_newer_format_is_refused(saved, monkeypatch):
    path, _, state = saved
    monkeypatch.setattr("mercer.model.checkpoint.FORMAT", 4)
    newer = path.with_name("newer.ckpt")
    eager(newer).keep(lambda: state)
    monkeypatch.undo()
    content = newer.read_bytes()
    refused(newer, content, "has format 4, of mercer .*which reads format 3")


def test_the_header_says_who_wrote_it(saved):
    import mercer

    with safetensors.safe_open(saved[0], "numpy") as file:
        told = {name: file.metadata()[name] for name in ("mercer", "fingerprint")}
    assert json.loads(told["mercer"]) == mercer.__version__
    assert json.loads(told["fingerprint"]) == MINE


# ── when it cannot be written ───────────────────────────────────────────────
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("where", ["_written", "fsync", "replace"])
def test_a_disk_that_fails_is_told_and_the_old_file_survives(saved, monkeypatch, code, where):
    path, content, _ = saved

    def fail(*_args, **_kwargs):
        raise OSError(code, os.strerror(code))

    owner = container if where == "_written" else atomic.os
    monkeypatch.setattr(owner, where, fail)
    with pytest.raises(InputError, match=os.strerror(code)):
        eager(path).keep(lambda: {"a": np.ones(10)})
    monkeypatch.undo()
    assert path.read_bytes() == content
    assert os.listdir(path.parent) == [path.name]


def test_a_disk_that_is_really_full(tmp_path):
    # The system itself refuses to let the file grow past a limit.
    script = """
import resource, sys, numpy as np
from mercer.errors import InputError
from mercer.model.checkpoint import Checkpoint
Checkpoint(sys.argv[1], {}).keep(lambda: {"a": np.ones(1000)})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    Checkpoint(sys.argv[1], {}).keep(lambda: {"a": np.ones(1_000_000)})
except InputError as error:
    print(error)
"""
    path = tmp_path / "fit.ckpt"
    found = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert "could not be written: File too large" in found.stdout
    assert os.listdir(tmp_path) == [path.name]
    np.testing.assert_array_equal(Checkpoint(path, {}).resume()["a"], np.ones(1000))


def test_ctrl_c_while_writing_leaves_the_old_file(saved, monkeypatch):
    path, content, _ = saved

    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(container, "_written", interrupt)
    with pytest.raises(KeyboardInterrupt):
        eager(path).keep(lambda: {"a": np.ones(10)})
    assert path.read_bytes() == content
    assert os.listdir(path.parent) == [path.name]


def test_a_folder_that_is_not_there_is_known_at_the_start(tmp_path):
    with pytest.raises(InputError, match=r"needs the folder .*nowhere, which does not exist"):
        eager(tmp_path / "nowhere" / "fit.ckpt").resume()
    with pytest.raises(InputError, match="is a folder"):
        eager(tmp_path).resume()


def test_a_folder_that_may_not_be_written_to_is_known_at_the_start(tmp_path, monkeypatch):
    def refuse(*_args, **_kwargs):  # as the system does; whoever runs as root can't be refused
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("pathlib.Path.touch", refuse)
    with pytest.raises(InputError, match=r"could not be written: Permission denied.*permission"):
        eager(tmp_path / "fit.ckpt").resume()


@pytest.mark.parametrize("path", [3, True, 1.5, b"fit.ckpt"])
def test_a_path_is_a_path(path):
    with pytest.raises(InputError, match="checkpoint must be None or the path of a file"):
        Checkpoint(path, MINE)


# ── kills ───────────────────────────────────────────────────────────────────
def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path):
    script = """
import itertools, os, signal, sys, time
import numpy as np
from mercer.model.checkpoint import Checkpoint

path, rng = sys.argv[1], np.random.default_rng(11)
eager = lambda: Checkpoint(path, {}, pause=0.0, patience=0.0)
last = 0
for _ in range(12):
    child = os.fork()
    if child == 0:
        checkpoint = eager()
        for number in itertools.count(last + 1):
            checkpoint.keep(lambda: {"number": number, "array": np.full(200_000, float(number))})
    while not os.path.exists(path) or eager().resume()["number"] == last:
        time.sleep(0.001)
    time.sleep(rng.uniform(0.0, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    state = eager().resume()
    assert np.all(state["array"] == state["number"]), "torn"
    assert state["number"] > last, "gone back"
    last = state["number"]
print(last)
"""
    path = tmp_path / "fit.ckpt"
    found = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) >= 12
    for left in tmp_path.glob("*.part"):
        os.utime(left, (0, 0))  # long ago
    assert eager(path, {}).resume()["number"] == int(found.stdout)
    assert os.listdir(tmp_path) == [path.name]  # what the killed left behind is gone


def test_only_what_no_living_writer_writes_is_swept_away(tmp_path):
    path = tmp_path / "fit.ckpt"
    dead, fresh, other = (
        tmp_path / f"{name}.part" for name in ("fit.ckpt.1-dead", "fit.ckpt.2-new", "fit.ckpt2.3-x")
    )
    for left in (dead, fresh, other):
        left.write_bytes(b"half")
    with atomic.written_whole(path) as file:
        (alive,) = set(tmp_path.iterdir()) - {dead, fresh, other}
        for old in (dead, other, alive):
            os.utime(old, (0, 0))
        eager(path).keep(lambda: {"a": 1})
        assert set(tmp_path.iterdir()) == {path, fresh, other, alive}
        file.write(b"whole")
    assert path.read_bytes() == b"whole"


# ── when to write ───────────────────────────────────────────────────────────
class Clock:
    """Goes on by hand; writing takes `cost` seconds."""

    def __init__(self, cost=0.0):
        self.now, self.cost, self.n_states = 0.0, cost, 0

    def __call__(self):
        return self.now

    def state(self):
        self.n_states += 1
        self.now += self.cost
        return {"at": self.now}


@pytest.mark.parametrize("cost", [0.01, 2.0])
def test_states_are_written_now_and_then_and_the_first_at_once(tmp_path, cost):
    clock = Clock(cost)
    checkpoint = Checkpoint(tmp_path / "fit.ckpt", MINE, clock=clock)
    written = []
    while clock.now < 500.0:
        before = clock.n_states
        checkpoint.keep(clock.state)
        if clock.n_states > before:
            written.append(clock.now)
        clock.now += 0.5
    pause = max(PAUSE, PATIENCE * cost)
    assert written[0] == cost
    gaps = np.diff(written)
    assert np.all(gaps >= pause)  # saving takes its share and no more
    assert np.all(gaps <= pause + cost + 0.5)  # what a kill costs
    assert Checkpoint(tmp_path / "fit.ckpt", MINE).resume() == {"at": written[-1]}


def test_a_state_just_resumed_from_is_not_written_again(saved):
    path, content, _ = saved
    clock = Clock()
    checkpoint = Checkpoint(path, MINE, clock=clock)
    checkpoint.resume()
    checkpoint.keep(clock.state)
    assert path.read_bytes() == content
    clock.now = PAUSE
    checkpoint.keep(clock.state)
    assert path.read_bytes() != content


def test_a_checkpoint_never_asks_to_stop(tmp_path):
    assert eager(tmp_path / "fit.ckpt").step(1, 2, "products", 0.1) is False


# ── fingerprints ────────────────────────────────────────────────────────────
class Batches(RowSource):
    """The rows of an array, in blocks of three at most."""

    def __init__(self, x):
        self.x, self.shape, self.dtype = x, x.shape, x.dtype

    def __getitem__(self, key):
        return self.x[key]

    def blocks(self, height):
        yield from row_blocks(self.x, min(height, 3))

    def check_unchanged(self):
        pass


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_same_rows_have_the_same_digest_wherever_they_lie(tmp_path, rng, dtype):
    x = rng.standard_normal((50, 7)).astype(dtype)
    np.save(tmp_path / "x.npy", x)
    wide = np.zeros((50, 9), dtype=dtype)
    wide[:, 1:8] = x
    memmap = np.load(tmp_path / "x.npy", mmap_mode="r")
    others = [x.copy(), np.asfortranarray(x), wide[:, 1:8], memmap, Batches(x), Batches(memmap)]
    assert {digest(other) for other in others} == {digest(x)}


def test_the_same_sparse_rows_have_the_same_digest(rng):
    x = sparse.random_array((50, 7), density=0.3, rng=rng, format="csr")
    long = x.copy()
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    assert {digest(long), digest(Batches(x)), digest(x.copy())} == {digest(x)}


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, Batches])
def test_any_change_of_the_rows_changes_the_digest(rng, form):
    x = rng.standard_normal((9, 4))
    found = {digest(form(x))}
    for i, j in np.ndindex(x.shape):
        other = x.copy()
        other[i, j] = np.nextafter(other[i, j], np.inf)
        found.add(digest(form(other)))
    swapped = x.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    found |= {digest(form(swapped)), digest(form(x[:8])), digest(form(x[:, :3]))}
    found |= {digest(form(x.reshape(4, 9))), digest(form(x.astype(np.float32)))}
    assert len(found) == 1 + x.size + 5


def test_zeros_between_sparse_entries_count():
    x = np.zeros((4, 4))
    x[1, 2] = 1.0
    found = {digest(sparse.csr_array(np.roll(np.roll(x, i, 0), j, 1))) for i, j in np.ndindex(4, 4)}
    assert len(found) == 16


def test_blocks_do_not_show_in_the_digest(rng, monkeypatch):
    x = rng.standard_normal((100, 3))
    forms = [x, sparse.csr_array(x)]
    whole = [digest(form) for form in forms]
    monkeypatch.setattr("mercer.model.checkpoint.BLOCK_BYTES", 50)
    assert [digest(form) for form in forms] == whole


def test_a_fingerprint_names_its_ingredients(rng):
    x, weights = rng.standard_normal((6, 2)), np.arange(6.0)
    make = np.random.default_rng
    found = fingerprint(x, weights, kernel=[1, 2], n_components=3, rng=make(0))
    assert found == fingerprint(
        x.copy(), weights.copy(), kernel=[1, 2], n_components=3, rng=make(0)
    )
    assert (found["n"], found["d"], found["dtype"], found["kernel"]) == (6, 2, "float64", "[1, 2]")
    assert json.loads(json.dumps(found)) == found
    others = {
        "weights": fingerprint(x, weights + 1, kernel=[1, 2], n_components=3, rng=make(0)),
        "rows": fingerprint(x + 1, weights, kernel=[1, 2], n_components=3, rng=make(0)),
        "rng": fingerprint(x, weights, kernel=[1, 2], n_components=3, rng=make(1)),
        "n_components": fingerprint(x, weights, kernel=[1, 2], n_components=2, rng=make(0)),
    }
    for name, other in others.items():
        assert {key for key in found if found[key] != other[key]} == {name}
    assert fingerprint(x, None)["weights"] is None


@pytest.mark.parametrize("name", BIT_GENERATORS)
def test_the_state_of_a_random_generator_is_part_of_a_fingerprint(name, cloud):
    rng = np.random.Generator(getattr(np.random, name)(7))
    first = fingerprint(cloud, None, rng=rng)["rng"]
    assert fingerprint(cloud, None, rng=rng)["rng"] == first
    rng.standard_normal(100)
    assert fingerprint(cloud, None, rng=rng)["rng"] != first
