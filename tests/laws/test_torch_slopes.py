"""Slopes and searches on the device, held against the host's derivatives: `mercer.kernels.slopes`."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

pytest.importorskip("torch", reason="torch is not installed: pip install 'mercer[gpu]'")

import torch

from markets.kernels import HISTOGRAM, VALID
from mercer import KernelPCA
from mercer.engine.formula import Affine, Exp, Pair, Pow
from mercer.engine.steps import FixedPoints, SlopeSums
from mercer.engine.torch import TorchEngine, evaluate
from mercer.kernels import RBF, Laplacian, Linear, Matern, Polynomial, RationalQuadratic, Sigmoid
from mercer.kernels.base import Kernel
from mercer.kernels.slopes import radial_slope
from mercer.model.space import _slope_sums
from mercer.preimage import FixedPoint, Gradient
from mercer.preimage.search import _fixed_points

IMPROVE = FixedPoint.improve
NAMES = ["torch:cpu", *(["cuda"] if torch.cuda.is_available() else [])]


class Powered(Kernel):
    """e^-‖x - x'‖^2p, whose derivative in ‖x - x'‖² has no end at a distance of 0."""

    proof = "it is a positive mixture of Gaussians"

    def __init__(self, p=0.5):
        self.p = p

    def formula(self):
        return Exp(Affine(Pow(Pair("sqdist"), self.p), -1.0))


class ExponentialDot(Kernel):
    """e^(x·x'/10)."""

    proof = "its power series has positive coefficients"

    def formula(self):
        return Exp(Affine(Pair("dot"), 0.1))


RADIAL = {
    "rbf": RBF(0.3),
    "matern-1/2": Matern(0.5, 2.0),
    "matern-3/2": Matern(1.5, 1.3),
    "matern-9/2": Matern(4.5, 1.3),
    "rational": RationalQuadratic(0.7, 1.1),
    "root": RationalQuadratic(0.5, 1.1),
    "sum": RBF(0.2) + 0.5 * Matern(2.5, 1.0),
    "product": RBF(0.1) * RationalQuadratic(1.0, 2.0) + 0.3,
    "square": RBF(0.1) ** 2,
    "kinked": Powered(0.75),
    "kinked root": Powered(0.5),
}
KNOWN = RADIAL | {
    "linear": Linear(),
    "e": ExponentialDot(),
    "poly": Polynomial(3, gamma=0.4),
    "dots": Polynomial(2, gamma=0.2) * Linear() + 2.0 * Linear(),
    "sigmoid": Sigmoid(gamma=0.2, coef0=0.1),
}
OTHERS = {
    "laplacian": Laplacian(0.2),
    "columns": RBF(0.2).on([0, 1]),
    "cosine": VALID["cosine"],
} | {
    "mixed": RBF(0.2) + Linear(),
    "chi2": HISTOGRAM["chi2"],
}


@pytest.fixture(params=NAMES)
def engine(request, monkeypatch):
    monkeypatch.setattr(evaluate, "FEW_PAIRS", 0)
    monkeypatch.setattr(
        "mercer.engine.torch.place.WIDEST", dict.fromkeys(("cuda", "mps", "cpu"), 64)
    )
    return TorchEngine(request.param)


@pytest.fixture
def on_device(monkeypatch):
    def refuse(_):
        msg = "The host was asked."
        raise AssertionError(msg)

    monkeypatch.setattr(TorchEngine, "here", property(refuse))


def step_of(kind, kernel, rng, *, far=0.0, **own):
    """Against 150 points, a step, rows (some at points, or all but there) and targets."""
    z = rng.standard_normal((150, 4)) + far
    x = rng.standard_normal((90, 4)) + far
    x[:3], x[3:6] = z[:3], z[3:6] + 1e-7
    coef, mean = rng.standard_normal((150, 3)), rng.random(150)
    host = _fixed_points if kind is FixedPoints else _slope_sums
    return kind(kernel, z, coef, mean, host, **own), x, rng.standard_normal((90, 3))


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("far", [0.0, 300.0], ids=["near", "far"])
@pytest.mark.parametrize("name", sorted(KNOWN))
def test_slopes_are_those_of_the_host(name, far, engine, rng):
    kernel = KNOWN[name]
    shift = far if kernel.shift_invariant else 0.0
    step, x, t = step_of(SlopeSums, kernel, rng, far=shift)
    for own in (step, replace(step, mean=None)):
        found, expected = engine.map(x, own, t, dtype=np.float64), own(x, t)
        weights = t @ own.coef.T + (0.0 if own.mean is None else own.mean)
        bound = rounding(kernel, x - shift, own.points - shift, weights)
        assert np.all(np.abs(found - expected) <= bound[:, None])


def rounding(kernel, x, z, weights):  # -> (b,)
    """Both sums over points, of p x and of p z, are off by a few units of their terms; so are slopes p.

    Those of a kernel that is smooth are off by units of the squared norms that a distance is made of, and of
    one with a kink, whose near pairs are subtracted first, by as much beside its own size.
    """
    slope = (
        radial_slope(kernel.tree(), x, z) if kernel.shift_invariant else np.ones((len(x), len(z)))
    )
    reach = np.linalg.norm(x, axis=1)[:, None] + np.linalg.norm(z, axis=1) + 1.0
    if not kernel.shift_invariant:  # polynomials of products, up to the third power
        reach = reach**6
    steep = np.abs(slope) * (1.0 + reach**2) + reach**2
    return 32 * float(np.finfo(np.float64).eps) * (np.abs(weights) * steep * reach).sum(axis=1)


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("name", sorted(RADIAL))
def test_fixed_points_are_those_of_the_host(name, engine, rng):
    step, x, t = step_of(FixedPoints, RADIAL[name], rng, far=20.0, share=0.05)
    found, expected = engine.map(x, step, t, dtype=np.float64), step(x, t)
    sound = expected[:, -1] == 1.0
    assert 0 < sound.sum() < len(x)  # both kinds are there
    np.testing.assert_array_equal(found[:, -1], expected[:, -1])
    # A quotient whose denominator is a twentieth of its terms or more.
    np.testing.assert_allclose(found[sound], expected[sound], rtol=1e-8)


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_slopes_that_are_not_known_there_are_the_hosts(name, engine, rng):
    step, x, t = step_of(SlopeSums, OTHERS[name], rng)
    x, step = np.abs(x), replace(step, points=np.abs(step.points))
    hosts = engine.here.map(x, step, t, dtype=np.float64)  # by compiled tiles, where there are some
    np.testing.assert_array_equal(engine.map(x, step, t, dtype=np.float64), hosts)


def test_few_pairs_are_the_hosts(engine, rng, monkeypatch):
    monkeypatch.setattr(evaluate, "FEW_PAIRS", 90 * 150 + 1)
    step, x, t = step_of(SlopeSums, RBF(0.2), rng)
    hosts = engine.here.map(x, step, t, dtype=np.float64)
    np.testing.assert_array_equal(engine.map(x, step, t, dtype=np.float64), hosts)


@pytest.mark.parametrize("method", [FixedPoint(), Gradient()], ids=repr)
@pytest.mark.parametrize("kernel", [RBF(0.3), Matern(2.5, 1.5)], ids=repr)
def test_searches_end_where_the_hosts_do(method, kernel, engine, rng):
    """Not bit for bit: steps are stopped where they are shorter than the tolerance."""
    x = rng.standard_normal((200, 3)) / [1.0, 2.0, 3.0]
    model = KernelPCA(8, kernel=kernel, preimage=method, engine="numpy", random_state=0).fit(x)
    other = clone(model).set_params(engine=engine).fit(x)
    scores = model.transform(x[:30])
    expected = model.inverse_transform(scores)
    own = other.transform(x[:30])
    np.testing.assert_allclose(np.abs(own), np.abs(scores), atol=1e-8)
    # As far from the targets in feature space as those of the host, or nearer.
    near = 1e-4 * np.abs(x).max()
    assert np.mean(np.abs(other.inverse_transform(own) - expected).max(axis=1) <= near) >= 0.95


def test_points_leave_the_device_with_their_search(engine, rng):
    before = len(evaluate._SENT)
    step, x, t = step_of(SlopeSums, RBF(0.2), rng)
    engine.map(x, step, t, dtype=np.float64)
    assert len(evaluate._SENT) == before + 1
    del step
    assert len(evaluate._SENT) == before


def test_slices_of_a_search_are_as_large_as_the_engine_says(engine, rng, monkeypatch):
    """Few large steps in place of many small ones; where each search ends, no other has a part in."""
    x = rng.standard_normal((300, 3))
    model = KernelPCA(5, kernel=RBF(0.3), preimage=FixedPoint(), engine=engine).fit(x)
    scores, found = model.transform(x[:40]), []
    monkeypatch.setattr("mercer.preimage.search.SLICE_NUMBERS", 2000)
    for bytes_ in (1, 2**30):
        heights = []

        def improve(self, space, starts, t, *, radius, heights=heights):
            heights.append(len(starts))
            return IMPROVE(self, space, starts, t, radius=radius)

        monkeypatch.setattr(FixedPoint, "improve", improve)
        monkeypatch.setattr(TorchEngine, "tile_bytes", bytes_)
        found.append(model.inverse_transform(scores))
        # 4 starts each: 2000 values k(x, Z) of 300 points, or as many targets as 2000 distances of scores.
        assert heights[0] == 4 * (2000 // (300 * 4) if bytes_ == 1 else 2000 // 300)
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)
