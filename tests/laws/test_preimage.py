"""Laws of the way back."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA as Reference

import mercer
from mercer.errors import PreimageWarning
from mercer.kernels import RBF
from mercer.preimage import PREIMAGES, Ridge


@pytest.fixture(scope="module")
def digits():
    # In a seeded order: theirs is by writer, and rows of other writers are not like those of the fit.
    x = np.random.default_rng(0).permutation(load_digits().data)[:600] / 16.0
    return x[:450], x[450:]


def error(model, rows):
    return np.sqrt(np.mean((model.inverse_transform(model.transform(rows)) - rows) ** 2))


@pytest.mark.parametrize("name", sorted(set(PREIMAGES) - {"exact"}))
def test_training_rows_come_back_when_all_components_are_kept(name, rng):
    x = rng.standard_normal((60, 3))
    model = mercer.KernelPCA(None, kernel=RBF(0.3), preimage=name).fit(x)
    assert error(model, x) < 1e-3


def test_the_chosen_penalty_is_no_worse_than_scikit_learns_best(digits):
    train, held = digits
    ours = error(mercer.KernelPCA(20, kernel=RBF(0.05), preimage="ridge").fit(train), held)
    theirs = [
        error(
            Reference(20, kernel="rbf", gamma=0.05, fit_inverse_transform=True, alpha=alpha).fit(
                train
            ),
            held,
        )
        for alpha in (1.0, 1e-1, 1e-2, 1e-3)
    ]
    assert ours <= 1.02 * min(theirs)
    assert ours < 0.95 * theirs[0]  # its default


def test_what_is_linear_comes_back_with_its_mean(rng):
    x = rng.standard_normal((80, 3)) @ np.diag([3.0, 2.0, 1.0]) + 10.0
    model = mercer.KernelPCA(3, kernel="linear", preimage="ridge").fit(x)
    np.testing.assert_allclose(model.inverse_transform(model.transform(x)), x, atol=1e-3)


def test_quality_is_held_out_and_stands_beside_the_mean(digits):
    train, held = digits
    model = mercer.KernelPCA(20, kernel=RBF(0.05), preimage="ridge").fit(train)
    quality = model.preimage_.quality
    assert quality.error == pytest.approx(error(model, held), rel=0.1)
    assert quality.error_of_mean == pytest.approx(
        np.sqrt(np.mean((held - train.mean(0)) ** 2)), rel=0.1
    )
    assert "error of the mean" in str(quality)


def test_given_knobs_are_kept_and_left_ones_chosen(digits):
    train, _ = digits
    model = mercer.KernelPCA(5, kernel=RBF(0.05), preimage=Ridge(alpha=0.5)).fit(train)
    assert model.preimage_.method.alpha == 0.5
    assert model.preimage_.method.gamma != "auto"
    assert model.preimage == Ridge(alpha=0.5)  # the user's object stays as it was


def test_float32_comes_back_as_well_as_float64(rng):
    x = rng.standard_normal((200, 2))
    errors = [
        error(mercer.KernelPCA(20, kernel=RBF(1.0), preimage="ridge").fit(rows), rows)
        for rows in (x, x.astype(np.float32))
    ]
    assert errors[1] < 2 * errors[0] + 1e-3


def test_three_rows_are_enough(rng):
    x = rng.standard_normal((3, 2))
    model = mercer.KernelPCA(1, kernel=RBF(0.5), preimage="ridge").fit(x)
    assert np.isfinite(model.inverse_transform(model.transform(x))).all()


def test_refitting_without_it_forgets_it(rng):
    x = rng.standard_normal((20, 2))
    model = mercer.KernelPCA(1, preimage="ridge").fit(x)
    model.set_params(preimage=None).fit(x)
    assert not hasattr(model, "preimage_")


# ── rows with noise ─────────────────────────────────────────────────────────
def speckled(x, rng):
    return np.where(rng.random(x.shape) < 0.4, rng.integers(0, 2, x.shape), x)


def blurred(x, rng):
    return x + 0.5 * rng.standard_normal(x.shape)


@pytest.mark.filterwarnings("ignore::mercer.errors.PreimageWarning")
@pytest.mark.parametrize("noise", [speckled, blurred])
@pytest.mark.parametrize("name", ["distances", "ridge"])
def test_quality_foretells_whether_noisy_rows_come_back_better_than_the_mean(name, noise, digits):
    train, held = digits
    noisy = noise(held, np.random.default_rng(1))
    median = RBF("median").resolve(train, rng=np.random.default_rng(0)).gamma
    of_mean = np.sqrt(np.mean((held - train.mean(axis=0)) ** 2))
    for width in (0.3, 1.0, 2.0):  # in median distances
        model = mercer.KernelPCA(8, kernel=RBF(median / width**2), preimage=name).fit(train)
        quality = model.preimage_.quality
        assert quality.error < 0.8 * quality.error_of_mean  # clean rows show nothing
        found = np.sqrt(np.mean((model.reconstruct(noisy) - held) ** 2))
        assert found == pytest.approx(quality.noisy, rel=0.15)
        assert ("worse than the mean" in str(quality)) == (not quality.survives_noise)
        if width > 1.0:
            assert found < 0.95 * of_mean
            assert quality.survives_noise
        elif name == "distances" and width < 1.0:
            assert found > of_mean
            assert not quality.survives_noise


def test_a_kernel_too_narrow_for_noise_is_told_at_fit(digits):
    train = digits[0]
    median = RBF("median").resolve(train, rng=np.random.default_rng(0)).gamma
    with pytest.warns(PreimageWarning, match=r"suits clean rows only.*use a wider kernel"):
        mercer.KernelPCA(8, kernel=RBF(median / 0.3**2), preimage="distances").fit(train)
    mercer.KernelPCA(8, kernel=RBF(median / 2.0**2), preimage="distances").fit(train)
