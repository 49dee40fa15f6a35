"""Steps that the torch engine runs on its device, held against NumPy: sums, and numbers of each row."""

import gc
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

pytest.importorskip("torch", reason="torch is not installed: pip install 'mercer[gpu]'")

import torch

from laws.test_native_explained import KERNELS, SHAPES, exact, explained, holds, triangle
from markets.engines import SOURCES, in_memory
from mercer import KernelPCA
from mercer._core.errors import KernelError
from mercer._core.observer import SILENT
from mercer.approximations import Nystrom, RandomFourier
from mercer.approximations.landmarks import checked_lengths
from mercer.approximations.rpcholesky import PivotSearch
from mercer.engine.base import FLOAT64
from mercer.engine.moments import Moments
from mercer.engine.numpy import NumpyEngine
from mercer.engine.steps import (
    ExplainSections,
    FeatureProduct,
    SquareFeatures,
    SquareSections,
    Waves,
    Whitened,
)
from mercer.engine.torch import TorchEngine, evaluate, place
from mercer.engine.torch import steps as device_steps
from mercer.kernels import RBF, Polynomial, Sigmoid

NAMES = ["torch:cpu", *(["cuda"] if torch.cuda.is_available() else [])]
HERE = NumpyEngine(1)


@pytest.fixture(params=NAMES)
def engine(request):
    return TorchEngine(request.param)


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    monkeypatch.setattr(place, "DEVICE_PASS_ROWS", 500)


@pytest.fixture
def on_device(monkeypatch):
    """Nothing may be left to the engine of the host."""

    def refuse(_):
        msg = "The host was asked."
        raise AssertionError(msg)

    monkeypatch.setattr(TorchEngine, "here", property(refuse))


alone = pytest.mark.usefixtures("on_device")


# ── what columns of a factor explain ────────────────────────────────────────
@alone
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_explained_squares_are_right_to_rounding(shape, weighted, dtype, engine, rng):
    n, m, a, d = shape
    x = rng.standard_normal((n, d)).astype(dtype)
    z, w = x[rng.integers(0, n, m)] + x.dtype.type(0.1), triangle(m, a, dtype, rng)
    weights = rng.random(n) if weighted else None
    found = explained(engine, RBF(0.3), x, z, w, weights=weights)
    holds(found, RBF(0.3), x, z, w, weights=weights)


@alone
@pytest.mark.parametrize("panel", [16, 256])
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_explained_by_every_kind_of_kernel(name, panel, engine, rng, monkeypatch):
    monkeypatch.setattr("mercer.engine.torch.steps.PANEL", panel)
    for dtype in ("f4", "f8"):
        kernel, x = KERNELS[name], rng.standard_normal((600, 3)).astype(dtype)
        z, w = x[:70], triangle(70, 40, dtype, rng)
        holds(explained(engine, kernel, x, z, w), kernel, x, z, w)


@alone
@pytest.mark.parametrize("source", ["file", "sparse"])
def test_explained_in_sparse_rows_and_files(source, engine, rng, tmp_path):
    data = SOURCES[source](rng.standard_normal((1300, 4)), tmp_path)
    w, x = triangle(40, 25, "float64", rng), in_memory(data)
    holds(explained(engine, RBF(0.3), data, x[:40], w), RBF(0.3), x, x[:40], w)


def test_values_out_of_range_are_explained_by_the_host(engine, rng):
    """A power that overflows in float32 on the way, and rows too large for squares."""
    x = 1e9 * rng.standard_normal((60, 3)).astype("f4")
    w = triangle(10, 10, "f4", rng)
    kernel = Polynomial(5, gamma=1.0).normalised()
    step = ExplainSections(kernel, x[:10], w, None, engine)
    found, expected = engine.fold(x, step), HERE.fold(x, replace(step, engine=HERE))
    np.testing.assert_allclose(np.concatenate(found.rows), np.concatenate(expected.rows), rtol=1e-4)


def test_pivots_are_those_of_the_host(engine, rng):
    """The same dice: what is left of each row agrees to rounding, and so do the landmarks."""
    x = rng.standard_normal((900, 3))
    chosen = []
    for each in (engine, HERE):
        search, own = PivotSearch(RBF(0.2), x, None, each), np.random.default_rng(5)
        for _ in range(3):
            search.draw(15, rng=own)
            search.update(observer=SILENT)
        chosen.append((search.landmarks, search.left, search._energies))
    np.testing.assert_array_equal(chosen[0][0], chosen[1][0])
    np.testing.assert_allclose(chosen[0][1], chosen[1][1], atol=1e-11)
    np.testing.assert_allclose(chosen[0][2], chosen[1][2], rtol=1e-10)


@alone
def test_a_device_with_less_memory_goes_on_with_fewer_rows(engine, rng, monkeypatch):
    """Of all three kinds of passes, whose blocks are halved until they fit."""
    x, w = rng.standard_normal((700, 3)), triangle(40, 40, "f8", rng)
    lengths, tried = partial(checked_lengths, RBF(0.3)), []

    def values(program, left, right=None):
        tried.append(left.n)
        if left.n > 130:
            raise torch.OutOfMemoryError
        return evaluate.values(program, left, right)

    monkeypatch.setattr("mercer.engine.torch.steps.values", values)
    holds(explained(engine, RBF(0.3), x, x[:40], w), RBF(0.3), x, x[:40], w)
    features = Whitened(RBF(0.3), x[:40], w, engine)
    squares = SquareSections(RBF(0.3), x[:40], FLOAT64, FLOAT64, None, lengths, engine)
    for step in (squares, SquareFeatures(features, FLOAT64, None, lengths)):
        assert engine.fold(x, step).trace == pytest.approx(700.0)
    assert {500, 250, 125} <= set(tried)


def test_a_device_without_room_for_features_leaves_them_to_the_host(engine, rng, monkeypatch):
    x, waves = rng.standard_normal((300, 3)), Waves(rng.standard_normal((20, 3)), 1.0, np.zeros(3))
    whitened, coef = Whitened(RBF(0.3), x[:40], np.eye(40), HERE), rng.standard_normal((40, 2))
    for features in (waves, whitened):
        expected = HERE.map(x, FeatureProduct(features, coef), width=40)

        def no_room(*_):
            raise torch.OutOfMemoryError

        with monkeypatch.context() as patch:
            patch.setattr(type(engine.place), "tensor", no_room)
            found = engine.map(x, FeatureProduct(features, coef), width=40)
        np.testing.assert_allclose(found, expected, atol=1e-12)


# ── squares of sections ─────────────────────────────────────────────────────
@alone
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("precisions", ["f4 f4", "f4 f8", "f8 f8"])
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_squares_agree_with_numpy(name, precisions, weighted, engine, rng):
    dtype, squared_in = map(np.dtype, precisions.split())
    kernel, x = KERNELS[name], (2.0 + rng.standard_normal((1300, 3))).astype(dtype)
    weights = rng.uniform(0.0, 3.0, len(x)) if weighted else None
    if weighted:
        weights[:500] = 0.0  # a block that counts for nothing
    lengths = partial(checked_lengths, kernel)
    own = dtype, squared_in, weights, lengths
    found = engine.fold(x, SquareSections(kernel, x[:60], *own, engine))
    wide = FLOAT64, FLOAT64, weights, lengths
    x = x.astype(np.float64)
    expected = SquareSections(kernel, x[:60], *wide, HERE)(x, slice(0, len(x)))
    eps = float(max(np.finfo(dtype).eps, np.finfo(squared_in).eps))
    sizes = np.sqrt(kernel.diag(x).max() * kernel.diag(x[:60]))  # of sections, (m,)
    weight = expected.moments.weight
    assert found.moments.weight == pytest.approx(weight)
    assert found.trace == pytest.approx(expected.trace, rel=30 * eps)
    assert np.all(np.abs(found.moments.mean - expected.moments.mean) <= 30 * eps * sizes)
    # Sections are off by roundings of their sizes, of which sums over n rows are made, and their squares.
    off = 60 * eps * weight * np.outer(sizes, sizes)
    assert np.all(np.abs(found.moments.scatter - expected.moments.scatter) <= off)
    np.testing.assert_array_equal(found.moments.scatter, found.moments.scatter.T)


def test_a_length_below_zero_is_told_in_words(engine, rng):
    x = rng.standard_normal((700, 3))
    kernel = Sigmoid(gamma=-0.5, coef0=0.0)
    step = SquareSections(
        kernel, x[:9], FLOAT64, FLOAT64, None, partial(checked_lengths, kernel), engine
    )
    with pytest.raises(KernelError, match=r"k\(x, x\) = .* < 0"):
        engine.fold(x, step)


# ── features ────────────────────────────────────────────────────────────────
@alone
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_squares_of_features_agree_with_numpy(name, weighted, dtype, engine, rng):
    kernel, x = KERNELS[name], rng.standard_normal((1300, 3)).astype(dtype)
    weights = rng.uniform(0.0, 3.0, len(x)) if weighted else None
    whiten = triangle(30, 20, dtype, rng)
    step = SquareFeatures(
        Whitened(kernel, x[:30], whiten, engine), x.dtype, weights, partial(checked_lengths, kernel)
    )
    found, wide = engine.fold(x, step), x.astype(np.float64)
    features, off = exact(kernel, x, x[:30], whiten)
    expected = Moments.of(features.astype(np.float64), weights)
    eps, w = float(np.finfo(dtype).eps), np.ones(len(x)) if weights is None else weights
    assert found.trace == pytest.approx(w @ kernel.diag(wide), rel=30 * eps)
    assert np.all(np.abs(found.moments.mean - expected.mean) <= off.max(axis=0))
    # A feature is moved by `off`, about means that are moved as well, and products round as their sizes.
    moved, sizes = 2.0 * np.sqrt(w @ off**2), np.sqrt(w @ features**2)
    most = np.outer(moved, sizes) + np.outer(sizes, moved) + np.outer(moved, moved)
    most += 16 * eps * np.outer(sizes, sizes)
    assert np.all(np.abs(found.moments.scatter - expected.scatter) <= most)


FAR = {"near": 0.0, "far": 3e4}


@pytest.mark.parametrize("thin", [False, True])
@pytest.mark.parametrize("name", sorted(FAR))
def test_waves_are_right_to_rounding(name, thin, dtype, engine, rng):
    """Of short frequencies and of ones that are too long for float32 phases, far from the origin too."""
    x, omega = rng.standard_normal((900, 4)), rng.standard_normal((25, 4))
    omega[3:6] *= 1e5
    data = (x + FAR[name]).astype(dtype)
    data = sparse.csr_array(np.where(np.abs(data) > 0.3, data, 0)) if thin else data
    x = (data.toarray() if thin else data).astype(np.float64)
    waves = Waves(omega, 2.5, np.full(4, FAR[name]))
    coef = rng.standard_normal((50, 6)).astype(dtype)
    found = engine.map(data, FeatureProduct(waves, coef))
    phases = (x - FAR[name]).astype(np.longdouble) @ omega.T.astype(np.longdouble)
    exact_ones = np.sqrt(2.5 / 25) * np.hstack([np.cos(phases), np.sin(phases)])
    eps = float(np.finfo(dtype).eps)
    # A phase is off by a few units of ‖x‖‖ω‖, in float64 where that is much; `x - c` loses no digit here.
    size = np.linalg.norm(x - FAR[name], axis=1).max() * np.linalg.norm(omega, axis=1)
    unit = np.where(size > 800, float(np.finfo(float).eps), eps)
    off = np.sqrt(2.5 / 25) * (4.0 * unit * size + 4.0 * eps)
    assert found.dtype == dtype
    room = np.hstack([off, off]) @ np.abs(coef) + 50 * eps * np.abs(exact_ones) @ np.abs(coef)
    assert np.all(np.abs(found - exact_ones @ coef) <= room)


MODELS = {
    "fourier": KernelPCA(4, kernel=RBF(0.2), approximation=RandomFourier(80), random_state=0),
    "features": KernelPCA(0.6, kernel=RBF(0.02), approximation=Nystrom(90), random_state=0),
}


@alone
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_of_features_is_that_of_the_host(name, weighted, dtype, engine, rng):
    x = (rng.standard_normal((1300, 4)) / [1.0, 1.5, 2.0, 3.0]).astype(dtype)
    weights = rng.uniform(0.5, 2.0, len(x)) if weighted else None
    expected = clone(MODELS[name]).set_params(engine="numpy").fit(x, sample_weight=weights)
    found = clone(MODELS[name]).set_params(engine=engine).fit(x, sample_weight=weights)
    near = 1e-9 if dtype == "float64" else 1e-4
    top = expected.eigenvalues_[0]
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, atol=near * top)
    scores, reference = found.transform(x), expected.transform(x)
    np.testing.assert_allclose(scores, reference, atol=10 * near * np.abs(reference).max())
    if name == "fourier":  # else k(x, x), of which an error is what is left, is the host's
        errors = expected.reconstruction_error(x)
        np.testing.assert_allclose(found.reconstruction_error(x), errors, atol=10 * near)
    again = clone(found).fit(x, sample_weight=weights)
    np.testing.assert_array_equal(again.transform(x), scores)  # the same bits twice


def test_waves_leave_the_device_with_their_model(engine, rng):
    x = rng.standard_normal((300, 4))
    before = len(device_steps._SENT)
    model = clone(MODELS["fourier"]).set_params(engine=engine).fit(x)
    model.transform(x)
    assert len(device_steps._SENT) == before + 1
    del model
    gc.collect()
    assert len(device_steps._SENT) == before
