"""Laws of every solver over every spectrum: residuals, orthonormality, order, and the right values."""

from dataclasses import dataclass

import numpy as np
import pytest

from markets.spectra import SPECTRA, N, symmetric
from mercer import KernelPCA
from mercer._core.errors import InputError
from mercer.kernels import RBF, Laplacian
from mercer.operators import Centred, StoredGram
from mercer.planning.plan import LAPACK_PRODUCTS, Problem, plan
from mercer.solvers import SOLVERS, BlockKrylov, EigenPairs, Lanczos, Lapack, Solver, krylov
from mercer.solvers.base import Status, fixed_signs
from mercer.solvers.basis import ConvergenceSchedule, orthonormal
from mercer.solvers.refine import NegativePart, _orthogonal_to, negative_part

MARKET = {
    "lapack": Lapack(),
    "lapack-subset": Lapack(subset=True),
    "krylov": BlockKrylov(tol=1e-10),
    "krylov-random-start": BlockKrylov(tol=1e-10, landmarks=0),
    "krylov-narrow": BlockKrylov(tol=1e-10, block=3),
    "krylov-or-lapack": BlockKrylov(
        tol=1e-10, block=4, landmarks=0, max_basis=140, max_products=12, lapack=True
    ),
    "lanczos": Lanczos(),
    "krylov-restarts": BlockKrylov(tol=1e-10, block=8, max_basis=40, max_products=400),
}
KS = [1, 2, 7, 20, N - 1, N]


@pytest.fixture(params=sorted(SPECTRA))
def spectrum(request):
    values = np.sort(SPECTRA[request.param])[::-1]
    matrix = symmetric(values)
    matrix.flags.writeable = False
    return request.param, values, matrix


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("solver", sorted(MARKET))
def test_every_solver_on_every_spectrum(solver, spectrum, k, rng):
    name, values, matrix = spectrum
    pairs = MARKET[solver](StoredGram(matrix), k, rng=rng)
    scale = max(np.abs(values).max(), np.finfo(float).tiny)
    assert pairs.values.shape == (k,)
    assert pairs.vectors.shape == pairs.products.shape == (N, k)
    assert np.all(np.diff(pairs.values) <= 1e-13 * scale)
    worst = pairs.residuals.max()
    if not pairs.status.ok:
        # Eigenvalues 1e-9 apart, cut in two by k: giving up is allowed when it is said, and when
        # every value still is as near to a true one as its residual promises.
        assert name == "clustered"
        assert worst > 1e-10
        assert np.abs(pairs.values[:, None] - values).min(axis=1).max() <= worst * scale
        return
    np.testing.assert_allclose(pairs.values, values[:k], atol=1e-9 * scale)
    np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(k), atol=1e-12)
    np.testing.assert_allclose(pairs.products, matrix @ pairs.vectors, atol=1e-12 * scale)
    error = (matrix @ pairs.vectors - pairs.vectors * pairs.values) / scale
    assert np.linalg.norm(error, axis=0).max() <= 2e-10
    assert worst <= 2e-10


@pytest.mark.parametrize("copies", [2, 3])
def test_lanczos_misses_no_copy_of_an_eigenvalue(copies, rng):
    """A Krylov space of one vector holds one vector of each eigenspace: the others are looked for outside."""
    values = np.concatenate([np.full(copies, 2.0), 0.9 ** np.arange(400)])
    matrix, k = symmetric(values), copies + 3
    pairs = Lanczos(tol=1e-10)(StoredGram(matrix), k, rng=rng)
    np.testing.assert_allclose(pairs.values, values[:k], atol=1e-10)
    assert pairs.residuals.max() <= 1e-10


@pytest.mark.parametrize("share", [0.01, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("name", ["geometric", "slow", "repeated", "rank-3", "identity", "huge"])
def test_lapack_proves_as_many_pairs_as_a_share_takes(name, share):
    values = np.sort(SPECTRA[name])[::-1]
    pairs = Lapack().reaching(StoredGram(symmetric(values)), share)
    k, total = len(pairs.values), values.sum()
    assert pairs.values.sum() >= share * total * (1.0 - 1e-12)
    assert k <= 2 or values[: k - 2].sum() < share * total * (1.0 + 1e-12)  # one more than it takes
    np.testing.assert_allclose(pairs.spectrum[::-1], values, atol=1e-12 * values[0])
    assert pairs.residuals.max() <= 1e-12


def test_lanczos_leaves_flat_and_far_spectra_to_lapack(rng):
    for values in (np.linspace(1.0, 0.99, 300), 1e200 * 0.5 ** np.arange(300)):
        pairs = Lanczos()(StoredGram(symmetric(values)), 4, rng=rng)
        np.testing.assert_allclose(pairs.values, values[:4], rtol=1e-12)
        assert pairs.status.ok


@pytest.mark.parametrize("solver", sorted(MARKET))
def test_signs_and_seeds_make_it_deterministic(solver):
    matrix = StoredGram(symmetric(SPECTRA["algebraic"]))
    first, second = (MARKET[solver](matrix, 5, rng=np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first.vectors, second.vectors)
    other = MARKET[solver](matrix, 5, rng=np.random.default_rng(4))
    np.testing.assert_allclose(first.vectors, other.vectors, atol=1e-7)
    top = np.argmax(np.abs(first.vectors), axis=0)
    assert np.all(first.vectors[top, np.arange(5)] > 0)


def test_rounding_does_not_choose_a_sign(rng):
    """Rows that mirror each other have entries of one size and either sign."""
    half = rng.standard_normal((30, 4))
    vectors = np.concatenate([half, -half])[rng.permutation(60)]
    first = fixed_signs(vectors)
    for _ in range(20):  # as another processor would round them
        noise = 1.0 + 1e-14 * rng.standard_normal(vectors.shape)
        np.testing.assert_array_equal(fixed_signs(vectors * noise), first)
        np.testing.assert_array_equal(fixed_signs(-vectors * noise), -first)


def test_largest_sorts_values_vectors_and_products_together(rng):
    vectors, products = rng.standard_normal((2, 6, 3))
    pairs = EigenPairs.largest(np.array([1.0, 3.0, 2.0]), vectors, products, 2)
    np.testing.assert_array_equal(pairs.values, [3.0, 2.0])
    np.testing.assert_allclose(np.abs(pairs.vectors), np.abs(vectors[:, [1, 2]]))
    np.testing.assert_allclose(
        pairs.vectors * products[:, [1, 2]], vectors[:, [1, 2]] * pairs.products
    )


def test_a_float32_copy_is_refined_to_the_operator_itself(rng):
    matrix = symmetric(SPECTRA["algebraic"])
    exact = StoredGram(matrix, rough=StoredGram(matrix.astype(np.float32)))
    reference = np.linalg.eigvalsh(matrix)[::-1]
    rough = BlockKrylov(tol=1e-6)(exact, 10, rng=rng)
    fine = BlockKrylov(tol=1e-11)(exact, 10, rng=rng)
    assert rough.residuals.max() < 1e-6
    assert fine.residuals.max() < 1e-11
    assert fine.n_products > rough.n_products
    np.testing.assert_allclose(fine.values, reference[:10], rtol=1e-13)


class Counted(StoredGram):
    """Counts the products it makes."""

    count = 0

    def matmat(self, v):
        self.count += 1
        return super().matmat(v)


@pytest.mark.parametrize("noise", [1e-6, 1e-3])
def test_corrections_are_multiplied_by_the_rough_operator(noise, rng):
    """One product with the operator is enough, if its rough copy is good enough for corrections."""
    matrix = symmetric(SPECTRA["slow"])
    error = rng.standard_normal(matrix.shape)
    error = noise * (error + error.T) / np.linalg.norm(error + error.T, 2)
    exact = Counted(matrix, rough=StoredGram(matrix + error))
    pairs = BlockKrylov(tol=3e-8)(exact, 6, rng=rng)
    values = np.linalg.eigvalsh(matrix)
    assert pairs.status.ok
    assert exact.count == 1 or noise > 1e-4
    residual = matrix @ pairs.vectors - pairs.vectors * pairs.values
    assert np.linalg.norm(residual, axis=0).max() <= 1.1 * 3e-8 * values[-1]
    # What the rough operator may add to a product unseen is a hundredth of the tolerance.
    np.testing.assert_allclose(pairs.values, values[::-1][:6], atol=1e-2 * 3e-8 * values[-1])


def test_a_pair_far_below_the_first_is_proved_to_its_own_size(rng):
    """Small eigenvalues may have small residuals only, as may what a rough operator adds to them unseen."""
    spectrum = np.concatenate([np.logspace(0, -5.5, 8), np.full(152, 1e-8)])
    matrix = symmetric(spectrum)
    error = rng.standard_normal(matrix.shape)
    error = 3e-8 * (error + error.T) / np.linalg.norm(error + error.T, 2)
    operator = StoredGram(matrix, rough=StoredGram(matrix + error))
    pairs = BlockKrylov(tol=1e-6)(operator, 8, rng=rng)
    assert pairs.status.ok
    true = np.linalg.norm(matrix @ pairs.vectors - pairs.vectors * pairs.values, axis=0)
    assert np.all(true <= 1.01 * np.minimum(1e-6, 1e-3 * pairs.values))
    gap = np.linalg.norm(pairs.products - matrix @ pairs.vectors, axis=0)
    assert np.all(gap <= 1e-5 * pairs.values)


@dataclass
class Own(Solver):
    """A solver from elsewhere: all that it knows of the operator are its products."""

    def __call__(self, operator, k, *, rng, start=None, observer=None):
        del rng, start, observer
        matrix = operator.matmat(np.eye(operator.n))
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        return EigenPairs.largest(values, vectors, matrix @ vectors, k)


@dataclass
class OwnWithSketch(Own):
    """One that was written when a cheaper operator came as an argument."""

    def __call__(self, operator, k, *, rng, sketch=None, start=None, observer=None):
        assert sketch is None
        return super().__call__(operator, k, rng=rng, start=start, observer=observer)


@pytest.mark.parametrize("solver", [Own(), OwnWithSketch()])
def test_a_solver_from_elsewhere_fits(solver, cloud):
    model = KernelPCA(3, kernel=RBF(0.3), solver=solver).fit(cloud)
    usual = KernelPCA(3, kernel=RBF(0.3), solver="lapack").fit(cloud)
    np.testing.assert_allclose(model.eigenvalues_, usual.eigenvalues_, rtol=1e-12)
    np.testing.assert_allclose(model.transform(cloud), usual.transform(cloud), atol=1e-10)


class Impatient:
    """Asks to stop after so many products."""

    def __init__(self, after):
        self.after = after

    def step(self, done, *_):
        return done >= self.after

    def resume(self):
        return None

    def keep(self, state):
        del state


@pytest.mark.parametrize("after", [1, 2, 3, 4, 5])
def test_stopping_right_after_a_search_outside(after, rng):
    """A block narrower than k injects random blocks; a stop may come at that very moment."""
    matrix = symmetric(np.concatenate([np.linspace(1, 0.5, 6), np.zeros(154)]))
    operator = StoredGram(matrix, rough=StoredGram(matrix.astype(np.float32)))
    solver = BlockKrylov(block=3, landmarks=0)
    pairs = solver(operator, 6, rng=rng, observer=Impatient(after))
    assert len(pairs.values) <= 6
    assert np.all(np.isfinite(pairs.residuals))


def test_a_useless_rough_operator_costs_time_but_not_truth(rng):
    matrix = symmetric(SPECTRA["slow"])
    rough = StoredGram(symmetric(SPECTRA["slow"], seed=99).astype(np.float32))
    pairs = BlockKrylov(tol=1e-9)(StoredGram(matrix, rough=rough), 6, rng=rng)
    np.testing.assert_allclose(pairs.values, np.sort(SPECTRA["slow"])[::-1][:6], rtol=1e-12)
    assert pairs.residuals.max() < 1e-9
    assert pairs.status.ok


def test_landmarks_save_products(rng):
    x = rng.standard_normal((1200, 5)) / np.sqrt(np.arange(1, 6))
    operator = Centred(StoredGram(RBF(0.2)(x)))
    used = [
        BlockKrylov(tol=1e-6, landmarks=m)(operator, 10, rng=np.random.default_rng(0)).n_products
        for m in (300, 0)
    ]
    assert used[0] < used[1]


@pytest.mark.parametrize("tail", ["ones", "slow"])
@pytest.mark.parametrize("tol", [1e-6, 1e-10])
def test_copies_that_no_landmark_sees_are_found(tail, tol):
    rest = np.ones(1190) if tail == "ones" else 1.9 / np.sqrt(np.arange(1, 1191))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        matrix = np.diag(rng.permutation(np.concatenate([np.full(10, 2.0), rest])))
        pairs = BlockKrylov(tol=tol)(StoredGram(matrix), 10, rng=rng)
        np.testing.assert_allclose(pairs.values, 2.0, rtol=1e-9)


def test_components_far_below_the_first_are_eigenvectors_too(rng):
    values = 0.25 ** np.arange(N)
    matrix = symmetric(values)
    operator = StoredGram(matrix, rough=StoredGram(matrix.astype(np.float32)))
    pairs = BlockKrylov(tol=1e-6)(operator, 15, rng=rng)
    np.testing.assert_allclose(pairs.values, values[:15], rtol=1e-5)


def test_many_start_vectors_and_narrow_blocks_fit(rng):
    matrix = StoredGram(symmetric(SPECTRA["algebraic"]))
    start = np.linalg.qr(rng.standard_normal((N, 60)))[0]
    for block in (1, 2, 3, None):
        pairs = BlockKrylov(tol=1e-9, block=block)(matrix, 40, rng=rng, start=start)
        np.testing.assert_allclose(pairs.values, SPECTRA["algebraic"][:40], rtol=1e-9)


def test_stopping_early_is_said(rng):
    matrix = StoredGram(symmetric(SPECTRA["slow"]))
    pairs = BlockKrylov(tol=1e-12, block=2, max_products=2, landmarks=0)(matrix, 2, rng=rng)
    assert pairs.status is Status.MAX_PRODUCTS
    assert pairs.residuals.max() > 1e-12
    assert "Raise `max_products`" in pairs.status.value


def test_what_takes_too_many_products_is_left_to_lapack(rng):
    matrix = symmetric(SPECTRA["slow"])
    solver = BlockKrylov(tol=1e-12, block=2, max_products=4, landmarks=0, lapack=True)
    pairs = solver(StoredGram(matrix), 2, rng=rng)
    assert pairs.status is Status.CONVERGED
    assert pairs.n_products == 5  # those of the iteration, and the one that proves LAPACK's pairs
    np.testing.assert_allclose(pairs.values, np.linalg.eigvalsh(matrix)[::-1][:2], rtol=1e-12)


def test_a_flat_spectrum_is_left_to_lapack_as_soon_as_it_shows(rng):
    values = np.linspace(1.0, 0.9, 600)  # one digit takes some 60 products of a narrow block
    solver = BlockKrylov(tol=1e-10, block=4, max_products=40, landmarks=0, lapack=True)
    pairs = solver(StoredGram(np.diag(values)), 20, rng=rng)
    assert pairs.n_products < 40
    np.testing.assert_allclose(pairs.values, values[:20], rtol=1e-12)


def test_a_slow_beginning_is_no_flat_spectrum(rng, monkeypatch):
    """Of many columns the residuals stay where they are at first, and then fall: LAPACK is not asked."""
    monkeypatch.setattr(krylov, "Lapack", None)
    x = rng.standard_normal((1300, 200))
    operator = Centred(StoredGram(RBF(gamma=0.01).tile(x, x)))
    n, k = operator.n, 20
    solver = plan(Problem(2000, 200, k, valid=True)).solver
    assert solver.lapack
    solver.max_products = n * n // LAPACK_PRODUCTS
    pairs = solver(operator, k, rng=rng)
    assert pairs.status is Status.CONVERGED
    assert pairs.residuals.max() <= 2e-10


def test_what_is_left_is_judged_by_more_than_two_looks():
    schedule = ConvergenceSchedule(1e-10, 24, first=5, thrifty=True)
    # As seen of 3000 rows with 200 columns: between two looks there is nearly no progress.
    looks = {5: 0.1305, 6: 0.1088, 8: 0.1085, 10: 0.061, 15: 0.049, 22: 0.0058, 33: 1.5e-6}
    for product, worst in looks.items():
        schedule.saw(product, worst)
        assert not schedule.is_hopeless(product, 80)
        schedule.restore(schedule.state())
    for worst, hopeless in ((0.1, True), (0.5, True), (1e-3, False)):
        slow = ConvergenceSchedule(1e-10, 24, first=2)
        slow.saw(5, 0.2)
        slow.saw(10, worst)
        assert not slow.is_hopeless(10, 100)  # too early to say
        slow.saw(30, worst)
        assert slow.is_hopeless(30, 100) is hopeless


@pytest.mark.parametrize("copies", [3, 4, 5, 9, 20])
def test_narrow_blocks_find_every_copy_of_an_eigenvalue(copies):
    """A Krylov space of a block of b holds b copies of an eigenvalue, however often that is repeated."""
    rest = 1.5 / np.sqrt(np.arange(1, 1001 - copies))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        matrix = np.diag(rng.permutation(np.concatenate([np.full(copies, 2.0), rest])))
        solver = BlockKrylov(tol=1e-10, block=4, landmarks=0, max_basis=160)
        pairs = solver(StoredGram(matrix), copies, rng=rng)
        np.testing.assert_allclose(pairs.values, 2.0, rtol=1e-9)


def test_lapack_subset_driver_may_lose_pairs_and_we_count_them(rng):
    # A near-identity Gram matrix on which LAPACK's subset driver returns no pair at all.
    from sklearn.datasets import load_iris

    operator = Centred(StoredGram(RBF(1e4)(load_iris().data)))
    pairs = Lapack(subset=True)(operator, 2, rng=rng)
    reference = np.linalg.eigvalsh(operator.dense())[::-1][:2]
    np.testing.assert_allclose(pairs.values, reference, rtol=1e-12)


def test_lapack_subset_driver_may_fail_and_the_whole_spectrum_is_taken(rng, monkeypatch):
    from mercer.solvers import dense

    driver, *lengths = dense._subset_driver(np.dtype(np.float64), 3)

    def failing(*args, **knobs):
        return (*driver(*args, **knobs)[:-1], 1)

    monkeypatch.setattr(dense, "compiled", lambda: None)  # whose reflections would be asked first
    monkeypatch.setattr(dense, "_subset_driver", lambda _dtype, _n: (failing, *lengths))
    pairs = Lapack(subset=True)(StoredGram(np.diag([1.0, 3.0, 2.0])), 2, rng=rng)
    np.testing.assert_allclose(pairs.values, [3.0, 2.0], rtol=1e-14)
    assert pairs.spectrum is not None


def test_a_matrix_lost_in_rounding_is_not_called_converged(rng):
    x = rng.standard_normal((50, 20)) + 1e7  # what centring leaves of K is a millionth of rounding
    pairs = Lapack()(Centred(StoredGram(x @ x.T)), 3, rng=rng)
    assert pairs.status is Status.STAGNATED
    assert "StandardScaler" in pairs.status.value


def test_the_negative_part_is_proof_when_negative(rng):
    for name, values in SPECTRA.items():
        seen = negative_part(StoredGram(symmetric(values)), rng=rng)
        scale = max(np.abs(values).max(), 1e-300)
        assert seen.lowest >= values.min() - 1e-12 * scale, name
        assert seen.negative <= -values[values < 0].sum() + 1e-10 * scale, name
    assert negative_part(StoredGram(symmetric(SPECTRA["indefinite"])), rng=rng).lowest < -0.9


def test_negative_share_is_of_all_mass():
    seen = NegativePart.of_spectrum(np.array([-1.0, 3.0]))
    assert seen.share(total=2.0) == pytest.approx(0.25)


@pytest.mark.parametrize(
    "knobs", [{"tol": 0.0}, {"tol": -1.0}, {"tol": np.nan}, {"max_products": 0}]
)
def test_impossible_knobs_are_refused(knobs, rng):
    with pytest.raises(InputError, match=r"BlockKrylov: .* must be"):
        BlockKrylov(**knobs)(StoredGram(np.eye(5)), 2, rng=rng)


def test_knobs_by_name():
    for name, kind in SOLVERS.items():
        solver = kind()
        assert solver.set_params(**solver.get_params()) is solver, name
    assert BlockKrylov().set_params(tol=1e-3).tol == 1e-3
    with pytest.raises(ValueError, match="no parameter 'tolerance'"):
        BlockKrylov().set_params(tolerance=1)


@pytest.mark.parametrize("drop", [0.0, 1e-6])
@pytest.mark.parametrize("fails", [False, True])
def test_a_graded_block_is_orthonormalised_whether_or_not_lapack_converges(
    fails, drop, rng, monkeypatch
):
    """LAPACK's divide-and-conquer SVD has failed on such a factor, of size 48 and condition 1e15."""

    def failing(_):
        raise np.linalg.LinAlgError

    if fails:
        monkeypatch.setattr(np.linalg, "svd", failing)
    block = rng.standard_normal((120, 20)) * 10.0 ** np.linspace(0, -15, 20)
    block = block @ np.linalg.qr(rng.standard_normal((20, 20)))[0]
    w, upper = orthonormal(block, drop=drop)
    np.testing.assert_allclose(w.T @ w, np.eye(w.shape[1]), atol=1e-13)
    # Each direction that is left out is shorter than that.
    assert np.linalg.norm(w @ upper - block) <= np.sqrt(20) * drop + 1e-13
    if drop:
        assert w.shape[1] < 20


def test_a_flat_kernel_with_uneven_weights_is_solved():
    """A factor of its Krylov basis is one that LAPACK did not take apart."""
    rng = np.random.default_rng(22)
    x, weights = rng.normal(size=(120, 1)), 10 ** rng.uniform(-3, 3, 120)
    kernel = Laplacian(1.4683264240113788e-08)
    found = KernelPCA(40, kernel=kernel, solver="krylov").fit(x, sample_weight=weights)
    true = KernelPCA(40, kernel=kernel, solver="lapack").fit(x, sample_weight=weights)
    gaps = np.abs(found.eigenvalues_ - true.eigenvalues_)
    assert np.all(gaps <= (found.residuals_ + true.residuals_) * true.eigenvalues_[0])


@pytest.mark.parametrize("missing", [0, 1, 5])
def test_corrections_never_repeat_what_is_there(missing, rng):
    """A residual that is all rounding points anywhere: what it adds has to be new, or nothing."""
    n = 60
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
    u = basis[:, : n - missing]
    noise = 1e-16 * rng.standard_normal((n, 8))
    fresh = _orthogonal_to(u, noise)
    assert fresh.shape[1] <= missing
    np.testing.assert_allclose(u.T @ fresh, 0.0, atol=1e-12)
    np.testing.assert_allclose(fresh.T @ fresh, np.eye(fresh.shape[1]), atol=1e-12)


# Points on a circle have a circulant matrix, whose eigenvalues, from the Fourier transform, come in pairs; a
# lattice can be turned and mirrored; of copies that do not see each other each eigenvalue is there thrice.
def _circle(n):
    angles = 2.0 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _lattice(m):
    return np.stack(np.meshgrid(np.arange(m), np.arange(m)), axis=-1).reshape(-1, 2).astype(float)


def _thrice():
    rows = np.random.default_rng(0).standard_normal((100, 2))
    return np.vstack([rows, rows + 1000.0, rows - 1000.0])


SYMMETRIC = {
    "circle": (_circle(300), 20.0),
    "larger circle": (_circle(600), 60.0),
    "lattice": (_lattice(15), 1.0),
    "pixels": (_lattice(28), 0.5),
    "copies": (_thrice(), 20.0),
}


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("name", sorted(SYMMETRIC))
def test_no_copy_of_an_eigenvalue_is_missed(name, k):
    x, gamma = SYMMETRIC[name]
    squares = np.sum((x[:, None] - x[None]) ** 2, axis=-1)
    kernel = np.exp(-gamma * squares)
    kernel -= kernel.mean(axis=0)
    kernel -= kernel.mean(axis=1)[:, None]
    true = np.linalg.eigvalsh(kernel)[::-1][:k]
    for seed in range(4):
        found = KernelPCA(k, kernel=RBF(gamma), random_state=seed).fit(x)
        np.testing.assert_allclose(found.eigenvalues_, true, atol=1e-9 * true[0], rtol=0)


def test_the_eigenvalues_of_a_circle_are_those_of_its_fourier_transform():
    x, gamma = SYMMETRIC["circle"]
    row = np.exp(-gamma * np.sum((x - x[0]) ** 2, axis=1))
    values = np.sort(np.fft.fft(row).real[1:])[::-1][
        :4
    ]  # the first is the mean, which centring takes off
    found = KernelPCA(4, kernel=RBF(gamma), random_state=0).fit(x).eigenvalues_
    np.testing.assert_allclose(found, values, rtol=1e-9)
    assert abs(found[0] - found[1]) <= 1e-9 * found[0]
