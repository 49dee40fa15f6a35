"""Fused passes: by NumPy in place of Triton, and on the GPU where there is one."""

import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'mercer[gpu]'")

import torch

from markets.kernels import INDEFINITE, VALID
from markets.triton import in_place_of_triton
from mercer._core.errors import EngineWarning, MercerError
from mercer.engine.base import FLOAT32, FLOAT64, Rounding, TileStore
from mercer.engine.halves import halves_bytes
from mercer.engine.native.engine import program_of
from mercer.engine.torch import TorchEngine, fused
from mercer.engine.torch.fused import Halves, fused_columns, fused_times, split
from mercer.engine.torch.source import LOW, why_not_fused
from mercer.model import Plan, gram_operator
from mercer.planning.recipe import Halved
from mercer.solvers import BlockKrylov

KERNELS = VALID | INDEFINITE
FUSED = sorted(
    name
    for name, kernel in KERNELS.items()
    if not isinstance(program := program_of(kernel), str) and why_not_fused(program) is None
)
NAMES = ["torch:cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=NAMES)
def engine(request, monkeypatch):
    if request.param == "torch:cpu":
        in_place_of_triton(monkeypatch)
    return TorchEngine(request.param)


@pytest.mark.parametrize("size", [1e-30, 1e-6, 1.0, 1e5, 1e30])
@pytest.mark.parametrize("dim", [0, 1])
def test_halves_keep_22_bits_of_the_largest(size, dim, rng):
    x = size * rng.standard_normal((40, 7))
    high, low, scales = split(torch.tensor(x), dim)
    scales = scales.double().unsqueeze(dim)
    found = (high.double() + LOW * low.double()) * scales
    assert torch.isfinite(found).all()
    off = (found - torch.tensor(x)).abs() / scales
    assert float(off.max()) <= 2.0**-23
    assert float((high.double() * scales - torch.tensor(x)).abs().div(scales).max()) <= 2.0**-12


def test_rows_of_zeros_stay_zeros():
    high, low, scales = split(torch.zeros(3, 4), 1)
    assert not high.any()
    assert not low.any()
    assert torch.isfinite(scales).all()


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("name", FUSED)
def test_a_fused_pass_is_a_product_with_the_matrix(engine, name, precise, rng):
    kernel, x, v = KERNELS[name], rng.standard_normal((200, 5)), rng.standard_normal((200, 3))
    program = program_of(kernel)
    if why_not_fused(program, precise=precise) is not None:
        pytest.skip("roughly alone")
    rows = engine.load(x, kernel, FLOAT64, width=64)
    whole = Halves.of(program, [rows.side(slice(0, 200))], 200, precise=precise)
    few = Halves.of(program, [rows.side_of(x[:9] + 0.1)], 9, precise=precise)
    exact, scale = kernel(x) - 0.1, np.abs(kernel(x)).max() * np.abs(v).sum(axis=0)
    # Entries are off by some roundings of half floats, or of float32, times the slope of the formula.
    unit = 3e-6 if precise else 6e-3
    found = fused_times(program, whole, whole, v, engine.place, precise=precise, minus=0.1)
    assert np.all(np.abs(found - exact @ v) <= unit * scale)
    found = fused_times(program, few, whole, v, engine.place, precise=precise)
    assert np.all(np.abs(found - kernel(x[:9] + 0.1, x) @ v) <= unit * scale)


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("name", ["rbf", "poly2", "matern-3/2", "cosine"])
def test_tiles_for_both_sides_of_the_diagonal(engine, name, precise, monkeypatch, rng):
    """Several strips a program, several bands, and rows beyond the last strip."""
    n = 20_000 if engine.place.kind == "cuda" else 1400
    monkeypatch.setattr(fused, "band_rows", lambda _programs, _columns: 512)
    kernel, x, v = KERNELS[name], rng.standard_normal((n, 40)), rng.standard_normal((n, 3))
    x *= (1.0 + np.arange(40)) ** -1.0
    program, rows = program_of(kernel), engine.load(x, kernel, FLOAT64, width=64)
    whole = Halves.of(program, rows.sides(512), n, precise=precise)
    right = engine.place.tensor(v, FLOAT32)
    first, second, once = (
        fused_columns(program, whole, whole, right, precise=precise, minus=0.1, mirror=mirror).cpu()
        for mirror in (True, True, False)
    )
    assert torch.equal(first, second)
    some = rng.choice(n, 200, replace=False)
    exact, scale = (kernel(x[some], x) - 0.1) @ v, np.abs(kernel(x[some])).max()
    unit = (3e-6 if precise else 6e-3) * scale * np.abs(v).sum(axis=0)
    for found in (first, once):
        assert np.all(np.abs(found.numpy()[some] - exact) <= unit)


def test_two_passes_give_the_same_bits(engine, rng):
    kernel, x, v = VALID["rbf"], rng.standard_normal((300, 5)), rng.standard_normal((300, 130))
    program, rows = program_of(kernel), engine.load(x, kernel, FLOAT64, width=64)
    whole = Halves.of(program, [rows.side(slice(0, 300))], 300, precise=False)
    first, second = (
        fused_times(program, whole, whole, v, engine.place, precise=False) for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)
    assert first.shape == v.shape


@pytest.mark.parametrize("spread", [1.0, 1e6])
@pytest.mark.parametrize("precise", [False, True])
def test_rows_of_sizes_far_apart_have_scales_of_their_own(engine, precise, spread, rng):
    kernel, v = VALID["rbf"], rng.standard_normal((200, 3))
    x = rng.standard_normal((200, 5))
    x[0] *= spread
    program, rows = program_of(kernel), engine.load(x, kernel, FLOAT64, width=64)
    whole = Halves.of(
        program, [rows.side(slice(0, 90)), rows.side(slice(90, 200))], 200, precise=precise
    )
    assert (whole.scale is None) == (spread > 1.0)
    found = fused_times(program, whole, whole, v, engine.place, precise=precise)
    unit = 3e-6 if precise else 6e-3
    assert np.all(np.abs(found - kernel(x) @ v)[1:] <= unit * np.abs(v).sum(axis=0))


def halved(parts):
    return TileStore(minus=0.1, rounding=Rounding(halves=parts))


@pytest.mark.parametrize("name", ["rbf", "poly2", "matern-3/2", "matern-1/2", "laplacian"])
def test_halves_agree_with_tiles(engine, name, rng):
    """Rough products, and precise ones where they are asked for; without such a form, torch tiles."""
    kernel, x, v = VALID[name], rng.standard_normal((200, 5)), rng.standard_normal((200, 3))
    fusing = TorchEngine(engine.device, fused=True)
    most = fusing.facts().halves(kernel)
    assert most == {"laplacian": 0, "matern-1/2": 1}.get(name, 2)
    plain = engine.load(x, kernel, FLOAT64, width=64, store=TileStore(minus=0.1))
    expected = engine.gram_times(kernel, plain, v)
    scale = np.abs(kernel(x)).max() * np.abs(v).sum(axis=0)
    for parts in (1, 2):
        rows = fusing.load(x, kernel, FLOAT64, width=64, store=halved(parts))
        for rough, unit in ((True, 6e-3), (False, 3e-6 if min(parts, most) > 1 else 1e-14)):
            found = fusing.gram_times(kernel, rows, v, rough=rough)
            assert np.all(np.abs(found - expected) <= unit * scale)
        assert rows.kept is None or not rows.kept.n_rounded


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64])
def test_a_fit_by_halves(engine, dtype, rng):
    """What is told of the result is true."""
    x = (rng.standard_normal((700, 4)) / [1.0, 2.0, 3.0, 4.0]).astype(dtype)
    fusing = TorchEngine(engine.device, fused=True)
    plan = Plan("dual", BlockKrylov(tol=1e-6), Halved(256, 2), 0)
    operator = gram_operator(VALID["rbf"], x, plan, None, engine=fusing)
    pairs = plan.solver(operator, 3, rng=np.random.default_rng(0))
    h = np.eye(700) - 1.0 / 700
    matrix = h @ VALID["rbf"](x.astype(np.float64)) @ h
    np.testing.assert_allclose(pairs.values, np.linalg.eigvalsh(matrix)[::-1][:3], rtol=1e-6)
    true = np.linalg.norm(matrix @ pairs.vectors - pairs.vectors * pairs.values, axis=0)
    assert np.all(true / pairs.values[0] <= pairs.residuals)
    assert operator.gram.x.halves is not None
    assert operator.gram.exact.x.kept is None  # no float64 tile of it was made


def test_out_of_memory_leaves_it_to_tiles(engine, monkeypatch, rng):
    kernel, x, v = VALID["rbf"], rng.standard_normal((200, 5)), rng.standard_normal((200, 3))

    def starved(*_, **__):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(fused, "fused_times", starved)
    fusing = TorchEngine(engine.device, fused=True)
    stores = halved(2), TileStore(minus=0.1)
    rows = [fusing.load(x, kernel, FLOAT64, width=64, store=each) for each in stores]
    with pytest.warns(EngineWarning, match="not enough memory"):
        found = fusing.gram_times(kernel, rows[0], v)
    np.testing.assert_array_equal(found, engine.gram_times(kernel, rows[1], v))
    assert rows[0].halves is None


def test_values_out_of_range_leave_it_to_tiles(engine, monkeypatch, rng):
    """What is no number in half floats is not tried again."""
    kernel, x, v = VALID["rbf"], rng.standard_normal((200, 5)), rng.standard_normal((200, 3))
    calls = []

    def nothing(*_, **__):
        calls.append(1)
        return np.full((200, 3), np.nan)

    monkeypatch.setattr(fused, "fused_times", nothing)
    fusing = TorchEngine(engine.device, fused=True)
    rows = fusing.load(x, kernel, FLOAT64, width=64, store=halved(2))
    with pytest.warns(EngineWarning, match="overflow"):
        fusing.gram_times(kernel, rows, v, rough=True)
    for rough in (True, False):
        found = fusing.gram_times(kernel, rows, v, rough=rough)
        np.testing.assert_allclose(found, (kernel(x) - 0.1) @ v, atol=1e-12)
    assert len(calls) == 1


def test_a_pass_that_does_not_compile_leaves_it_to_tiles(engine, monkeypatch, rng):
    kernel, x, v = VALID["rbf"], rng.standard_normal((200, 5)), rng.standard_normal((200, 3))

    def broken(_text):
        msg = "Failed to find C compiler. Please specify via CC environment variable."
        raise RuntimeError(msg)

    monkeypatch.setattr(fused, "compiled_passes", broken)
    fusing = TorchEngine(engine.device, fused=True)
    rows = fusing.load(x, kernel, FLOAT64, width=64, store=halved(2))
    with pytest.warns(EngineWarning, match=r"slower tiles instead: RuntimeError: failed to find C"):
        found = fusing.gram_times(kernel, rows, v)
    np.testing.assert_allclose(found, (kernel(x) - 0.1) @ v, atol=1e-12)


class OutOfResources(Exception):
    pass


def test_devices_with_little_shared_memory_have_smaller_blocks(engine, monkeypatch, rng):
    kernel, x, v = VALID["rbf"], rng.standard_normal((200, 5)), rng.standard_normal((200, 3))
    program, rows = program_of(kernel), engine.load(x, kernel, FLOAT64, width=64)
    whole = Halves.of(program, [rows.side(slice(0, 200))], 200, precise=False)
    expected = fused_times(program, whole, whole, v, engine.place, precise=False)
    usual, seen = fused.compiled_passes, []

    class Picky:
        def __init__(self, run):
            self.run = run

        def __getitem__(self, grid):
            def launch(*args, **constants):
                seen.append((constants["BM"], constants["BN"], constants["num_stages"]))
                if constants["BN"] > 64:
                    raise OutOfResources
                return self.run[grid](*args, **constants)

            return launch

    def picky(text):
        return {"mercer_pass": Picky(usual(text)["mercer_pass"])}

    monkeypatch.setattr(fused, "compiled_passes", picky)
    found = fused_times(program, whole, whole, v, engine.place, precise=False)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert [cut[1] for cut in seen] == [128, 128, 64]


@pytest.mark.parametrize("precise", [False, True])
def test_what_is_held_is_counted(engine, precise, rng):
    kernel, n, d = VALID["rbf"], 3000, 40
    x = rng.standard_normal((n, d))
    program, rows = program_of(kernel), engine.load(x, kernel, FLOAT64, width=64)
    whole = Halves.of(program, rows.sides(512), n, precise=precise)
    tensors = [whole.high, whole.low, whole.scales, *whole.norms, whole.lengths, whole.own]
    held = sum(t.numel() * t.element_size() for t in tensors if t is not None)
    assert held <= halves_bytes(n, d, 1 + precise)


def test_without_triton_the_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(MercerError, match=r'This needs triton.*pip install "mercer\[gpu\]"'):
        TorchEngine("torch:cpu", fused=True)
