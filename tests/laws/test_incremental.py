"""Laws of kernel PCA on a stream: the sums, the dictionary, the certificate, and what a batch fit finds."""

import pickle
import tracemalloc
import warnings
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA as Reference
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import kernels as gp
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from conftest import frozen
from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from mercer import IncrementalKernelPCA, KernelPCA, load
from mercer._core.errors import (
    InputError,
    KernelError,
    MercerWarning,
    RankWarning,
    ZeroVarianceError,
)
from mercer.engine.native import compiled
from mercer.engine.pairwise import squared_norms
from mercer.kernels import (
    RBF,
    Custom,
    GaussianProcess,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Sigmoid,
)
from mercer.stream.dictionary import Dictionary, row_weights, stream_bytes
from mercer.stream.incremental import Rules, Stream, second_moment

KERNELS = {
    "rbf": RBF(0.2),
    "rbf-wide": RBF(0.01),
    "rbf-narrow": RBF(2.0),
    "laplacian": Laplacian(0.3),
    "linear": Linear(),
    "poly3": Polynomial(3, gamma=0.3),
    "sum": RBF(0.3) + 0.5 * Linear(),
}


def gaussians(n, d, *, seed=0, centres=6, spread=4.0):
    rng = np.random.default_rng(seed)
    middle = spread * rng.standard_normal((centres, d))
    return frozen(middle[rng.integers(centres, size=n)] + rng.standard_normal((n, d)))


def drifting(n, *, seed=0):
    """A flat cloud that moves along its first axis, and turns."""
    rng = np.random.default_rng(seed)
    time = np.linspace(0.0, 1.0, n)
    wide, thin = 2.0 * rng.standard_normal(n), 0.5 * rng.standard_normal(n)
    cos, sin = np.cos(1.5 * time), np.sin(1.5 * time)
    return frozen(np.column_stack([20.0 * time + cos * wide - sin * thin, sin * wide + cos * thin]))


def cut(x, size):
    return [x[i : i + size] for i in range(0, x.shape[0], size)]


def dense_eigenvalues(kernel, x, w):
    """Of √w H K Hᵀ √w with H = I - 1wᵀ/Σw: the weighted kernel PCA, written out."""
    k = kernel(np.asarray(x, dtype=np.float64))
    h = np.eye(len(w)) - np.outer(np.ones(len(w)), w) / w.sum()
    root = np.sqrt(w)
    return np.linalg.eigvalsh(root[:, None] * (h @ k @ h.T) * root)[::-1]


def fades(n, forgetting):
    return forgetting ** np.arange(n - 1, -1, -1.0)


def streamed(kernel, batches, rules, *, seed=0):
    stream = Stream.start(kernel, batches[0], seed=seed)
    for batch in batches:
        stream = stream.absorbed(batch, None, rules)
    return stream


# ── the sums and the certificate ────────────────────────────────────────────
def embedded(kernel, x):
    """Φ (n, n) with Φ Φᵀ = K: the rows as points of a space of finite dimension."""
    values, vectors = np.linalg.eigh(kernel(np.asarray(x, dtype=np.float64)))
    return vectors * np.sqrt(np.maximum(values, 0.0))


def replayed(phi, x, batches, rules, kernel):
    """The same stream, and beside it every row's stand-in as a vector: projected by least squares."""
    places = {row.tobytes(): i for i, row in enumerate(x)}
    stream, stand_in = Stream.start(kernel, x, seed=3), np.zeros((0, phi.shape[1]))
    sizes = []
    for batch in batches:
        before = stream.dictionary
        stream = stream.absorbed(batch, None, rules)
        here = slice(len(stand_in), len(stand_in) + len(batch))
        z = phi[[places[row.tobytes()] for row in stream.dictionary.points]]
        q, _ = np.linalg.qr(z.T)
        stand_in = np.concatenate([stand_in, phi[here]]) @ q @ q.T
        sizes.append((before.size, stream.dictionary is not before))
    return stream, stand_in, sizes


@pytest.mark.parametrize("forgetting", [1.0, 0.98])
@pytest.mark.parametrize("name", ["rbf", "laplacian", "sum"])
def test_the_sums_are_those_of_the_stand_ins(name, forgetting):
    x = drifting(180, seed=4)
    kernel, rules = KERNELS[name], Rules(12, 1e-6, forgetting)
    phi, w = embedded(kernel, x), fades(180, forgetting)
    stream, stand_in, sizes = replayed(phi, x, cut(x, 15), rules, kernel)
    assert sum(full == 12 and changed for full, changed in sizes) >= 3  # points were exchanged
    mean = w @ stand_in / w.sum()
    centred = np.sqrt(w)[:, None] * (stand_in - mean)
    scale = float(w @ squared_norms(phi))
    expected = np.linalg.svd(centred, compute_uv=False)[:12] ** 2
    found = np.linalg.eigvalsh(stream.moments.scatter)[::-1]
    np.testing.assert_allclose(found, expected, atol=1e-9 * scale)
    assert stream.moments.weight == pytest.approx(w.sum(), rel=1e-12)
    assert np.linalg.norm(stream.moments.mean) == pytest.approx(np.linalg.norm(mean), rel=1e-9)
    assert stream.trace == pytest.approx(scale, rel=1e-9)
    assert stream.lost == pytest.approx(scale - float(w @ squared_norms(stand_in)), rel=1e-6)
    error = float(w @ squared_norms(phi - stand_in))
    assert error <= stream.error < 6.0 * error
    norm = np.linalg.norm(np.sqrt(w)[:, None] * (phi - stand_in), ord=2) ** 2
    assert norm <= stream.norm < 40.0 * norm  # each exchange of points costs a triangle inequality
    assert stream.norm < stream.error


def test_the_error_of_rows_projected_twice_is_bounded_and_more_than_what_they_lost():
    """Squared errors of successive projections do not add up; their roots do, at most."""
    ratios = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        n, m, size = int(rng.integers(6, 30)), int(rng.integers(1, 3)), int(rng.choice([1, 2, 4]))
        forgetting = float(rng.choice([1.0, 0.8]))
        x = rng.standard_normal((n, 3)) * rng.choice([1.0, 3.0], size=(n, 1))
        x = frozen(x + 4.0 * np.linspace(0.0, 1.0, n)[:, None] * rng.standard_normal(3))
        stream, stand_in, _ = replayed(x, x, cut(x, size), Rules(m, 1e-6, forgetting), Linear())
        rest = np.sqrt(fades(n, forgetting))[:, None] * (x - stand_in)
        error = float(squared_norms(rest).sum())
        assert error <= stream.error
        assert np.linalg.norm(rest, ord=2) ** 2 <= stream.norm
        ratios.append(error / stream.lost)
    assert max(ratios) > 1.03


def certificate_cases():
    rng = np.random.default_rng(20)
    for i in range(84):
        name = sorted(KERNELS)[i % len(KERNELS)]
        size, landmarks = int(rng.choice([1, 7, 30, 130])), int(rng.choice([5, 15, 40, 200]))
        forgetting = float(rng.choice([1.0, 0.99, 0.9]))
        tol = float(rng.choice([0.0, 1e-4, 1e-2]))
        dtype = [np.float64, np.float32][i // len(KERNELS) % 2]
        label = f"{i}-{name}-{np.dtype(dtype)}-b{size}-m{landmarks}-f{forgetting:g}-tol{tol:g}"
        yield pytest.param(name, size, Rules(landmarks, tol, forgetting), dtype, i, id=label)


@pytest.mark.parametrize(("name", "size", "rules", "dtype", "seed"), list(certificate_cases()))
def test_the_true_eigenvalues_lie_within_the_bounds(name, size, rules, dtype, seed):
    x = (drifting(130, seed=seed) if seed % 2 else gaussians(130, 3, seed=seed)).astype(dtype)
    kernel = KERNELS[name]
    fit = streamed(kernel, cut(x, size), rules, seed=seed).fit(None)
    true = dense_eigenvalues(kernel, x, fades(130, rules.forgetting))[: len(fit.eigenvalues)]
    low, high = fit.bounds.T
    assert np.all(low <= true)
    assert np.all(true <= high)
    assert fit.certificate.kind == "around"
    if rules.max_landmarks == 200:  # never full: the dictionary misses what it may
        assert fit.trace_error <= rules.tol + 2e-5  # in float32 small residuals are left alone
        assert high[0] - low[0] < 0.2 * true[0] or rules.tol == 1e-2


def test_noise_that_each_row_has_for_itself_is_missed_and_counted():
    kernel = GaussianProcess(gp.RBF(2.0) + gp.WhiteKernel(0.1))
    x = gaussians(150, 3, seed=27)
    fit = streamed(kernel, cut(x, 40), Rules(60, 1e-6, 1.0)).fit(5)
    true = dense_eigenvalues(kernel, x, np.ones(150))[:5]
    assert np.all((fit.bounds[:, 0] <= true) & (true <= fit.bounds[:, 1]))
    assert 0.1 / 1.1 < fit.trace_error < 0.2


# ── against a batch fit ─────────────────────────────────────────────────────
STATIONARY = {
    "gaussians": (gaussians(2400, 10, seed=1), RBF(0.005), 200),
    "digits": (frozen(np.random.default_rng(0).permutation(load_digits().data)), RBF(2e-4), 300),
}


@pytest.mark.parametrize("name", sorted(STATIONARY))
def test_a_shuffled_stream_finds_what_a_batch_fit_finds(name):
    x, kernel, m = STATIONARY[name]
    model = IncrementalKernelPCA(6, kernel=kernel, max_landmarks=m)
    for batch in cut(x, 200):
        model.partial_fit(batch)
    theirs = Reference(6, kernel="rbf", gamma=kernel.gamma, eigen_solver="arpack", random_state=0)
    expected = theirs.fit_transform(x)
    assert model.n_samples_seen_ == len(x)
    assert len(model.landmarks_) <= m < len(x) / 5
    np.testing.assert_allclose(model.eigenvalues_, theirs.eigenvalues_, rtol=0.01)
    total = np.trace(kernel(x)) - kernel(x).sum() / len(x)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, theirs.eigenvalues_ / total, rtol=0.01
    )
    found = model.transform(x)
    signs = np.sign(np.sum(found * expected, axis=0))
    gap = np.linalg.norm(found * signs - expected, axis=0) / np.linalg.norm(expected, axis=0)
    assert gap.max() < 0.12
    assert gap[0] < 0.02
    # Many directions are missed a little: no single one by much.
    assert model.fit_.certificate.norm < 0.15 * model.fit_.certificate.left_out


@pytest.mark.parametrize("size", [20, 100, 1000])
def test_a_drifting_stream_is_followed_only_with_forgetting(size):
    x, kernel = drifting(2000), RBF(0.1)
    window, recent = x[-1000:], x[-100:]  # what came before has faded to 4e-5
    true = dense_eigenvalues(kernel, window, fades(1000, 0.99))[:4]
    total = np.trace(kernel(recent)) - kernel(recent).sum() / 100
    model = IncrementalKernelPCA(4, kernel=kernel, max_landmarks=40, batch_size=size)
    follows, stays = clone(model).set_params(forgetting=0.99).fit(x), clone(model).fit(x)
    np.testing.assert_allclose(follows.eigenvalues_, true, rtol=0.01)
    shares = stays.eigenvalues_ / stays.eigenvalues_.sum()
    assert np.abs(shares - true / true.sum()).max() > 0.1
    # What the four axes tell of the last hundred rows, beside a batch fit to those very rows.
    best = Reference(4, kernel="rbf", gamma=0.1).fit(recent).eigenvalues_.sum() / total
    told = [100 * m.transform(recent).var(axis=0).sum() / total for m in (follows, stays)]
    assert told[0] > 0.9 * best
    assert told[1] < 0.1 * best
    # The dictionary moves on too.
    assert np.median(follows.landmarks_[:, 0]) > 15.0 > np.median(stays.landmarks_[:, 0])


def test_when_nothing_is_missed_the_fit_is_exact():
    x = gaussians(300, 4, seed=2)
    kernel = Polynomial(2, gamma=0.1)
    model = IncrementalKernelPCA(5, kernel=kernel, tol=0.0, batch_size=40).fit(x)
    theirs = Reference(5, kernel="poly", degree=2, gamma=0.1, coef0=1.0).fit(x)
    assert len(model.landmarks_) == 15  # monomials of degree up to 2 in 4 features
    np.testing.assert_allclose(model.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(np.abs(model.transform(x)), np.abs(theirs.transform(x)), atol=1e-6)
    assert model.fit_.trace_error < 2e-10
    np.testing.assert_allclose(model.fit_.bounds[0], theirs.eigenvalues_[0], rtol=1e-4)


# ── how the stream is cut, and what rows weigh ──────────────────────────────
@pytest.mark.parametrize("forgetting", [1.0, 0.97])
def test_how_the_stream_is_cut_does_not_matter(forgetting):
    x = gaussians(120, 3, seed=5)
    rules, kernel = Rules(50, 0.0, forgetting), Polynomial(2, gamma=0.2)
    expected = dense_eigenvalues(kernel, x, fades(120, forgetting))[:9]
    for size in (1, 7, 50, 120):
        fit = streamed(kernel, cut(x, size), rules).fit(None)
        np.testing.assert_allclose(fit.eigenvalues, expected, rtol=1e-9, atol=1e-9 * expected[0])
    model = IncrementalKernelPCA(4, kernel=kernel, tol=0.0, forgetting=forgetting)
    whole, pieces = clone(model).fit(x), clone(model).set_params(batch_size=11)
    for batch in cut(x, 29):
        pieces.partial_fit(batch)
    np.testing.assert_allclose(
        np.abs(pieces.transform(x)), np.abs(whole.transform(x)), atol=1e-8 * np.abs(x).max()
    )


@pytest.mark.parametrize("forgetting", [1.0, 0.95])
def test_whole_weights_are_repeated_rows(forgetting):
    x = gaussians(40, 3, seed=6)
    weights = np.random.default_rng(0).integers(0, 4, size=40)
    repeated = np.repeat(x, weights, axis=0)
    model = IncrementalKernelPCA(4, kernel="rbf", tol=0.0, forgetting=forgetting)
    ours = clone(model).fit(x, sample_weight=weights)
    theirs = clone(model).fit(repeated)
    assert ours.kernel_.gamma == theirs.kernel_.gamma
    rows = [{row.tobytes() for row in m.landmarks_} for m in (ours, theirs)]
    assert rows[0] == rows[1]
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(ours.transform(x), theirs.transform(x), atol=1e-8)
    assert ours.n_samples_seen_ == np.count_nonzero(weights)
    streamed_too = clone(model)
    for batch, w in zip(cut(x, 1), cut(weights, 1), strict=True):
        if w[0] or hasattr(streamed_too, "stream_"):
            streamed_too.set_params(kernel=ours.kernel_).partial_fit(batch, sample_weight=w)
    np.testing.assert_allclose(streamed_too.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)


def test_weights_of_rows_that_fade():
    past, w = row_weights(None, 4, 0.5)
    np.testing.assert_allclose(w, [0.125, 0.25, 0.5, 1.0])
    assert past == 0.0625
    past, w = row_weights(np.array([2.0, 3.0]), 2, 0.5)  # a, a, b, b, b
    np.testing.assert_allclose(w, [0.0625 + 0.125, 0.25 + 0.5 + 1.0])
    assert past == pytest.approx(0.5**5)
    _, w = row_weights(np.array([1e-12, 1e-12]), 2, 0.999)  # weights far below one do not fade
    np.testing.assert_allclose(w, 1e-12 * np.log(1 / 0.999) / (1 - 0.999), rtol=1e-9)


@pytest.mark.parametrize("f", [0.9, 0.999, 0.001])
@pytest.mark.parametrize("weights", [[1, 1e17, 1, 1], [3, 1e17, 2, 1e-17, 5], [1e17, 1e17, 2, 3]])
def test_a_huge_weight_does_not_blur_those_behind_it(weights, f):
    past, w = row_weights(np.array(weights, dtype=float), len(weights), f)
    with localcontext(prec=60):
        s, base = [Decimal(weight) for weight in weights], Decimal(f)
        true = [
            base ** sum(s[i + 1 :], Decimal(0)) * (1 - base ** s[i]) / (1 - base)
            for i in range(len(s))
        ]
    np.testing.assert_allclose(w, np.array(true, dtype=float), rtol=1e-12, atol=1e-300)
    assert past == 0.0


def test_a_stream_after_a_row_of_huge_weight_is_that_of_what_is_left(rng):
    """After a row that counts 1e17 times nothing is left of those before it."""
    before, heavy, after = (rng.standard_normal((m, 2)) for m in (20, 1, 9))
    weights = np.concatenate([np.ones(20), [1e17], np.ones(9)])
    kernel, f = RBF(0.5), 0.9
    ours = IncrementalKernelPCA(2, kernel=kernel, forgetting=f, tol=0.0)
    ours.fit(np.concatenate([before, heavy, after]), sample_weight=weights)
    left = np.concatenate([[f**9 / (1 - f)], f ** np.arange(8, -1, -1.0)])
    theirs = KernelPCA(2, kernel=kernel).fit(np.concatenate([heavy, after]), sample_weight=left)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-6)


# ── what `tol` says ─────────────────────────────────────────────────────────
def paired(rng):
    return np.repeat(rng.standard_normal((110, 1)), 2, axis=0)


def widening(rng):
    return rng.standard_normal((150, 2)) * np.logspace(-3.0, 0.5, 150)[:, None]


def clustered(rng):
    centres = 3.0 * rng.standard_normal((5, 2))
    return 0.01 * rng.standard_normal((150, 2)) + centres[rng.integers(5, size=150)]


def along_a_line(rng):
    return np.linspace(0.0, 5.0, 120)[:, None] + 1e-4 * rng.standard_normal((120, 1))


ARRIVING = {f.__name__: f for f in (paired, widening, clustered, along_a_line)}
# From where on, as the docstring says, rounding may miss more than `tol` allows.
LIMITS = {np.float64: 1e-6, np.float32: 1e-3}


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("kernel", [RBF(0.5), RBF(0.02), RBF(0.3) + 0.5 * Linear()], ids=str)
@pytest.mark.parametrize("name", ARRIVING)
def test_a_smaller_tol_misses_less_and_takes_no_fewer_points(name, kernel, dtype):
    """Points near each other came first: those that came from further away found no place beside them."""
    for seed, size, forgetting in ((0, 1, 1.0), (1, 3, 0.99), (2, 7, 1.0), (3, 50, 0.97)):
        x, most = ARRIVING[name](np.random.default_rng(seed)).astype(dtype), 0
        for tol in (1e-4, 1e-6, 1e-8, 0.0):
            model = IncrementalKernelPCA(1, kernel=kernel, tol=tol, forgetting=forgetting)
            for batch in cut(x, size):
                model.partial_fit(batch)
            assert model.fit_.trace_error <= max(tol, LIMITS[dtype])
            m = len(model.landmarks_)
            # A few more or fewer, where the order of the pivots decides which of them are near the others.
            assert most - max(1, most // 10) <= m < len(x)
            most = max(most, m)


@pytest.mark.parametrize("seed", range(6))
def test_how_a_stream_that_fades_is_cut_does_not_matter_when_it_widens(seed):
    x, kernel = widening(np.random.default_rng(seed)), RBF(0.5)
    true = dense_eigenvalues(kernel, x, fades(150, 0.97))[:3]
    total = fades(150, 0.97).sum()
    for size in (1, 7, 50):
        values = streamed(kernel, cut(x, size), Rules(150, 1e-9, 0.97)).fit(3).eigenvalues
        # |√λ - √λ'|² is at most what is missed of the trace.
        np.testing.assert_array_less((np.sqrt(values) - np.sqrt(true)) ** 2, 1e-6 * total)


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("seed", range(6))
def test_a_kernel_is_not_blamed_for_points_that_are_near_each_other(seed, size):
    """Points near the origin span all cubics there are, but rows far away by numbers as large as rounding."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((150, 1)) * np.logspace(-3.0, 0.5, 150)[:, None]
    for tol in (1e-8, 1e-10, 0.0):
        stream = streamed(Polynomial(3, gamma=0.3), cut(x, size), Rules(150, tol, 0.9))
        assert stream.dictionary.size == 4


# ── the dictionary ──────────────────────────────────────────────────────────
def test_the_cheapest_points_go_first():
    rng = np.random.default_rng(7)
    x, points = rng.standard_normal((200, 3)), rng.standard_normal((12, 3))
    kernel = RBF(0.4)
    lower = np.linalg.cholesky(kernel(points))
    dictionary = Dictionary(kernel, points, lower, np.linalg.inv(lower).T)
    f = dictionary.features(x)
    second = f.T @ f

    def kept_energy(subset):  # Σ‖Pφ‖² = tr k(x, Z) k(Z, Z)⁻¹ k(Z, x)
        cross = kernel(x, points[subset])
        return float(np.sum(cross.T * np.linalg.solve(kernel(points[subset]), cross.T)))

    everything = kept_energy(list(range(12)))
    alone = [everything - kept_energy([i for i in range(12) if i != j]) for j in range(12)]
    np.testing.assert_allclose(dictionary.losses(second), alone, rtol=1e-6)
    inside = list(range(12))
    for _ in range(5):
        rest = {j: kept_energy([i for i in inside if i != j]) for j in inside}
        inside.remove(max(rest, key=rest.get))
    kept, gone = dictionary.weakest(second, 7, 0.0)
    assert kept.tolist() == inside
    np.testing.assert_allclose(gone.T @ gone, np.eye(5), atol=1e-12)
    lost = float(np.trace(gone.T @ second @ gone))
    assert lost == pytest.approx(everything - kept_energy(inside), rel=1e-6)
    reduced, basis = dictionary.reduced(kept)
    np.testing.assert_allclose(basis.T @ gone, 0.0, atol=1e-10)
    np.testing.assert_allclose(reduced.lower @ reduced.lower.T, kernel(points[kept]), atol=1e-12)
    np.testing.assert_allclose(reduced.features(x), f @ basis, atol=1e-9)


def test_growing_keeps_the_factors_right():
    x = gaussians(200, 3, seed=8)
    for kernel, tol in ((RBF(0.2), 1e-3), (RBF(0.005), 1e-9), (Laplacian(0.1), 1e-2)):
        dictionary = streamed(kernel, cut(x, 20), Rules(300, tol, 1.0)).dictionary
        m, gram = dictionary.size, kernel(dictionary.points)
        assert 20 < m < 200
        np.testing.assert_allclose(dictionary.lower @ dictionary.lower.T, gram, atol=1e-10)
        np.testing.assert_allclose(dictionary.lower.T @ dictionary.whiten, np.eye(m), atol=1e-7)


def test_rows_that_bring_nothing_new_change_no_landmark():
    x = gaussians(300, 4, seed=9)
    model = IncrementalKernelPCA(2, kernel=RBF(0.05), max_landmarks=25).fit(x)
    before = model.landmarks_
    assert len(before) == 25
    model.partial_fit(x[::-1])
    np.testing.assert_array_equal(model.landmarks_, before)
    assert model.landmarks_ is before


def test_what_the_cheapest_point_is_worth_is_never_overrated():
    x, rules, known = drifting(400, seed=8), Rules(15, 1e-6, 0.97), []
    stream = Stream.start(RBF(0.1), x, seed=0)
    for batch in cut(x, 4):
        stream = stream.absorbed(batch, None, rules)
        truth = float(np.min(stream.dictionary.losses(second_moment(stream.moments))))
        assert stream.cheapest <= truth * (1.0 + 1e-9)
        known.append(stream.cheapest > 0.0)
    assert 10 < sum(known) < len(known)  # it is known between exchanges, and not right after one


def test_copies_of_a_row_are_one_landmark():
    x = np.repeat(gaussians(12, 3, seed=10), 30, axis=0)
    model = IncrementalKernelPCA(3, kernel=RBF(0.3), tol=0.0, batch_size=50).fit(x)
    assert len(model.landmarks_) == 12
    assert len(np.unique(model.landmarks_, axis=0)) == 12


def test_as_many_points_as_components_ask_for():
    x = gaussians(400, 5, seed=11)
    model = IncrementalKernelPCA(20, kernel=RBF(1e-4), tol=0.5).fit(x)
    assert model.n_components_ == 20
    assert len(model.landmarks_) == 21


def test_an_outlier_does_not_take_the_dictionary_over():
    x = gaussians(600, 4, seed=12).copy()
    x[::60] *= 1e3
    model = IncrementalKernelPCA(3, kernel=RBF(0.02), max_landmarks=40).fit(x)
    rest = np.delete(np.arange(600), np.arange(0, 600, 60))
    assert np.sum(np.abs(model.landmarks_).max(axis=1) > 100) <= 10
    assert model.kernel_.gamma == 0.02
    true = dense_eigenvalues(model.kernel_, x, np.ones(600))[:3]
    np.testing.assert_allclose(model.eigenvalues_, true, rtol=0.03)
    assert np.abs(model.transform(x[rest])).max() > 0.1


# ── what comes in ───────────────────────────────────────────────────────────
def test_one_row_at_a_time():
    x = gaussians(80, 3, seed=13)
    model = IncrementalKernelPCA(2, kernel=RBF(0.1), max_landmarks=60, tol=1e-3)
    for row in x:
        model.partial_fit(row[None])
    true = dense_eigenvalues(RBF(0.1), x, np.ones(80))[:2]
    np.testing.assert_allclose(model.eigenvalues_, true, rtol=0.01)
    assert model.n_samples_seen_ == 80


def test_a_width_that_only_two_rows_tell_is_told():
    row = np.ones((1, 3))
    model = IncrementalKernelPCA(kernel="rbf").partial_fit(row)
    with pytest.warns(MercerWarning, match="first rows that differ, and those are two"):
        model.partial_fit(3 * row)
    assert model.kernel_.gamma == pytest.approx(1 / 24)  # σ² = 12
    for kernel in (RBF(0.3), RBF(sigma=2.0), "linear", Polynomial(2, gamma="1/d")):
        IncrementalKernelPCA(kernel=kernel).partial_fit(row)  # warnings are errors


SPREAD = [RBF(), RBF("scale"), Laplacian(), Matern(), RBF() + 0.5 * Linear()]


@pytest.mark.parametrize("kernel", SPREAD, ids=repr)
@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_rows_that_are_one_point_tell_no_width_and_the_next_do(kernel, as_rows):
    """However many equal rows come first, in however many batches: the width is that of all together."""
    rng = np.random.default_rng(3)
    still, later = np.tile([0.1, 0.1, 0.3, 0.1], (6, 1)), 40 + 20 * rng.standard_normal((30, 4))
    first = IncrementalKernelPCA(2, kernel=kernel).partial_fit(
        as_rows(np.concatenate([still, later]))
    )
    waited = IncrementalKernelPCA(2, kernel=kernel)
    for batch in (still[:1], still[1:3], still[3:], later):
        assert not hasattr(waited, "eigenvalues_")
        waited.partial_fit(as_rows(batch))
    in_blocks = IncrementalKernelPCA(2, kernel=kernel, batch_size=6).fit(
        as_rows(np.concatenate([still, later[:6]]))
    )
    np.testing.assert_allclose(waited.kernel_(later), first.kernel_(later), rtol=1e-9)
    assert waited.n_samples_seen_ == first.n_samples_seen_ == 36
    np.testing.assert_allclose(waited.eigenvalues_, first.eigenvalues_, rtol=1e-3)
    told = kernel.resolve(np.concatenate([still, later[:6]]), rng=np.random.default_rng(0))
    np.testing.assert_allclose(in_blocks.kernel_(later), told(later), rtol=1e-9)
    # From then on it stays.
    before = repr(waited.kernel_)
    assert repr(waited.partial_fit(as_rows(1e-3 * later)).kernel_) == before


def test_a_stream_that_waits_for_its_width_can_be_saved(tmp_path):
    model = IncrementalKernelPCA(2, kernel="rbf").partial_fit(np.full((4, 2), 0.1))
    model.save(tmp_path / "m.mercer")
    later = np.random.default_rng(5).standard_normal((20, 2)) * 30
    again = load(tmp_path / "m.mercer").partial_fit(later)
    assert again.kernel_.gamma == model.partial_fit(later).kernel_.gamma < 0.01
    assert again.n_samples_seen_ == 24


def test_a_width_of_one_that_rows_have_told_stays():
    """A median distance of exactly 1 looks like no width at all, also with a dictionary of one point."""
    model = IncrementalKernelPCA(1, kernel="rbf", max_landmarks=1)
    model.partial_fit([[0.0], [1.0]])
    assert model.kernel_.gamma == 0.5
    assert model.partial_fit([[50.0], [90.0]]).kernel_.gamma == 0.5


def test_without_variance_there_is_no_component_yet():
    model = IncrementalKernelPCA(2, kernel=RBF(0.3))
    for unfitted in ("fit_", "eigenvalues_", "n_components_", "kernel_", "landmarks_"):
        assert not hasattr(model, unfitted)
    with pytest.raises(NotFittedError):
        model.transform([[1.0, 2.0]])
    model.partial_fit([[1.0, 2.0]]).partial_fit([[1.0, 2.0]] * 5)
    with pytest.raises(ZeroVarianceError, match=r"The 6 row\(s\) seen so far"):
        model.transform([[1.0, 2.0]])
    assert not hasattr(model, "eigenvalues_")
    assert model.n_samples_seen_ == 6
    with pytest.raises(ZeroVarianceError):
        IncrementalKernelPCA(2, kernel="linear").partial_fit(np.zeros((3, 2))).transform([[1.0, 1]])
    model.partial_fit([[3.0, 0.0]])
    assert model.transform([[1.0, 2.0]]).shape == (1, 1)  # two points have one component
    with pytest.raises(ZeroVarianceError):
        model.fit(np.ones((10, 2)))
    assert model.n_samples_seen_ == 7  # as it was


def test_fewer_components_are_told_by_fit_alone():
    x = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [3.0, 1.0]])
    model = IncrementalKernelPCA(8, kernel=RBF(0.3)).partial_fit(x[:2]).partial_fit(x[2:])
    assert model.transform(x).shape == (4, 3)
    with pytest.warns(RankWarning, match="8 components were asked for, but only 3"):
        model.fit(x)


@pytest.mark.parametrize("share", [0.5, 0.9, None])
def test_a_share_of_the_variance(share):
    x = gaussians(300, 4, seed=14)
    model = IncrementalKernelPCA(share, kernel=RBF(0.05), tol=1e-6).fit(x)
    shares = model.explained_variance_ratio_
    if share is None:
        assert shares.sum() == pytest.approx(1.0, rel=1e-5)
    else:
        assert shares.sum() >= share > shares[:-1].sum()


def test_float32_stays_float32():
    x = gaussians(400, 4, seed=15)
    model = IncrementalKernelPCA(4, kernel=RBF(0.05), max_landmarks=80)
    single, double = clone(model).fit(x.astype(np.float32)), clone(model).fit(x)
    scores = single.transform(x)
    assert scores.dtype == single.eigenvalues_.dtype == single.landmarks_.dtype == np.float32
    np.testing.assert_allclose(single.eigenvalues_, double.eigenvalues_, rtol=1e-3)
    # The first batch decides.
    single.partial_fit(x)
    assert single.landmarks_.dtype == np.float32
    assert double.partial_fit(x.astype(np.float32)).landmarks_.dtype == np.float64
    # Scores in float32 are those of the same model in float64, but for rounding.
    projection = single.stream_.fit(4).projection
    z = single.landmarks_.astype(np.float64)
    exact = RBF(0.05)(x, z) @ projection.coef - projection.offset
    np.testing.assert_allclose(single.transform(x), exact, atol=1e-3 * np.abs(exact).max())


def test_sparse_batches_give_the_same():
    rng = np.random.default_rng(16)
    x = rng.random((240, 12)) * (rng.random((240, 12)) < 0.3)
    model = IncrementalKernelPCA(3, kernel=RBF(0.5), max_landmarks=30)
    dense, thin, mixed = clone(model), clone(model), clone(model)
    for i, batch in enumerate(cut(x, 40)):
        dense.partial_fit(batch)
        thin.partial_fit(sparse.csr_array(batch))
        mixed.partial_fit(batch if i % 2 else sparse.csr_array(batch))
    assert sparse.issparse(thin.landmarks_)
    assert sparse.issparse(mixed.landmarks_)
    np.testing.assert_allclose(thin.landmarks_.toarray(), dense.landmarks_)
    for other in (thin, mixed):
        np.testing.assert_allclose(other.eigenvalues_, dense.eigenvalues_, rtol=1e-9)
        np.testing.assert_allclose(
            other.transform(sparse.csr_array(x)), dense.transform(x), atol=1e-9
        )


def test_rows_from_a_source(tmp_path):
    x = gaussians(500, 3, seed=17)
    np.save(tmp_path / "rows.npy", x)
    model = IncrementalKernelPCA(3, kernel=RBF(0.1), max_landmarks=40, batch_size=100)
    array = clone(model).fit(x)
    file, batches = clone(model).fit(tmp_path / "rows.npy"), clone(model).fit(lambda: cut(x, 100))
    pieces = clone(model)
    for batch in (tmp_path / "rows.npy", x[:10]):
        pieces.partial_fit(batch)
    for other in (file, batches):
        np.testing.assert_array_equal(other.landmarks_, array.landmarks_)
        np.testing.assert_array_equal(other.transform(x), array.transform(x))
        # In slices, whose sums may be taken in another order.
        from_file = other.transform(tmp_path / "rows.npy")
        np.testing.assert_allclose(from_file, array.transform(x), rtol=0, atol=1e-13)
    assert pieces.n_samples_seen_ == 510
    weights = np.arange(500) % 3
    np.testing.assert_allclose(
        clone(model).fit(tmp_path / "rows.npy", sample_weight=weights).eigenvalues_.sum(),
        clone(model).fit(x, sample_weight=weights).eigenvalues_.sum(),
        rtol=0.02,
    )


def test_batches_larger_than_the_dictionary():
    x = gaussians(500, 3, seed=18)
    for m in (1, 2, 10):
        model = IncrementalKernelPCA(1, kernel=RBF(0.05), max_landmarks=m).partial_fit(x)
        assert len(model.landmarks_) == m
        assert model.fit_.bounds[0, 1] >= dense_eigenvalues(RBF(0.05), x, np.ones(500))[0]
    model.set_params(max_landmarks=4).partial_fit(x[:3])
    assert len(model.landmarks_) == 4


# ── the estimator ───────────────────────────────────────────────────────────
class Interrupted:
    """A kernel function that is interrupted at the n-th call."""

    calls = 0

    def __init__(self, at):
        self.at = at

    def __call__(self, x, y):
        Interrupted.calls += 1
        if Interrupted.calls == self.at:
            raise KeyboardInterrupt
        return np.exp(-0.1 * ((x[:, None] - y[None]) ** 2).sum(axis=2))


BAD = {
    "nan": (np.array([[1.0, np.nan, 0.0]]), None, "NaN"),
    "infinite": (np.array([[1.0, np.inf, 0.0]]), None, "infinity"),
    "wide": (np.ones((5, 4)), None, "4 features"),
    "text": (np.array([["a", "b", "c"]]), None, "text"),
    "empty": (np.ones((0, 3)), None, "0 sample"),
    "negative weight": (np.ones((2, 3)), [1.0, -1.0], "sample_weight must be .*got -1.0 for row 1"),
    "weights": (np.ones((2, 3)), [1.0, 1.0, 1.0], "2 numbers"),
}


@pytest.mark.parametrize("what", sorted(BAD))
def test_a_bad_batch_changes_nothing(what):
    bad, weights, message = BAD[what]
    x = gaussians(100, 3, seed=19)
    model = IncrementalKernelPCA(2, kernel=RBF(0.1)).partial_fit(x)
    before, state = pickle.dumps(model), dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.partial_fit(bad, sample_weight=weights)
    assert pickle.dumps(model) == before
    assert all(vars(model)[name] is value for name, value in state.items())
    fresh = IncrementalKernelPCA(2, kernel=RBF(0.1))
    if what != "wide":
        with pytest.raises(ValueError, match=message):
            fresh.partial_fit(bad, sample_weight=weights)
        assert vars(fresh) == vars(IncrementalKernelPCA(2, kernel=fresh.kernel))


def test_an_interrupt_changes_nothing():
    x, n_calls = gaussians(200, 3, seed=19), []
    for at in (10**9, 1, 12, 30):
        Interrupted.calls = -(10**6)
        kernel = Custom(Interrupted(at), "matrices")
        model = IncrementalKernelPCA(2, kernel=kernel, batch_size=40, max_landmarks=20)
        model.partial_fit(x[:80])
        scores, stream = model.transform(x), model.stream_
        Interrupted.calls = 0
        if at == 10**9:
            model.partial_fit(x[80:])
            n_calls.append(Interrupted.calls)
            continue
        assert at < n_calls[0]
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(x[80:])
        assert model.stream_ is stream
        np.testing.assert_array_equal(model.transform(x), scores)


def test_transform_is_the_projection_and_is_solved_once():
    x = gaussians(200, 3, seed=20)
    model = IncrementalKernelPCA(3, kernel=RBF(0.1)).partial_fit(x)
    fit = model.fit_
    assert model.fit_ is fit
    np.testing.assert_array_equal(model.transform(x), fit.projection(x))
    np.testing.assert_array_equal(
        IncrementalKernelPCA(3, kernel=RBF(0.1)).fit_transform(x), model.transform(x)
    )
    model.partial_fit(x[:1])
    assert model.fit_ is not fit
    model.set_params(n_components=1)
    assert model.transform(x).shape == (200, 1)
    model.set_params(n_components=1.0)
    assert model.transform(x).shape[1] > 3


def test_the_same_seed_gives_the_same_bits_and_a_pickle_goes_on():
    x = gaussians(600, 4, seed=21)
    model = IncrementalKernelPCA(3, max_landmarks=40, forgetting=0.99, random_state=5)
    one, two, other = clone(model), clone(model), clone(model).set_params(random_state=6)
    for batch in cut(x, 50):
        one.partial_fit(batch)
        two = pickle.loads(pickle.dumps(two.partial_fit(batch)))
        other.partial_fit(batch)
    np.testing.assert_array_equal(one.transform(x), two.transform(x))
    np.testing.assert_array_equal(one.landmarks_, two.landmarks_)
    assert not np.array_equal(one.landmarks_, other.landmarks_)
    np.testing.assert_array_equal(
        clone(model).fit(x).transform(x), clone(model).fit(x).transform(x)
    )


@pytest.mark.skipif(compiled() is None, reason="BLAS splits thin products by its threads")
def test_no_bit_depends_on_the_number_of_threads():
    x = gaussians(2400, 4, seed=29)
    found = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            model = IncrementalKernelPCA(3, kernel=RBF(0.3), max_landmarks=150, random_state=0)
            for batch in cut(x, 600):
                model.partial_fit(batch)
            found.append((model.landmarks_, model.eigenvalues_, model.stream_.norm))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(other, one)


def test_fit_forgets_and_partial_fit_goes_on():
    x = gaussians(300, 3, seed=22)
    model = IncrementalKernelPCA(3, kernel=RBF(0.1), batch_size=50)
    for batch in cut(x, 50):
        model.partial_fit(batch)
    again = clone(model).fit(x[:100] + 5.0).fit(x)
    np.testing.assert_array_equal(again.transform(x), model.transform(x))
    assert again.fit(gaussians(100, 5)).n_features_in_ == 5
    with pytest.raises(ValueError, match="3 features"):
        again.partial_fit(x)


def test_memory_does_not_grow_with_the_rows():
    x = gaussians(4000, 4, seed=23)
    model = IncrementalKernelPCA(2, kernel=RBF(0.1), max_landmarks=50)
    sizes = []
    for i, batch in enumerate(cut(x, 100)):
        model.partial_fit(batch)
        if i in (9, 39):
            sizes.append(len(pickle.dumps(model)))
    assert sizes[0] == pytest.approx(sizes[1], abs=100)


@pytest.mark.parametrize(("m", "b", "d"), [(40, 2000, 5), (200, 100, 5), (30, 200, 600)])
def test_what_a_batch_takes_is_stated(m, b, d):
    x = gaussians(3 * b + 2 * m, d, seed=24, spread=0.3)
    model = IncrementalKernelPCA(2, kernel=RBF(0.2 / d), max_landmarks=m, batch_size=b, tol=0.0)
    model.partial_fit(x[: b + m])
    tracemalloc.start()
    try:
        model.partial_fit(x[b + m :])
        model.transform(x[:5])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= stream_bytes(m, b, d) == model.fit_.plan.n_bytes


def test_the_largest_score_of_a_landmark_is_positive():
    model = IncrementalKernelPCA(8, kernel=RBF(0.1)).fit(gaussians(300, 3, seed=26))
    scores = model.transform(model.landmarks_)
    largest = scores[np.argmax(np.abs(scores), axis=0), np.arange(8)]
    assert np.all(largest > 0)


def test_a_kernel_that_is_not_known_to_be_valid_is_told():
    function = Custom(lambda a, b: np.exp(-0.1 * ((a[:, None] - b) ** 2).sum(axis=2)), "matrices")
    model = IncrementalKernelPCA(2, kernel=function).fit(gaussians(200, 3))
    assert "if the kernel is valid, which is not known" in str(model.fit_)
    assert 0.0 < model.fit_.low_end.lowest < 1.0
    known = IncrementalKernelPCA(2, kernel=RBF(0.1)).fit(gaussians(200, 3))
    np.testing.assert_allclose(model.eigenvalues_, known.eigenvalues_, rtol=1e-6)
    assert "positive semi-definite by construction" in str(known.fit_)


def test_the_evidence_prints():
    model = IncrementalKernelPCA(2, kernel=RBF(0.1), max_landmarks=20).fit(gaussians(300, 3))
    text = str(model.fit_)
    assert "the square root of each true eigenvalue is within" in text
    assert "300 rows arrived in batches, each read once" in text
    assert "low-rank route" in text


def test_progress_is_told(capsys):
    IncrementalKernelPCA(2, kernel=RBF(0.1), batch_size=50, verbose=1).fit(gaussians(200, 3))
    assert "200 of 200 rows" in capsys.readouterr().err


WRONG = {
    "max_landmarks=0": ({"max_landmarks": 0}, "max_landmarks must be an integer >= 1; got 0"),
    "max_landmarks=2.5": ({"max_landmarks": 2.5}, "an integer >= 1; got 2.5"),
    "batch_size=0": ({"batch_size": 0}, "batch_size must be .* got 0"),
    "tol=-1": ({"tol": -1.0}, "tol must be .* got -1.0"),
    "tol=1": ({"tol": 1.0}, r"tol must be a number in \[0, 1\)"),
    "tol=text": ({"tol": "small"}, "tol must be .* got 'small'"),
    "forgetting=0": ({"forgetting": 0.0}, "forgetting must be .* got 0.0"),
    "forgetting=1.1": ({"forgetting": 1.1}, r"in \(0, 1\]; got 1.1"),
    "n_components": ({"n_components": 30, "max_landmarks": 20}, "from 1 to 20"),
    "precomputed": ({"kernel": "precomputed"}, "can't be streamed"),
    "kernel": ({"kernel": "rfb"}, "Did you mean 'rbf'"),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_impossible_knobs_are_refused(name):
    knobs, message = WRONG[name]
    for method in ("fit", "partial_fit"):
        model = IncrementalKernelPCA(**knobs)
        with pytest.raises(InputError, match=message):
            getattr(model, method)(np.ones((30, 3)))
        assert not hasattr(model, "stream_")


def test_functions_that_are_no_kernels_are_refused():
    x = gaussians(200, 3, seed=25)
    for kernel in (Sigmoid(0.5, -0.5), -RBF(0.3)):
        with pytest.raises(KernelError, match="not positive semi-definite"):
            IncrementalKernelPCA(kernel=kernel, batch_size=50).fit(x)
    lopsided = Custom(
        lambda a, b: np.exp(-((a[:, None] - 1.1 * b[None]) ** 2).sum(axis=2)), "matrices"
    )
    with pytest.raises(KernelError, match="not symmetric"):
        IncrementalKernelPCA(kernel=lopsided).fit(0.1 * x)
    with pytest.raises(KernelError, match="overflows"):
        IncrementalKernelPCA(kernel=Polynomial(9)).fit(1e40 * x)


def distances(a, b):
    return np.linalg.norm(a[:, None] - b, axis=2)


NO_KERNELS = {
    **INDEFINITE,
    "sigmoid-default": Sigmoid(),
    "sigmoid-steep": Sigmoid(5.0),
    "difference": RBF(0.06) - 0.5 * RBF(3.0),
    "distances": Custom(distances, "matrices"),
}


@pytest.mark.parametrize("knobs", [{}, {"batch_size": 20}, {"max_landmarks": 3}], ids=str)
@pytest.mark.parametrize("name", sorted(NO_KERNELS))
def test_what_is_no_kernel_is_refused_whether_or_not_the_rows_come_at_once(name, knobs):
    """The rows that the dictionary takes in are looked at, too: all of them may come in one batch."""
    x, kernel = gaussians(60, 5, centres=1), NO_KERNELS[name]
    assert np.linalg.eigvalsh(kernel(x)).min() < -0.1  # or there is nothing to refuse
    with pytest.raises(KernelError, match="not positive semi-definite on these rows") as caught:
        IncrementalKernelPCA(kernel=kernel, **knobs).fit(x)
    assert " 1 landmarks" not in str(caught.value)


@pytest.mark.parametrize("knobs", [{}, {"batch_size": 20}, {"max_landmarks": 3}], ids=str)
@pytest.mark.parametrize("name", sorted(VALID | HISTOGRAM))
def test_every_kernel_of_the_market_passes(name, knobs):
    x = np.abs(gaussians(60, 5, centres=1))
    model = IncrementalKernelPCA(1, kernel=(VALID | HISTOGRAM)[name], tol=0.0, **knobs).fit(x)
    true = dense_eigenvalues(model.kernel_, x, np.ones(60))[0]
    low, high = model.fit_.bounds[0]
    assert low <= true * (1.0 + 1e-9)
    assert true * (1.0 - 1e-9) <= high


def test_rows_without_length_are_those_of_a_function_that_is_not_a_kernel():
    model = IncrementalKernelPCA(kernel=Custom(distances, "matrices"))
    for row in gaussians(4, 2):
        model.partial_fit(row[None])
    with pytest.raises(ZeroVarianceError, match=r"k\(x, x\) = 0 for all 4 .* is not a kernel"):
        model.transform(np.ones((1, 2)))


def test_a_draw_of_nothing_but_rounding_writes_nothing(capfd):
    for size in (1, 40):
        x = np.random.default_rng(0).standard_normal((300, 4))
        IncrementalKernelPCA(2, kernel=Polynomial(2, gamma=0.5), batch_size=size, tol=0.0).fit(x)
    assert capfd.readouterr() == ("", "")


def test_all_weights_zero():
    x = np.ones((3, 2))
    with pytest.raises(InputError, match="above zero for at least one row"):
        IncrementalKernelPCA(kernel=RBF(1.0)).partial_fit(x, sample_weight=np.zeros(3))
    model = IncrementalKernelPCA(kernel=RBF(1.0)).partial_fit(x)
    model.partial_fit(x, sample_weight=np.zeros(3))
    assert model.n_samples_seen_ == 3


# The checks fit on a handful of random rows: that spectra are flat or short there is no news.
@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
@parametrize_with_checks(
    [
        IncrementalKernelPCA(),
        IncrementalKernelPCA(kernel="linear", tol=0.0),
        IncrementalKernelPCA(0.9, kernel=Laplacian(0.1), max_landmarks=20),
    ]
)
def test_common_checks(estimator, check):
    check(estimator)


# ── a width that the stream outgrows ────────────────────────────────────────
NARROW = "the first ones, which the width in RBF"


@pytest.mark.parametrize("size", [1, 7, 200])
def test_rows_far_wider_than_those_that_told_the_width_are_told_once(size, rng):
    model = IncrementalKernelPCA(2, max_landmarks=50).partial_fit(
        1 + 1e-9 * rng.normal(size=(5, 4))
    )
    rows = rng.normal(size=(200, 4))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for i in range(0, 200, size):
            model.partial_fit(rows[i : i + size])
        model.partial_fit(rng.normal(size=(200, 4)))
    assert sum(NARROW in str(t.message) for t in told) == 1


@pytest.mark.parametrize("scale", [0.0, 1e-9, 1e-3, 30.0])
@pytest.mark.parametrize("kernel", ["rbf", "matern", "laplacian", "rbf + linear"])
def test_rows_at_rest_and_rows_somewhat_wider_are_not_told(kernel, scale, rng):
    model = IncrementalKernelPCA(2, kernel=kernel).partial_fit(rng.normal(size=(60, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            model.partial_fit(scale * rng.normal(size=(60, 4)))
