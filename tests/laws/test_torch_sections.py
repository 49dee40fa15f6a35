"""Scores by half floats: by NumPy in place of Triton, and on the GPU where there is one."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'mercer[gpu]'")

import torch
from scipy import sparse

from markets.kernels import INDEFINITE, VALID
from markets.triton import in_place_of_triton
from mercer import KernelPCA
from mercer._core.errors import EngineWarning
from mercer.engine.base import FLOAT32, FLOAT64
from mercer.engine.native.engine import program_of
from mercer.engine.torch import TorchEngine, fused
from mercer.engine.torch import engine as engines
from mercer.engine.torch.fused import Halves, sections_times
from mercer.engine.torch.source import LOW, why_not_sections
from mercer.kernels import RBF, Matern, Polynomial

KERNELS = VALID | INDEFINITE
FUSED = sorted(
    name
    for name, kernel in KERNELS.items()
    if not isinstance(program := program_of(kernel), str) and why_not_sections(program) is None
)
NAMES = ["torch:cpu", *(["cuda"] if torch.cuda.is_available() else [])]
N, M, D = 90, 120, 6


@pytest.fixture(params=NAMES)
def engine(request, monkeypatch):
    if request.param == "torch:cpu":
        in_place_of_triton(monkeypatch)
    return TorchEngine(request.param, fused=True)


@pytest.fixture
def always(monkeypatch):
    """Products of any size are worth it, in slices of 32 rows; which were made, and of how many rows."""
    monkeypatch.setattr(engines, "is_cross_worthwhile", lambda *_: True)
    monkeypatch.setattr(engines, "CROSS_ROWS", 32)
    calls = []

    def noted(rows, *others, **own):
        found = sections_times(rows, *others, **own)
        calls.append((rows.shape[0], found is not None))
        return found

    monkeypatch.setattr(engines, "sections_times", noted)
    return calls


def plain(rng):
    return rng.standard_normal((N, D)), rng.standard_normal((M, D))


def spread_out(rng):
    x, z = plain(rng)
    return x * 2.0 ** rng.uniform(-8, 0, (N, 1)), z * 2.0 ** rng.uniform(-8, 0, (M, 1))


def wild(rng):
    x, z = plain(rng)
    x[0] *= 100.0
    return x, z


def times(factor, shift=0.0):
    return lambda rng: [factor * rows + shift for rows in plain(rng)]


ROWS = {
    "plain": plain,
    "far from the origin": times(1.0, 300.0),
    "large": times(30.0),
    "small": times(1e-3),
    "decaying": times(10.0 ** -np.arange(D)),
    "the points themselves": lambda rng: [(z := plain(rng)[1])[:N].copy(), z],
    "of sizes far apart": spread_out,
    "one wild": wild,
}


def model(kernel, z):
    """Coefficients of the first scores, as a fit has them, and the spread of these."""
    z = z.astype(np.float64)
    centring = np.eye(len(z)) - 1.0 / len(z)
    values, vectors = np.linalg.eigh(centring @ kernel(z) @ centring)
    top = np.argsort(-np.abs(values))[:3]
    top = top[np.abs(values[top]) > 1e-5 * np.abs(values).max()]
    coef = (centring @ vectors[:, top] / np.sqrt(np.abs(values[top]))).astype(np.float32)
    return coef, np.std(kernel(z) @ coef.astype(np.float64), axis=0)


@pytest.mark.parametrize("rows", sorted(ROWS))
@pytest.mark.parametrize("name", FUSED)
def test_scores_are_as_good_as_those_of_float32_tiles(engine, name, rows, rng):
    kernel = KERNELS[name]
    x, z = (each.astype(np.float32) for each in ROWS[rows](rng))
    coef, spread = model(kernel, z)
    found = sections_times(x, engine.load(z, kernel, FLOAT32), coef)
    if found is None:
        pytest.skip("left to tiles")
    exact_tile = kernel(x.astype(np.float64), z.astype(np.float64))
    exact = exact_tile @ coef.astype(np.float64)
    tiles = engine.times(kernel, *(engine.load(each, kernel, FLOAT32) for each in (x, z)), coef)
    # Rows, entries and coefficients are off by 2⁻²³ of their sizes each, before the formula and after it.
    most = (np.abs(exact_tile) @ np.abs(coef)).max(axis=0)
    assert np.all(np.abs(found - exact) <= 2.0**-20 * most)
    off = [np.sqrt(np.mean((each - exact) ** 2, axis=0)) / spread for each in (found, tiles)]
    # An entry has up to three roundings in place of one, and fewer of sums.
    assert np.all(off[0] <= 3.0 * off[1] + 1e-7)


def test_where_rows_are_wild_tiles_keep_more_digits(engine, always, rng):
    """Of two slices one is plain. In the other a row is far beyond the kernel's width, or all points."""
    for kernel, factor in ((RBF(0.3), 100.0), (Matern(1.5, 1.0), 100.0)):
        x, z = (each.astype(np.float32) for each in plain(rng))
        x[40] *= factor
        coef = model(kernel, z)[0]
        always.clear()
        found = engine.times(kernel, *(engine.load(each, kernel, FLOAT32) for each in (x, z)), coef)
        assert always == [(32, True), (32, False), (26, True)]
        apart = TorchEngine(engine.device, fused=False)
        rows = [apart.load(each, kernel, FLOAT32) for each in (x[32:64], z)]
        np.testing.assert_array_equal(found[32:64], apart.times(kernel, *rows, coef))


def test_the_points_stay_and_the_bits_too(engine, always, rng):
    kernel = VALID["rbf"]
    x, z = (each.astype(np.float32) for each in plain(rng))
    coef, points = model(kernel, z)[0], engine.load(z, kernel, FLOAT32)
    first = engine.times(kernel, engine.load(x, kernel, FLOAT32), points, coef)
    held = points.halves
    assert held is not None
    second = engine.times(kernel, engine.load(x, kernel, FLOAT32), points, coef)
    assert points.halves is held
    np.testing.assert_array_equal(first, second)
    assert first.dtype == np.float32
    assert always == [(32, True), (32, True), (26, True)] * 2
    thin = sparse.csr_array(x)
    np.testing.assert_array_equal(
        engine.times(kernel, engine.load(thin, kernel, FLOAT32), points, coef), first
    )


OTHERWISE = {
    "float64": (VALID["rbf"], FLOAT64, True),
    "a kink": (VALID["matern-1/2"], FLOAT32, True),
    "steep": (INDEFINITE["sigmoid"], FLOAT32, True),
    "not wanted": (VALID["rbf"], FLOAT32, False),
}


@pytest.mark.parametrize("name", sorted(OTHERWISE))
def test_what_stays_with_tiles(engine, always, name, rng):
    kernel, dtype, wanted = OTHERWISE[name]
    x, z = (each.astype(dtype) for each in plain(rng))
    chosen = TorchEngine(engine.device, fused=wanted)
    rows, points = (chosen.load(each, kernel, dtype) for each in (x, z))
    found = chosen.times(kernel, rows, points, np.ones((M, 2), dtype))
    assert not always
    np.testing.assert_allclose(found, kernel(x, z) @ np.ones((M, 2), dtype), rtol=1e-4)


def test_small_products_are_not_worth_a_compiler(engine, monkeypatch, rng):
    monkeypatch.setattr(engines, "sections_times", None)
    kernel, (x, z) = VALID["rbf"], (each.astype(np.float32) for each in plain(rng))
    rows, points = (engine.load(each, kernel, FLOAT32) for each in (x, z))
    found = engine.times(kernel, rows, points, np.ones((M, 2), np.float32))
    np.testing.assert_allclose(found, kernel(x, z) @ np.ones((M, 2)), rtol=1e-5)


@pytest.mark.usefixtures("always")
def test_what_fails_once_is_told_once(engine, monkeypatch, rng):
    def broken(_text):
        msg = "Failed to find C compiler."
        raise RuntimeError(msg)

    monkeypatch.setattr(fused, "compiled_passes", broken)
    kernel, (x, z) = VALID["rbf"], (each.astype(np.float32) for each in plain(rng))
    points, ones = engine.load(z, kernel, FLOAT32), np.ones((M, 2), np.float32)
    with pytest.warns(
        EngineWarning, match=r"slower tiles instead: RuntimeError: failed to find C"
    ) as told:
        found = engine.times(kernel, engine.load(x, kernel, FLOAT32), points, ones)
    assert (
        sum(each.category is EngineWarning for each in told) == 1
    )  # torch may have words of its own
    np.testing.assert_allclose(found, kernel(x, z) @ ones, rtol=1e-5)
    again = engine.times(kernel, engine.load(x, kernel, FLOAT32), points, ones)  # without a word
    np.testing.assert_allclose(again, found, rtol=1e-6)  # in tiles of another height
    assert points.halves is None


@pytest.mark.parametrize("name", ["rbf", "rational-quadratic", "matern-3/2"])
def test_transform_is_that_of_numpy(engine, always, name, rng):
    x, new = (each.astype(np.float32) for each in (plain(rng)[1], plain(rng)[0]))
    given = {"kernel": VALID[name], "random_state": 0}
    expected = KernelPCA(3, engine="numpy", **given).fit(x).transform(new)
    found = KernelPCA(3, engine=engine, **given).fit(x).transform(new)
    assert (32, True) in always
    assert found.dtype == expected.dtype == np.float32
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=2e-5 * expected.std())


def test_one_scale_for_all_rows_costs_small_ones_no_digits(engine, rng):
    """Their high parts are subnormal then, and hold less: the low ones take what is lost."""
    x = rng.standard_normal((N, D)) * 10.0 ** rng.uniform(-3, 0, (N, D))
    x[:, 0], x[0] = 1.0, 200.0
    x = x.astype(np.float32)
    kernel = Polynomial(2)
    rows = engine.load(x, kernel, FLOAT32)
    whole = Halves.of(program_of(kernel), [rows.side_of(x)], N, precise=True)
    assert whole.scale is not None
    found = (whole.high.double() + LOW * whole.low.double())[:N, :D].cpu().numpy() * whole.scale
    sizes = np.abs(x).max(axis=1, keepdims=True)
    assert np.all(np.abs(found - x) <= 2.0**-21 * sizes)
