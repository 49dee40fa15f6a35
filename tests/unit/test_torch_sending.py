"""Buffers that take turns and blocks that are read ahead, without torch: by a line whose copies come late."""

import threading
import time

import numpy as np
import pytest
from scipy import sparse

from mercer.engine.torch import sending
from mercer.engine.torch.sending import (
    LEAST_BYTES,
    STAGING_BYTES,
    Ring,
    ahead,
    is_staged,
    staging_bytes,
)


class LateSlot:
    """Copies as late as a device may: when it is waited for."""

    def __init__(self, n_bytes, log):
        self.staged, self.log = np.zeros(n_bytes, dtype=np.uint8), log
        self.to, self.lock = None, threading.Lock()  # a reader and the one that computes

    def wait(self):
        with self.lock:
            if self.to is not None:
                to, self.to = self.to, None
                to[...] = self.staged[: to.nbytes].view(to.dtype).reshape(to.shape)

    def send(self, to):
        with self.lock:
            assert self.to is None, "filled before it was read"
            self.to = to
            self.log.append(id(self))


class LateLine:
    def __init__(self, n_bytes=1000, n_slots=2):
        self.log = []
        self.slots = [LateSlot(n_bytes, self.log) for _ in range(n_slots)]

    def empty(self, shape, dtype):
        return np.full(shape, 77, dtype=dtype)

    def mark(self):
        return len(self.log)

    def arrived(self, there, mark):
        assert mark <= len(self.log)
        for slot in self.slots:
            slot.wait()
        return there


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(sending, "LEAST_BYTES", 0)


# ── buffers ─────────────────────────────────────────────────────────────────
ROWS = np.random.default_rng(0).standard_normal((100, 7))
ARRAYS = {
    "C order": ROWS,
    "Fortran": np.asfortranarray(ROWS),
    "every third": ROWS[::3],
    "backwards": ROWS[::-1],
    "some columns": ROWS[:, 1:6:2],
    "float32": ROWS.astype("f4"),
    "other bytes": ROWS.astype(">f8"),
    "other bytes, float32": ROWS.astype(">f4"),
    "one row": ROWS[:1],
    "vector": ROWS[:, 0],
    "no row": ROWS[:0],
}


@pytest.mark.parametrize("name", sorted(ARRAYS))
@pytest.mark.parametrize("n_bytes", [56, 64, 999, 10**6])
def test_a_copy_is_the_same_to_the_bit(name, n_bytes):
    """In one slab, or a row at a time; of this processor's bytes, in the order of C."""
    array = ARRAYS[name]
    before, dtype = array.copy(), array.dtype.newbyteorder("=")
    found = Ring(LateLine(n_bytes)).begin(array, dtype)()
    assert found.dtype == dtype
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, array)
    np.testing.assert_array_equal(array, before)


def test_a_copy_in_another_precision_is_rounded_as_numpy_rounds():
    found = Ring(LateLine()).begin(ROWS, np.dtype("f4"))()
    np.testing.assert_array_equal(found, ROWS.astype("f4"))


def test_slots_take_turns_and_are_filled_only_when_they_were_read():
    line = LateLine(n_bytes=560)  # ten rows of a hundred
    ring = Ring(line)
    claims = [ring.begin(ROWS + i, ROWS.dtype) for i in range(3)]  # none asked for yet
    first, second = (id(slot) for slot in line.slots)
    assert line.log == [first, second] * 15
    for i, arrived in enumerate(claims):
        np.testing.assert_array_equal(arrived(), ROWS + i)


def test_large_slabs_are_copied_on_threads(monkeypatch):
    monkeypatch.setattr(sending, "ALONE_BYTES", 100)
    monkeypatch.setattr(sending, "n_blas_threads", lambda: 4)
    found = Ring(LateLine(3000)).begin(ROWS[::-1], ROWS.dtype)()
    np.testing.assert_array_equal(found, ROWS[::-1])


def test_many_threads_share_the_slots():
    ring, found = Ring(LateLine(560)), {}

    def send(i):
        found[i] = ring.begin(ROWS + i, ROWS.dtype)

    threads = [threading.Thread(target=send, args=(i,)) for i in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for i in range(6):
        np.testing.assert_array_equal(found[i](), ROWS + i)


def test_what_goes_through_buffers(monkeypatch):
    monkeypatch.setattr(sending, "LEAST_BYTES", LEAST_BYTES)
    ring, dtype = Ring(LateLine(2**22)), np.dtype("f8")
    assert ring.takes((3, 2**19), dtype)
    assert not ring.takes((3, 2**19 + 1), dtype)  # no buffer has a row
    assert not ring.takes((3, 0), dtype)
    assert is_staged(LEAST_BYTES)
    assert not is_staged(LEAST_BYTES - 1)
    assert staging_bytes(LEAST_BYTES - 1) == 0
    assert staging_bytes(LEAST_BYTES) == STAGING_BYTES == 3 * 2**26


# ── the next block meanwhile ────────────────────────────────────────────────
def readers():
    return [each for each in threading.enumerate() if each.name.startswith(sending.READER)]


def test_blocks_come_in_their_order_one_ahead():
    log, lock = [], threading.Lock()

    def begin(i):
        with lock:
            log.append(("begun", i))
        return i

    for i in ahead(iter(range(6)), begin):
        until = time.monotonic() + 300.0
        while ("begun", i + 1) not in log and i < 5 and time.monotonic() < until:
            time.sleep(1e-3)  # it is begun without being asked for
        time.sleep(0.01)
        with lock:  # and the one after it is not
            assert [each for kind, each in log if kind == "begun"] == [*range(min(i + 2, 6))]
            log.append(("had", i))
    assert [i for kind, i in log if kind == "had"] == [*range(6)]
    assert not readers()


def test_reading_and_computing_overlap():
    """The block that is read on the thread waits until the caller is at work on the one before."""
    at_work, read = threading.Event(), threading.Event()

    def blocks():
        yield 0
        assert at_work.wait(300.0)
        read.set()
        yield 1

    for i in ahead(blocks(), int):
        if i == 0:
            at_work.set()
            assert read.wait(300.0)


class TruncatedError(Exception):
    pass


@pytest.mark.parametrize("where", ["read", "begin"])
@pytest.mark.parametrize("last", [0, 1, 3])
def test_an_error_comes_after_the_blocks_before_it(where, last):
    def blocks():
        for i in range(9):
            if i == last and where == "read":
                raise TruncatedError(i)
            yield i

    def begin(i):
        if i == last:
            raise TruncatedError(i)
        return i

    stream = ahead(blocks(), begin)
    assert [next(stream) for _ in range(last)] == [*range(last)]
    with pytest.raises(TruncatedError, match=str(last)):
        next(stream)
    assert not readers()


def test_no_blocks():
    assert list(ahead(iter(()), int)) == []
    assert not readers()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_a_caller_that_stops_leaves_no_thread_and_no_open_file(error):
    closed = []

    def blocks():
        try:
            yield from range(9)
        finally:
            closed.append(True)

    def work():
        for i in ahead(blocks(), int):
            if i == 2:
                raise error

    with pytest.raises(error) as caught:
        work()
    assert caught.value.__traceback__ is not None  # it is still held
    assert not readers()
    assert closed == [True]


def test_an_interrupt_while_a_block_is_waited_for(monkeypatch):
    """As Ctrl-C comes: out of the wait."""
    slow = threading.Event()

    def blocks():
        yield 0
        slow.wait(0.2)
        yield 1

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    stream = ahead(blocks(), int)
    assert next(stream) == 0
    monkeypatch.setattr(sending, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    assert not readers()


def test_the_context_of_the_caller_holds_on_the_thread():
    with np.errstate(over="raise"):
        stream = ahead(iter([1e308]), lambda number: np.float64(number) * 10.0)
        with pytest.raises(FloatingPointError):
            next(stream)


def test_sparse_blocks_pass_as_they_are():
    rows = sparse.csr_array(np.where(ROWS > 0.5, ROWS, 0.0))
    ring = Ring(LateLine())
    blocks = (rows[i : i + 30] for i in range(0, 100, 30))
    found = [arrived() for arrived in ahead(blocks, lambda b: ring.begin(b.toarray(), b.dtype))]
    np.testing.assert_array_equal(np.concatenate(found), rows.toarray())
