"""Blocks that are tuned on a device: by NumPy in place of Triton, and on the GPU where there is one."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'mercer[gpu]'")

import torch

from markets.kernels import VALID
from markets.triton import in_place_of_triton
from mercer.engine.base import FLOAT64, Rounding, TileStore
from mercer.engine.native.engine import program_of
from mercer.engine.torch import TorchEngine, fused, tuned
from mercer.engine.torch.fused import Halves, Launch, fused_columns
from mercer.engine.torch.source import source
from mercer.engine.torch.tuned import Blocks

NAMES = ["torch:cpu", *(["cuda"] if torch.cuda.is_available() else [])]
N = 700
KERNEL = VALID["rbf"]


@pytest.fixture(params=NAMES)
def device(request, monkeypatch, tmp_path):
    """Products of 600 rows are long, a trial has 256 of them, and nothing else is in the folder."""
    if request.param == "torch:cpu":
        in_place_of_triton(monkeypatch)
    monkeypatch.setattr(fused, "is_long", lambda n, m: min(n, m) >= 600)
    monkeypatch.setattr(tuned, "TRIAL_ROWS", 256)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("MERCER_TUNE", raising=False)
    return request.param


@pytest.fixture
def noted(monkeypatch):
    """Blocks with which passes were launched over so many rows."""
    calls, usual = [], Launch.__call__

    def call(self, cut):
        calls.append((self.x.n, cut))
        return usual(self, cut)

    monkeypatch.setattr(Launch, "__call__", call)
    return calls


def faster(monkeypatch, chosen):
    """Trials say that these blocks are the fastest, after they have run."""

    def of(launch):
        seconds_of = tuned.trials_of(launch)
        return lambda cut: seconds_of(cut) and (0.5 if cut == chosen else 1.0)

    monkeypatch.setattr(fused, "trials_of", of)


def loaded(engine, x):
    store = TileStore(minus=0.1, rounding=Rounding(halves=2))
    return engine.load(x, KERNEL, FLOAT64, width=64, store=store)


def launch_of(engine, x, v, *, precise=True, mirrors=False):
    program, rows = program_of(KERNEL), engine.load(x, KERNEL, FLOAT64, width=64)
    whole = Halves.of(program, rows.sides(512), len(x), precise=precise)
    right = engine.place.tensor(v, np.dtype(np.float32))
    own = {"precise": precise, "mirrors": mirrors, "minus": 0.1}
    return Launch.of(source(program, precise=precise), whole, whole, right, **own)


def test_a_fit_is_tuned_before_its_first_long_product(device, noted, monkeypatch, rng):
    """By trials on a slice; short products have the table's blocks before and after, and so has who is not
    to look for others. Who reads what was written has the bits of who wrote it."""
    x, v = rng.standard_normal((N, 5)), rng.standard_normal((N, 3))
    usual = Blocks.usual(16, precise=True)
    chosen = replace(usual, BN=usual.BN * 2)
    faster(monkeypatch, chosen)
    products = []
    for tune in (True, False, True):
        engine = TorchEngine(device, fused=True, tune=tune)
        few, rows = loaded(engine, x[:300]), loaded(engine, x)
        noted.clear()
        short = [engine.gram_times(KERNEL, few, v[:300])]
        products.append([engine.gram_times(KERNEL, rows, v) for _ in range(2)])
        short.append(engine.gram_times(KERNEL, few, v[:300]))
        np.testing.assert_array_equal(*short)
        np.testing.assert_array_equal(*products[-1])
        tried = [cut for n, cut in noted if n == 256]
        assert [cut for n, cut in noted if n == 300] == [usual] * 2
        assert [cut for n, cut in noted if n == N] == [chosen] * 2
        assert set(tried) == set(tuned.candidates(usual, 16) if len(products) == 1 else ())
        np.testing.assert_array_equal(products[0][0], products[-1][0])
    exact = (KERNEL(x) - 0.1) @ v
    assert np.all(np.abs(products[0][0] - exact) <= 3e-6 * np.abs(v).sum(axis=0))


def test_without_being_asked_the_table_holds(device, noted, rng, tmp_path):
    x, v = rng.standard_normal((N, 5)), rng.standard_normal((N, 3))
    engine = TorchEngine(device, fused=True)
    engine.gram_times(KERNEL, loaded(engine, x), v)
    assert noted == [(N, Blocks.usual(16, precise=True))]
    assert not list(tmp_path.iterdir())


def test_a_choice_that_has_no_room_leaves_it_to_the_table(device, monkeypatch, rng, tmp_path):
    x, v = rng.standard_normal((N, 5)), rng.standard_normal((N, 3))
    engine = TorchEngine(device, fused=True)
    launch = launch_of(engine, x, v)
    huge = Blocks(BM=256, BN=256, BK=16, num_stages=5)
    tuned.write(tmp_path / "mercer", launch.kind.key, huge)
    usual, calls = Launch.__call__, []

    class OutOfResources(Exception):
        pass

    def call(self, cut):
        calls.append(cut)
        if cut == huge:
            raise OutOfResources
        return usual(self, cut)

    monkeypatch.setattr(Launch, "__call__", call)
    found = engine.gram_times(KERNEL, loaded(engine, x), v)
    assert calls == [huge, Blocks.usual(16, precise=True)]
    assert np.all(np.abs(found - (KERNEL(x) - 0.1) @ v) <= 3e-6 * np.abs(v).sum(axis=0))


@pytest.mark.parametrize("mirrors", [False, True])
@pytest.mark.parametrize("precise", [False, True])
def test_a_trial_is_a_product_of_some_rows(device, precise, mirrors, rng):
    x, v = rng.standard_normal((N, 40)), rng.standard_normal((N, 3))
    engine = TorchEngine(device, fused=True)
    launch = launch_of(engine, x, v, precise=precise, mirrors=mirrors)
    some = launch.x.first(256)
    found = replace(launch, x=some, z=some)(Blocks(BN=64))
    exact = (KERNEL(x[:256]) - 0.1) @ v[:256]
    unit = 3e-6 if precise else 6e-3
    assert np.all(np.abs(found.cpu().numpy() - exact) <= unit * np.abs(v).sum(axis=0))
    assert launch.x.first(N) is launch.x
    assert tuned.trials_of(launch)(Blocks(BN=64)) > 0.0


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("mirrors", [False, True])
def test_all_candidates_compute_the_same(device, precise, mirrors, rng):
    x, v = rng.standard_normal((N, 64)) / 8.0, rng.standard_normal((N, 3))
    engine = TorchEngine(device, fused=True)
    launch = launch_of(engine, x, v, precise=precise, mirrors=mirrors)
    found = []
    for cut in tuned.candidates(launch.usual, 64):
        try:
            found.append(launch(cut).cpu())
        except Exception as error:
            if type(error).__name__ != "OutOfResources":  # more shared memory than a device has
                raise
    assert len(found) > 2
    for each in found[1:]:
        off = (each - found[0]).abs().max() / found[0].abs().max()
        assert float(off) <= tuned.AGREES[precise] / 8.0


def test_blocks_that_are_not_to_be_trusted_have_no_time(device, monkeypatch, rng):
    """Whose numbers are others than those of the first, or others in each run."""
    x, v = rng.standard_normal((N, 5)), rng.standard_normal((N, 3))
    launch, usual = launch_of(TorchEngine(device, fused=True), x, v), Launch.__call__
    wrong, restless = Blocks(BN=32, BK=16), Blocks(BM=64, BK=16)
    noise = iter(1e-7 * np.arange(100))

    def call(self, cut):
        found = usual(self, cut)
        return found * (1.001 if cut == wrong else 1.0 + next(noise) if cut == restless else 1.0)

    monkeypatch.setattr(Launch, "__call__", call)
    seconds_of = tuned.trials_of(launch)
    assert seconds_of(launch.usual) > 0.0
    assert seconds_of(wrong) is None
    assert seconds_of(restless) is None


def test_columns_beyond_those_of_a_pass_have_blocks_of_their_own(device, noted, rng, monkeypatch):
    x, v = rng.standard_normal((N, 5)), rng.standard_normal((N, 130))
    engine = TorchEngine(device, fused=True, tune=True)
    monkeypatch.setattr(fused, "trials_of", lambda _launch: lambda cut: float(cut.BN))
    engine.gram_times(KERNEL, loaded(engine, x), v)
    assert len(noted) == 2
    keys = list((tuned.cache_folder() / "blocks").iterdir())
    assert len(keys) == 2  # for 128 columns, and for 16


def test_blocks_that_are_given_are_taken(device, noted, rng):
    x, v = rng.standard_normal((N, 5)), rng.standard_normal((N, 3))
    engine = TorchEngine(device, fused=True, tune=True)
    launch, cut = launch_of(engine, x, v), Blocks(64, 64, 16, 4, 2)
    right = engine.place.tensor(v, np.dtype(np.float32))
    own = {"precise": True, "blocks": cut, "choices": engine.choices}
    fused_columns(program_of(KERNEL), launch.x, launch.x, right, **own)
    assert noted == [(N, cut)]
