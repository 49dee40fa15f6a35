"""A pass over the rows: blocks in their order, on any number of threads, wherever the rows are."""

import pickle
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from mercer._core.observer import Observer
from mercer.approximations.base import LowRank
from mercer.approximations.landmarks import checked_lengths
from mercer.data.rows import RowSource, row_blocks
from mercer.engine.equal_rows import are_alike, distinct, unlike
from mercer.engine.moments import (
    ColumnMoments,
    Moments,
    Scale,
    less_row,
    weighted_mean,
    weighted_median,
)
from mercer.engine.passes import fold, map_rows
from mercer.engine.steps import ExplainSections, SquareSections
from mercer.kernels import RBF
from mercer.model import linear, lowrank_pass
from mercer.operators.sections import KernelSections


class Batches(RowSource):
    """Rows that can only be read in order, in batches of seven."""

    random_access = False

    def __init__(self, x):
        self.x, self.shape, self.dtype = x, x.shape, x.dtype

    def __getitem__(self, key):
        pytest.fail(f"rows {key} were asked for out of order")

    def blocks(self, height):
        for i, batch in row_blocks(self.x, 7):
            for j, block in row_blocks(batch, height):
                yield slice(i.start + j.start, i.start + j.stop), block


STORED = {"array": np.asarray, "csr": sparse.csr_array, "batches": Batches}
N = 61


@pytest.fixture(params=sorted(STORED))
def stored(request, rng):
    x = rng.standard_normal((N, 3)) * (rng.random((N, 3)) < 0.7) + 0.0
    return x, STORED[request.param](x)


def whole(rows):
    return rows.toarray() if sparse.issparse(rows) else rows


@dataclass(frozen=True)
class Read:
    """Rows as they were read: to merge is to stand behind, which tells every order from the others."""

    places: tuple[slice, ...]
    rows: tuple[Any, ...]

    def merged(self, other):
        return Read(self.places + other.places, self.rows + other.rows)


def read(rows, place):
    return Read((place,), (whole(rows),))


class Looker(Observer):
    def __init__(self):
        self.done = []

    def step(self, done, expected, what, residual):
        self.done.append((done, expected, what, residual))
        return True  # a pass is not stopped half way


@pytest.mark.parametrize("run", [1, 4])
@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
@pytest.mark.parametrize("height", [1, 5, 1000])
def test_a_fold_merges_all_rows_in_their_order(stored, height, n_threads, run):
    x, rows = stored
    looker = Looker()
    seen = fold(rows, read, height=height, n_threads=n_threads, run=run, observer=looker)
    np.testing.assert_array_equal(np.concatenate(seen.rows), x)
    assert [i.start for i in seen.places] == [0, *(i.stop for i in seen.places[:-1])]
    assert max(len(part) for part in seen.rows) <= height
    assert looker.done[-1] == (N, N, "rows", None)


@pytest.mark.parametrize("n_threads", [1, 2, 8])
@pytest.mark.parametrize("height", [1, 5, 1000])
def test_a_map_puts_every_row_in_its_place(stored, height, n_threads):
    x, rows = stored
    beside = np.arange(float(N))

    def step(block, own, none):
        assert none is None
        assert block.dtype == np.float32
        assert len(own) == block.shape[0] <= height
        return np.column_stack([whole(block) + own[:, None], own**2])

    out = map_rows(rows, step, beside, None, height=height, n_threads=n_threads, dtype=np.float32)
    np.testing.assert_array_equal(out[:, :3], x.astype(np.float32) + beside[:, None])
    np.testing.assert_array_equal(out[:, 3], beside**2)


def test_a_map_of_no_rows_is_empty():
    found = map_rows(np.empty((0, 3)), lambda rows: rows[:, :2], height=4)
    assert found.shape == (0, 2)


def test_a_step_that_fails_is_the_error(stored):
    def step(rows, place):
        if place.stop > N // 2:
            raise KeyError(place.start)
        return read(rows, place)

    with pytest.raises(KeyError):
        fold(stored[1], step, height=4, n_threads=3, run=2)


def test_steps_pickle_and_do_the_same_elsewhere(rng):
    """Another process gets a copy of the step, and gives back a value: nothing is shared."""
    x, kernel = rng.standard_normal((N, 3)), RBF(0.5)
    w, sections = rng.random(N), KernelSections(kernel, x[:4])
    factor = LowRank(sections, np.eye(4), None, projects=True)
    lengths = partial(checked_lengths, kernel)
    steps = {
        "pivots": ExplainSections(kernel, x[:4], np.eye(4), w, sections.engine),
        "features": lowrank_pass.Look(kernel, factor, x.dtype, w, 0.1),
        "squares": SquareSections(kernel, x[:4], x.dtype, x.dtype, w, lengths, sections.engine),
        "streamed": partial(linear._moments, sections, w),
    }
    for name, step in steps.items():
        here, there = step(x[5:9], slice(5, 9)), pickle.loads(pickle.dumps(step))
        there = pickle.loads(pickle.dumps(there(x[5:9], slice(5, 9))))
        assert pickle.dumps(here) == pickle.dumps(there), name
    again = pickle.loads(pickle.dumps(sections))
    np.testing.assert_array_equal(again.times(x, np.eye(4)), sections.times(x, np.eye(4)))
    np.testing.assert_allclose(again.times(x, np.eye(4)), sections(x), rtol=0, atol=1e-14)


# ── moments ─────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_of_columns_are_the_diagonal_of_all_moments(weighted, rng):
    x, w = 1e3 + rng.standard_normal((N, 3)), rng.random(N) if weighted else None

    def column(rows, place):
        return ColumnMoments.of(rows, None, x[0], None if w is None else w[place])

    def every(rows, place):
        return Moments.of(rows, None if w is None else w[place])

    one, all_ = fold(x, column, height=8, run=3), fold(x, every, height=8, run=3)
    reference = np.cov(x.T, aweights=w, ddof=0) * all_.weight
    np.testing.assert_allclose(all_.scatter, reference, rtol=1e-9)
    np.testing.assert_allclose(one.squares, np.diagonal(reference), rtol=1e-9)
    np.testing.assert_allclose(one.mean, np.average(x, axis=0, weights=w), rtol=1e-14)
    np.testing.assert_allclose(all_.mean, one.mean, rtol=1e-14)
    np.testing.assert_allclose(weighted_mean(x, w), one.mean, rtol=1e-14)


def test_a_weighted_median_is_that_of_repeated_values(rng):
    values, counts = rng.standard_normal(30).round(1), rng.integers(1, 5, 30)
    expected = np.median(np.repeat(values, counts))
    assert weighted_median(values, counts.astype(float)) == expected
    gappy, more = np.append(values, np.nan), np.append(counts, 100.0)
    assert weighted_median(gappy, more) == expected
    assert np.isnan(weighted_median(gappy[-1:], more[-1:]))


def test_a_scale_and_its_inverse_leave_a_still_column_in_its_unit(rng):
    x = np.column_stack([rng.standard_normal(N) * 7 + 3, np.full(N, 2.0)])
    scale = Scale.of(x)
    np.testing.assert_allclose(scale(x)[:, 0].std(ddof=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(scale(x)[:, 1], 0.0)
    np.testing.assert_allclose(scale.back(scale(x)), x, rtol=1e-12)
    np.testing.assert_array_equal(scale.still, [1])


# ── equal rows ──────────────────────────────────────────────────────────────
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distinct_rows_are_those_of_a_set(dtype, rng):
    x = rng.integers(-1, 2, (200, 4)).astype(dtype)
    x[x == 0] = rng.choice([0.0, -0.0], np.sum(x == 0))  # which are one number
    w = rng.integers(1, 9, 200).astype(float)
    seen = {}
    for i, row in enumerate(map(tuple, x)):
        seen.setdefault(row, []).append(i)
    # Every number in two halves, columns backwards, and zeros that are stored.
    halves, columns = np.tile(x[:, ::-1] / 2, 2).ravel(), np.tile([3, 2, 1, 0], 400)
    messy = sparse.csr_array((halves, columns, 8 * np.arange(201)), shape=x.shape)
    assert messy.nnz == 1600
    for rows in (x, sparse.csr_array(x), messy):
        first, counts = distinct((rows,), w)
        np.testing.assert_array_equal(first, [places[0] for places in seen.values()])
        np.testing.assert_array_equal(counts, [w[places].sum() for places in seen.values()])


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("other", [None, 0, 2999, 5000])
def test_rows_are_alike_unless_one_is_not(store, other):
    x = np.tile([0.1, 0.0, 3.0], (5001, 1))
    if other is not None:
        x[other, 1] = 1e-300
    rows = store(x)
    assert are_alike(rows) == (other is None)
    expected = [] if other is None else [other]
    assert np.flatnonzero(unlike(rows, store(x[1:2]))).tolist() == expected


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (2000, 20), (40, 600), (513, 1)])
def test_rows_less_a_row(shape, dtype, rng):
    x, row = rng.standard_normal(shape).astype(dtype), rng.standard_normal(shape[1])
    for rows in (x, np.asfortranarray(x), np.concatenate([x, x])[::2]):
        np.testing.assert_array_equal(less_row(rows, row), rows.astype(np.float64) - row)
    own = x.astype(np.float64)
    assert less_row(own, row, own) is own
    np.testing.assert_array_equal(own, x - row)
