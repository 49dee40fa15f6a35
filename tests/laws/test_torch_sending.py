"""Rows that are sent through buffers, the next ones ahead: the same bits as rows that are copied one by one.

On the processor by a line whose copies come as late as they may; on a GPU, where there is one, by its own.
"""

import re
import threading

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'mercer[gpu]'")

import torch

from markets.engines import SOURCES
from markets.kernels import VALID
from mercer import KernelPCA
from mercer._core.errors import InputError
from mercer.approximations import RPCholesky
from mercer.data.batches import Batches
from mercer.data.sources import as_source
from mercer.engine.base import FLOAT32, FLOAT64
from mercer.engine.torch import TorchEngine, rows, sending
from mercer.engine.torch.place import Place
from mercer.engine.torch.sending import STAGING_BYTES, Ring
from mercer.kernels import RBF

N = 600
X = np.random.default_rng(0).standard_normal((N, 4)) / [1.0, 2.0, 3.0, 4.0]
V = np.random.default_rng(1).standard_normal((N, 3))
CPU = TorchEngine("torch:cpu")


class LateSlot:
    def __init__(self, n_bytes):
        self.held = torch.zeros(n_bytes, dtype=torch.uint8)
        self.staged, self.to, self.lock = self.held.numpy(), None, threading.Lock()

    def wait(self):
        with self.lock:  # a reader and the one that computes
            if self.to is not None:
                n_bytes = self.to.numel() * self.to.element_size()
                self.to.copy_(self.held[:n_bytes].view(self.to.dtype).view(self.to.shape))
                self.to = None

    def send(self, to):
        with self.lock:
            assert self.to is None
            self.to = to


class LateLine:
    """Of slots whose copies are made when they are waited for, or when their block is used."""

    def __init__(self, n_bytes):
        self.slots, self.sent = [LateSlot(n_bytes) for _ in range(2)], 0

    def empty(self, shape, dtype):
        self.sent += 1
        return torch.full(shape, torch.nan, dtype=getattr(torch, dtype.name))

    def mark(self):
        return self.sent

    def arrived(self, there, mark):
        assert 0 < mark <= self.sent
        # But by the one that computes.
        assert not threading.current_thread().name.startswith(sending.READER)
        for slot in self.slots:
            slot.wait()
        return there


@pytest.fixture
def line(monkeypatch):
    """The engine of the processor, as if it were far away, with buffers of a few rows."""
    made = LateLine(2000)
    ring = Ring(made)
    monkeypatch.setattr(sending, "LEAST_BYTES", 0)
    monkeypatch.setattr(Place, "ring", ring)
    return made


def products(kernel, data, dtype, *, sliced=False):
    loaded = CPU.load(data, kernel, dtype, width=64, sliced=sliced)
    few = CPU.load(loaded.take(np.arange(5)), kernel, dtype)
    return [
        CPU.gram_times(kernel, loaded, V),
        CPU.times(kernel, few, loaded, V),
        CPU.times(kernel, CPU.load(data, kernel, dtype), few, V[:5]),
        CPU.gram(kernel, loaded),
    ]


@pytest.mark.parametrize("sliced", [False, True], ids=["whole", "sliced"])
@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32], ids=str)
@pytest.mark.parametrize("source", sorted(SOURCES))
@pytest.mark.parametrize("name", ["rbf", "cosine"])
def test_products_are_the_same_to_the_bit(name, source, dtype, sliced, request):
    data = SOURCES[source](X.astype(dtype), request.getfixturevalue("tmp_path"))
    expected = products(VALID[name], data, dtype, sliced=sliced)
    line = request.getfixturevalue("line")
    found = products(VALID[name], data, dtype, sliced=sliced)
    assert line.sent > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


LAID = {
    "Fortran": np.asfortranarray(X),
    "every second": np.repeat(X, 2, axis=0)[::2],
    "other bytes": X.astype(">f8"),
}


@pytest.mark.parametrize("name", sorted(LAID))
def test_rows_may_lie_in_any_way(name, line):
    before = LAID[name].copy()
    found = CPU.gram_times(RBF(0.3), CPU.load(LAID[name], RBF(0.3), FLOAT64, width=64), V)
    expected = CPU.gram_times(RBF(0.3), CPU.load(X, RBF(0.3), FLOAT64, width=64), V)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(LAID[name], before)
    assert line.sent > 0


@pytest.mark.parametrize("params", [{"solver": "krylov"}, {"approximation": RPCholesky(40)}])
def test_a_fit_is_the_same_to_the_bit(params, request):
    model = KernelPCA(3, kernel=RBF(0.3), engine=CPU, random_state=0, **params)
    expected, scores = model.fit(X).eigenvalues_.copy(), model.transform(X)
    request.getfixturevalue("line")
    np.testing.assert_array_equal(model.fit(X).eigenvalues_, expected)
    np.testing.assert_array_equal(model.transform(X), scores)


@pytest.mark.parametrize("source", sorted(SOURCES))
def test_blocks_come_with_their_rows_in_order(source, line, tmp_path):
    data = SOURCES[source](X, tmp_path)
    points = CPU.load(X[:9], RBF(0.3), FLOAT64)
    start = 0
    for place, here, there in points.sent_blocks(data, 70):
        assert place == slice(start, min(start + 70, N))
        np.testing.assert_array_equal(there._given[0].numpy(), rows_of(here))
        np.testing.assert_array_equal(rows_of(here), rows_of(data[place]))
        start = place.stop
    assert start == N
    assert line.sent == -(-N // 70)


def rows_of(block):
    return block.toarray() if hasattr(block, "toarray") else block


# ── what is read ahead ──────────────────────────────────────────────────────
def is_ahead(data, height=70):
    return CPU.load(X[:9], RBF(0.3), FLOAT64)._is_read_ahead(data, height)


def test_nothing_is_pinned_or_read_ahead_on_the_processor():
    assert Place("cpu").ring is None
    assert Place("mps").ring is None
    assert not is_ahead(X)
    assert CPU.facts().staging is None


@pytest.mark.usefixtures("line")
def test_what_is_read_ahead(tmp_path, monkeypatch):
    assert all(is_ahead(SOURCES[name](X, tmp_path)) for name in SOURCES)
    # Code of the caller's stays on its thread.
    batches = Batches(lambda: iter([X]))
    assert not is_ahead(batches)
    # A block of a file is held, views of an array are not.
    monkeypatch.setattr(rows, "SLOT_BYTES", 70 * 32 - 1)
    assert is_ahead(X)
    assert not is_ahead(SOURCES["file"](X, tmp_path))
    assert not is_ahead(SOURCES["sparse"](X, tmp_path))
    # There is to be room for one more on the device.
    monkeypatch.setattr(Place, "free_bytes", 16 * 70 * 32 - 1)
    assert not is_ahead(X)


def test_a_file_that_is_cut_short_is_told_as_before(tmp_path, request):
    said = []
    for ring in (False, True):
        path = tmp_path / f"{ring}" / "x.npy"
        path.parent.mkdir()
        np.save(path, X)
        source = as_source(path)
        if ring:
            request.getfixturevalue("line")
        blocks = CPU.load(X[:9], RBF(0.3), FLOAT64).sent_blocks(source, 70)
        for _ in range(3):
            next(blocks)
        path.write_bytes(path.read_bytes()[:5000])
        with pytest.raises(InputError) as caught:
            list(blocks)
        words = str(caught.value).replace(f"{tmp_path / str(ring)}", "")
        said.append(re.sub(r"[\d.:T-]{20,}", "some time", words))
        assert not [each for each in threading.enumerate() if each.name == "mercer-reader"]
    assert said[0] == said[1]


def test_memory_that_is_short_is_told_where_the_block_is_used(line, monkeypatch):
    """So that slices, and narrower tiles, take over as they do elsewhere."""
    calls, empty = [], line.empty

    def starved(shape, dtype):
        calls.append(shape)
        if len(calls) == 3:
            raise torch.OutOfMemoryError
        return empty(shape, dtype)

    monkeypatch.setattr(line, "empty", starved)
    monkeypatch.setattr(rows, "SLOT_BYTES", 100 * 32)
    found = CPU.gram_times(RBF(0.3), CPU.load(X, RBF(0.3), FLOAT64, width=512), V)
    np.testing.assert_allclose(found, RBF(0.3)(X) @ V, atol=1e-11)
    assert len(calls) > 3


# ── on a GPU ────────────────────────────────────────────────────────────────
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32], ids=str)
@pytest.mark.parametrize("source", ["array", "file"])
def test_pinned_buffers_change_no_bit(source, dtype, tmp_path, monkeypatch):
    """Of blocks smaller and larger than the buffers, several under way at once."""
    gpu, data = TorchEngine("cuda"), np.random.default_rng(2).standard_normal((60_000, 300))
    data = SOURCES[source](data.astype(dtype), tmp_path)
    v = np.random.default_rng(3).standard_normal((60_000, 2))
    assert gpu.facts().staging(10**9) == STAGING_BYTES

    def found():
        kernel, sums = RBF(1e-3), []
        for sliced in (False, True):
            loaded = gpu.load(data, kernel, dtype, width=4096, sliced=sliced)
            sums.append(gpu.gram_times(kernel, loaded, v))
        points = gpu.load(data[:50], kernel, dtype)
        sums += [side.packed(kernel_leaf(points))[1].cpu() for side in points.sides(20)]
        sums += [
            there._given[0].double().sum(dim=0).cpu().numpy()
            for height in (10_000, 60_000)
            for _, _, there in points.sent_blocks(data, height)
        ]
        return sums

    buffered = found()
    monkeypatch.setattr(Place, "ring", None)
    for one, other in zip(buffered, found(), strict=True):
        np.testing.assert_array_equal(one, other)


def kernel_leaf(points):
    return points.program.leaves[0]
