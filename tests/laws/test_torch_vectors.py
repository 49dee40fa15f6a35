"""Vectors on a device: to a solver they are arrays of NumPy, and what it finds with them is the same."""

import copy

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'mercer[gpu]'")

import torch

from markets.triton import in_place_of_triton
from mercer._core.observer import SILENT, Observer
from mercer.engine.base import FLOAT64
from mercer.engine.thin import column_lengths, inner, largest_rows, subtract, times, without
from mercer.engine.torch import TorchEngine
from mercer.engine.torch.vectors import DeviceVectors
from mercer.kernels import RBF
from mercer.model import Plan, gram_operator
from mercer.operators import Centred, Gram
from mercer.planning.recipe import Halved, Tiles
from mercer.solvers import BlockKrylov
from mercer.solvers.base import EigenPairs, relative_residuals
from mercer.solvers.krylov import KrylovSearch

NAMES = ["torch:cpu", *(["cuda"] if torch.cuda.is_available() else [])]
N, K = 60, 5


@pytest.fixture(params=NAMES)
def engine(request):
    return TorchEngine(request.param)


@pytest.fixture
def blocks(rng):
    return rng.standard_normal((N, K)), rng.standard_normal((N, K)), rng.standard_normal((K, 3))


def there(engine, a):
    return DeviceVectors(engine.place.tensor(a, FLOAT64), engine.place)


def written(a, b):
    out = np.empty_like(a, shape=(N, 2 * K), order="F")
    out[:, :K], out[:, K:] = a, b
    return out[:, 1 : 2 * K - 1]


def in_place(a, b):
    c = a.copy()
    c -= b
    subtract(c, a, np.eye(K))
    return c


# What solvers and centring do with long arrays. `b` may be on the host as well.
DONE = {
    "difference": lambda a, b, _: a - b,
    "scaled": lambda a, b, _: (a * np.arange(1.0, K + 1) + 2.0 * b) / 3.0,
    "rows scaled": lambda a, b, _: a * np.arange(N)[:, None] + b,
    "combined": lambda a, _, c: times(a, c),
    "inner": lambda a, b, _: inner(a, b),
    "in place": lambda a, b, _: in_place(a, b),
    "beside": lambda a, b, _: np.concatenate([a, b], axis=1),
    "written": lambda a, b, _: written(a, b),
    "chosen": lambda a, b, _: (a + b)[:, np.array([2, 0])],
    "masked": lambda a, b, _: (a + b)[:, np.arange(K) > 1],
    "some rows": lambda a, b, _: (a + b)[np.array([7, 3])],
    "norms": lambda a, b, _: np.linalg.norm(a - b, axis=0),
    "lengths": lambda a, _, __: column_lengths(a),
    "sums": lambda a, _, __: np.add.reduce(a, axis=0),
    "largest": lambda a, _, __: np.maximum.reduce(a, axis=0) - np.minimum.reduce(a, axis=0),
    "extremes": lambda a, b, _: np.array([(a - b).max(), (a - b).min(), len(a), a.size]),
    "over rows": lambda a, _, __: (np.abs(a) ** 2).sum(axis=1),
    "means": lambda a, _, __: np.arange(N) @ a,
    "without": lambda a, _, __: without(a, np.full(N, N**-0.5)),
    "where largest": lambda a, _, __: np.sort(largest_rows(np.abs(a), 4), axis=0),
    "residuals": lambda a, b, _: relative_residuals(np.arange(1.0, K + 1), a, b),
    "finite": lambda a, b, _: np.array(np.isfinite(a - b).all()),
    "upper": lambda a, _, __: np.abs(np.linalg.qr(a)[1]),
    "single": lambda a, b, _: (a - b).astype(np.float32),
    "pairs": lambda a, b, _: EigenPairs.largest(np.arange(K), a, b, 3).here().vectors,
}


@pytest.mark.parametrize("beside", ["there", "here"])
@pytest.mark.parametrize("name", sorted(DONE))
def test_a_solver_sees_arrays(name, beside, engine, blocks):
    a, b, c = blocks
    expected = DONE[name](a, b, c)
    found = DONE[name](there(engine, a), there(engine, b) if beside == "there" else b, c)
    unit = 1e-6 if name == "single" else 1e-13
    np.testing.assert_allclose(np.asarray(found), expected, rtol=unit, atol=unit)
    assert np.asarray(found).dtype == np.asarray(expected).dtype


def test_what_is_not_foreseen_is_refused(engine, blocks):
    """Not copied to the host in silence."""
    a = there(engine, blocks[0])
    with pytest.raises(TypeError):
        np.exp(a)
    with pytest.raises(TypeError):
        np.linalg.svd(a)
    with pytest.raises(TypeError):
        a @ np.eye(K)
    with pytest.raises(ValueError, match="copied to the host"):
        np.array(a, copy=False)
    mine = np.array(a)
    mine[0, 0] = 99.0
    assert np.asarray(a)[0, 0] == blocks[0][0, 0]


RECIPES = {"tiles": Tiles(128, "float64"), "half floats": Halved(128, 2)}


def solved(engine, name, x, weights, observer=SILENT):
    plan = Plan("dual", BlockKrylov(tol=1e-6), RECIPES[name], 0)
    operator = gram_operator(RBF(0.1), x, plan, weights, engine=engine)
    start = operator.placed(np.zeros((len(x), 2)))
    assert isinstance(start, DeviceVectors)
    return plan.solver(operator, 4, rng=np.random.default_rng(0), observer=observer)


@pytest.fixture
def of_halves(engine, monkeypatch):
    if engine.place.kind == "cpu":
        in_place_of_triton(monkeypatch)
    return TorchEngine(engine.device, fused=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", sorted(RECIPES))
def test_pairs_are_found_there_and_handed_out_here(name, weighted, of_halves, rng):
    x = rng.standard_normal((700, 4)) / [1.0, 2.0, 3.0, 4.0]
    weights = rng.uniform(0.5, 2.0, 700) if weighted else None
    pairs = solved(of_halves, name, x, weights)
    assert type(pairs.vectors) is type(pairs.products) is np.ndarray
    w = np.ones(700) if weights is None else weights
    p = np.eye(700) - np.outer(np.sqrt(w), np.sqrt(w)) / w.sum()
    matrix = p @ (np.sqrt(w)[:, None] * RBF(0.1)(x) * np.sqrt(w)) @ p
    np.testing.assert_allclose(
        pairs.values, np.linalg.eigvalsh(matrix)[::-1][:4], atol=1e-6 * pairs.values[0]
    )
    true = np.linalg.norm(matrix @ pairs.vectors - pairs.vectors * pairs.values, axis=0)
    # They are told to a rounding of the products that they are taken from.
    assert np.all(true / pairs.values[0] <= 1.001 * pairs.residuals + 1e-12)


class CutOff(Observer):
    """Keeps the state after a product, as it is written down, and hands it to a later run."""

    def __init__(self, at, state=None):
        self.at, self.seen, self.given = at, None, state
        self.count = 0

    def resume(self):
        return self.given

    def keep(self, state):
        self.count += 1
        if self.count == self.at:
            self.seen = copy.deepcopy(state())


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_run_that_is_taken_up_goes_on_as_it_would_have(name, of_halves, rng):
    x = rng.standard_normal((700, 4)) / [1.0, 2.0, 3.0, 4.0]
    first = CutOff(at=2)
    whole = solved(of_halves, name, x, None, first)
    assert all(type(each) is not DeviceVectors for each in first.seen.values())
    again = solved(of_halves, name, x, None, CutOff(at=0, state=first.seen))
    np.testing.assert_array_equal(again.vectors, whole.vectors)
    assert again.n_products == whole.n_products


def test_a_part_of_the_rows_is_an_operator(engine, rng):
    """What many landmarks are solved by: the same matrix of a few rows, centred among themselves."""
    x, chosen = rng.standard_normal((90, 3)), np.array([3, 17, 40, 41, 80])
    weights = rng.uniform(0.5, 2.0, 90)
    for operator in (
        Centred(Gram(engine, RBF(0.3), x), weights),
        Centred(Gram(engine, RBF(0.3), x).stored(), weights),
    ):
        few = operator.among(chosen)
        np.testing.assert_allclose(few.matmat(np.eye(5)), operator.block(chosen), atol=1e-13)


def test_many_landmarks_are_a_problem_of_their_own(engine, rng):
    """More than LAPACK is asked about: the start is as good as that of all of them."""
    x = rng.standard_normal((4000, 3)) / [1.0, 2.0, 3.0]
    operator = Centred(Gram(engine, RBF(0.2), x, width=1000))
    solver = BlockKrylov(landmarks=4000)
    chosen = np.sort(rng.choice(4000, 700, replace=False))
    search = KrylovSearch(solver, operator, operator, 6, rng=rng, observer=SILENT)
    vectors = search._among(chosen, 6)
    _, expected = np.linalg.eigh(operator.block(chosen))
    cosines = np.linalg.svd(vectors.T @ expected[:, -6:])[1]
    assert cosines.min() > 1.0 - 1e-5
