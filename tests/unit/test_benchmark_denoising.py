"""The denoising benchmark: its noise is what it says, its parts are apart, and it judges what it chose."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from mercer import PCA

# The benchmark is not packaged: it is found from the repository's root, for these imports only.
ROOT = str(Path(__file__).resolve().parents[2])
sys.path.insert(0, ROOT)
try:
    data = import_module("benchmarks.denoising.data")
    report = import_module("benchmarks.denoising.report")
    ways = import_module("benchmarks.denoising.ways")
finally:
    sys.path.remove(ROOT)


@pytest.fixture(scope="module")
def parts():
    return data.small()


def test_gaussian_noise_has_half_of_the_grey_range():
    x = np.full((300, 64), 0.25)
    noise = data.NOISES["gaussian"](x, np.random.default_rng(0)) - x
    assert noise.std() == pytest.approx(0.5, rel=0.02)
    assert abs(noise.mean()) < 0.01


def test_speckle_sets_two_pixels_in_five_to_black_or_white():
    noisy = data.NOISES["speckle"](np.full((300, 64), 0.25), np.random.default_rng(0))
    assert set(np.unique(noisy)) == {0.0, 0.25, 1.0}
    assert np.mean(noisy != 0.25) == pytest.approx(0.4, abs=0.01)
    assert np.mean(noisy == 1.0) == pytest.approx(0.2, abs=0.01)


def test_training_validation_and_test_digits_are_apart(tmp_path):
    seen = np.arange(40, dtype=np.uint8).repeat(4).reshape(40, 2, 2)
    unseen = seen + 100
    np.savez(tmp_path / "mnist.npz", X_train=seen, X_test=unseen)
    cut = data.mnist(tmp_path, n_train=20, n_check=10, n_test=15)
    train, check, test = (
        {int(row[0] * 255 + 0.5) for row in p} for p in (cut.train, cut.check, cut.test)
    )
    assert (len(train), len(check), len(test)) == (20, 10, 15)
    assert not train & check
    assert max(train | check) < 100 <= min(test)


@pytest.mark.parametrize("k", [1, 7, 30])
def test_linear_denoising_is_that_of_pca(parts, k):
    x = parts.check + 0.1
    by_count = {knobs["k"]: denoise for knobs, denoise in ways.linear(parts)}
    np.testing.assert_allclose(by_count[k](x), PCA(k).fit(parts.train).reconstruct(x), atol=1e-10)


def test_the_nearest_way_gives_back_what_it_knows(parts):
    knobs, denoise = next(ways.neighbours(parts))
    assert knobs == {"neighbours": 1}
    np.testing.assert_array_equal(denoise(parts.train[:5]), parts.train[:5])


def test_the_setting_with_the_least_error_is_chosen_for_each_noise():
    clean = np.zeros((2, 3))
    noisy = {"low": clean + 1.0, "high": clean + 10.0}
    settings = iter([({"shift": s}, lambda x, s=s: x - s) for s in (0.0, 2.0, 9.0)])
    trials, best = ways.tried("shift", settings, noisy, clean)
    assert [trial.errors["high"] for trial in trials] == [100.0, 64.0, 1.0]
    assert best["low"][0].knobs == {"shift": 0.0}  # 1 against 1: the first
    assert best["high"][0].knobs == {"shift": 9.0}


def test_a_way_that_does_not_take_the_kernel_is_left_out(parts, capsys):
    assert list(ways.kernel(parts, "exact", (2,), (1.0,))) == []
    assert "exact: left out" in capsys.readouterr().err


def test_the_table_has_a_line_for_each_way():
    rows = [
        {"way": way, "noise": noise, "error": 0.25, "knobs": {"k": 3}, "seconds": None}
        for way in ("noisy", "PCA")
        for noise in ("gaussian", "speckle")
    ]
    lines = report.markdown(rows).splitlines()
    assert len(lines) == 4
    assert lines[3] == "| PCA | 0.2500 | k = 3 |  | 0.2500 | k = 3 |  |"


def test_parts_hold_grey_levels(parts):
    assert isinstance(parts, data.Parts)
    for rows in (parts.train, parts.check, parts.test):
        assert rows.min() >= 0.0
        assert rows.max() <= 1.0
        assert rows.shape[1] == parts.shape[0] * parts.shape[1]
