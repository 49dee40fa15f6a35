"""Laws of the estimator past memory: rows from anywhere, approximations, plans, interruptions."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import make_blobs

import mercer
from mercer import PCA, KernelPCA
from mercer._core.errors import (
    ApproximationWarning,
    CheckpointWarning,
    IndefiniteKernelWarning,
    InputError,
    KernelError,
    LongFitWarning,
)
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.kernels import RBF, Polynomial
from mercer.solvers import BlockKrylov

ROUTES = {
    "lapack": {"kernel": RBF(0.2), "solver": "lapack"},
    "tiles": {"kernel": RBF(0.2), "solver": "krylov", "memory": "20MB"},
    "dot": {"kernel": Polynomial(3), "solver": "krylov"},
    "primal": {"kernel": Polynomial(2)},
    "linear": {"kernel": "linear"},
    "rpcholesky": {"kernel": RBF(0.2), "approximation": RPCholesky(rank=40)},
    "nystrom": {"kernel": RBF(0.2), "approximation": Nystrom(40)},
    "fourier": {"kernel": RBF(0.2), "approximation": RandomFourier(60)},
    "refined": {"kernel": RBF(0.2), "approximation": RPCholesky(rank=40, refine=2)},
}


@pytest.fixture(scope="module")
def x():
    rows = np.random.default_rng(5).standard_normal((700, 4)) * [3.0, 2.0, 1.0, 0.5]
    rows.flags.writeable = False
    return rows


@pytest.fixture(params=sorted(ROUTES))
def route(request):
    return ROUTES[request.param]


def up_to_sign(found, expected, atol):
    signs = np.sign(np.sum(found * expected, axis=0))
    np.testing.assert_allclose(found * signs, expected, atol=atol)


# ── rows from anywhere ──────────────────────────────────────────────────────
def npy(x, folder):
    np.save(folder / "x.npy", x)
    return folder / "x.npy"


def memmap(x, folder):
    return np.load(npy(x, folder), mmap_mode="r")


def parquet(x, folder):
    frame = pd.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])])
    frame.to_parquet(folder / "x.parquet", row_group_size=97)
    return str(folder / "x.parquet")


def zarr(x, folder):
    import zarr

    array = zarr.create_array(str(folder / "x.zarr"), shape=x.shape, chunks=(64, 4), dtype="f8")
    array[:] = x
    return array


def batches(x, _folder):
    return lambda: iter(np.array_split(x, 9))


SOURCES = {f.__name__: f for f in (npy, memmap, parquet, zarr, batches)}


@pytest.mark.parametrize("source", sorted(SOURCES))
def test_the_same_rows_give_the_same_model(source, route, x, tmp_path):
    rows = SOURCES[source](x, tmp_path)
    theirs, ours = (KernelPCA(3, **route) for _ in range(2))
    expected = theirs.fit_transform(x)
    found = ours.fit_transform(rows)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    up_to_sign(found, expected, 1e-8 * np.abs(expected).max())
    up_to_sign(ours.transform(rows), expected, 1e-8 * np.abs(expected).max())
    assert ours.n_features_in_ == 4


@pytest.mark.parametrize("source", sorted(SOURCES))
def test_pca_of_a_source(source, x, tmp_path):
    pca = PCA(2).fit(SOURCES[source](x, tmp_path))
    reference = PCA(2).fit(x)
    np.testing.assert_allclose(pca.explained_variance_, reference.explained_variance_, rtol=1e-10)
    np.testing.assert_allclose(pca.mean_, reference.mean_, atol=1e-13)


def test_transform_writes_into_out(route, x, tmp_path):
    model = KernelPCA(3, **route).fit(x)
    out = np.lib.format.open_memmap(tmp_path / "out.npy", "w+", np.float64, (700, 3))
    assert model.transform(npy(x, tmp_path), out=out) is out
    out.flush()
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), model.transform(x), atol=1e-12)


@pytest.mark.parametrize(
    "out", [np.empty((700, 2)), np.empty((700, 3), "f4"), [[0.0]], np.broadcast_to(0.0, (700, 3))]
)
def test_an_out_that_does_not_fit_is_refused(out, x):
    model = KernelPCA(3, kernel=RBF(0.2)).fit(x)
    with pytest.raises(InputError) as caught:
        model.transform(x, out=out)
    assert caught.value.parameter == "out"


def test_columns_of_a_table_are_found_by_name(x, tmp_path):
    model = KernelPCA(2, kernel=RBF(0.2)).fit(parquet(x, tmp_path))
    other = pd.DataFrame(x, columns=["c0", "c1", "c2", "c3"])[["c3", "c1", "c0", "c2"]]
    other.assign(more=1.0).to_parquet(tmp_path / "other.parquet")
    frame = pd.DataFrame(x, columns=["c0", "c1", "c2", "c3"])
    np.testing.assert_allclose(
        model.transform(tmp_path / "other.parquet"), model.transform(frame), atol=1e-12
    )


def test_the_seventh_batch_is_named(x):
    bad = x.copy()
    bad[450, 2] = np.nan
    with pytest.raises(InputError, match=r"7th.*column 2"):
        KernelPCA(2, approximation="nystrom").fit(lambda: iter(np.array_split(bad, 10)))


def test_a_file_that_changes_under_the_fit_is_an_error(x, tmp_path):
    path = npy(x, tmp_path)

    class Meddler(RBF):
        def tile_diag(self, rows):
            np.save(path, x * 2.0)
            return super().tile_diag(rows)

    with pytest.raises(InputError, match="changed"):
        KernelPCA(2, kernel=Meddler(0.2)).fit(path)


def test_a_source_with_other_columns_is_refused(x, tmp_path):
    model = KernelPCA(2, kernel=RBF(0.2)).fit(x)
    np.save(tmp_path / "narrow.npy", x[:, :3])
    with pytest.raises(InputError, match="4 columns, as KernelPCA was fitted on") as caught:
        model.transform(tmp_path / "narrow.npy")
    assert (caught.value.parameter, caught.value.value) == ("X", (len(x), 3))


def test_a_model_owns_small_rows(x, tmp_path):
    path = npy(x, tmp_path)
    model = KernelPCA(2, kernel=RBF(0.2)).fit(path)
    before = model.transform(x)
    path.unlink()
    np.testing.assert_array_equal(model.transform(x), before)


def test_rows_that_stay_in_a_file_have_to_stay_the_same(x, tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.planning.problem.OWN_SHARE", 0.0)
    path = npy(x, tmp_path)
    model = KernelPCA(2, kernel=RBF(0.2)).fit(path)
    up_to_sign(model.transform(x), KernelPCA(2, kernel=RBF(0.2)).fit_transform(x), 1e-9)
    np.save(path, 2.0 * x)
    with pytest.raises(InputError, match="changed"):
        model.transform(x)


@pytest.mark.parametrize("source", ["npy", "memmap", "zarr"])
def test_rows_that_are_read_slice_by_slice(source, route, x, tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.planning.problem.OWN_SHARE", 0.0)
    expected = KernelPCA(3, **route).fit_transform(x)
    found = KernelPCA(3, **route).fit_transform(SOURCES[source](x, tmp_path))
    up_to_sign(found, expected, 1e-8 * np.abs(expected).max())


def test_a_refined_model_keeps_a_copy(x):
    rows = x.copy()
    refined = RPCholesky(rank=30, refine=1)
    model = KernelPCA(2, kernel=RBF(0.2), approximation=refined).fit(rows)
    before = model.transform(x[:5])
    rows *= 3.0
    np.testing.assert_array_equal(model.transform(x[:5]), before)


def test_out_may_not_lie_in_the_rows(x, tmp_path):
    rows = x.copy()
    model = KernelPCA(3, kernel=RBF(0.2)).fit(rows)
    with pytest.raises(InputError, match="overwrite"):
        model.transform(rows, out=rows[::-1, :3])
    path = npy(x, tmp_path)
    with pytest.raises(InputError, match="overwrite"):
        model.transform(path, out=np.load(path, mmap_mode="r+")[:, :3])
    np.testing.assert_array_equal(np.load(path), x)


def test_a_checkpoint_does_not_depend_on_the_memory_that_is_free(x, tmp_path):
    knobs = {"kernel": RBF(0.2), "solver": "krylov", "checkpoint": tmp_path / "fit.ckpt"}
    first = KernelPCA(2, memory="20MB", **knobs).fit(x)
    again = KernelPCA(2, memory="21MB", **knobs).fit(x)
    np.testing.assert_allclose(again.eigenvalues_, first.eigenvalues_, rtol=1e-12)


def test_text_columns_beside_those_of_the_fit_do_no_harm(x, tmp_path):
    frame = pd.DataFrame(x, columns=["c0", "c1", "c2", "c3"])
    model = KernelPCA(2, kernel=RBF(0.2)).fit(parquet(x, tmp_path))
    frame.assign(note="text").to_parquet(tmp_path / "y.parquet")
    np.testing.assert_allclose(model.transform(tmp_path / "y.parquet"), model.transform(frame))


def test_wide_sparse_rows_are_planned_by_what_they_hold():
    rows = sparse.random_array(
        (2000, 100_000), density=2e-4, format="csr", rng=np.random.default_rng(0)
    )
    model = KernelPCA(2, kernel="cosine", approximation=RPCholesky(20), memory="100MB").fit(rows)
    assert model.plan_.n_bytes < 100e6
    assert KernelPCA(2, kernel="cosine").plan(rows).n_bytes < 500e6


@pytest.mark.parametrize("tol", [0.0, 1e-17, "x", None, np.inf])
def test_a_tolerance_that_can_not_be_reached_is_refused(tol, x):
    for work in ("fit", "plan"):
        with pytest.raises(InputError, match="BlockKrylov"):
            getattr(KernelPCA(2, solver=BlockKrylov(tol=tol)), work)(x)


def test_float32_rows_reach_tolerances_beyond_float32(x):
    rows = x.astype(np.float32)
    model = KernelPCA(2, kernel=RBF(0.2), solver=BlockKrylov(tol=1e-9)).fit(rows)
    # What was found; what is handed out is rounded to float32, and told so.
    np.testing.assert_allclose(model.fit_.eigenvalues, exact_eigenvalues(rows, 0.2, 2), rtol=1e-9)
    assert 1e-9 < model.residuals_.max() < 2.0 * np.finfo(np.float32).eps


# ── approximations ──────────────────────────────────────────────────────────
def test_transform_is_fit_transform(route, x):
    model = KernelPCA(3, **route)
    np.testing.assert_allclose(model.fit_transform(x), model.transform(x), atol=1e-9)


@pytest.mark.parametrize("name", ["rpcholesky", "nystrom", "fourier"])
def test_names_stand_for_objects(name, x):
    model = KernelPCA(2, kernel=RBF(0.2), approximation=name)
    if name == "fourier":
        assert np.isnan(model.fit(x).fit_.trace_error)
    else:
        assert 0.0 <= model.fit(x).fit_.trace_error < 1e-2


def test_knobs_are_reached_by_name(x):
    model = clone(KernelPCA(2, approximation=RPCholesky(rank=20)))
    model.set_params(approximation__rank=33).fit(x)
    assert model.fit_.projection.sections.width == 33


def test_refining_closes_in_on_the_exact_pairs(x):
    exact = KernelPCA(4, kernel=RBF(0.2), solver="lapack").fit(x).eigenvalues_
    gaps, residuals = [], []
    for refine in (1, 2, 3):
        rough = RPCholesky(rank=25, refine=refine)
        model = KernelPCA(4, kernel=RBF(0.2), approximation=rough).fit(x)
        assert np.all(model.eigenvalues_ <= exact * (1 + 1e-12))
        low, high = model.fit_.bounds.T
        assert np.all((low <= exact * (1 + 1e-12)) & (exact <= high * (1 + 1e-12)))
        assert model.fit_.pairs.n_products == refine
        gaps.append(np.max(1.0 - model.eigenvalues_ / exact))
        residuals.append(model.residuals_.max())
    assert gaps == sorted(gaps, reverse=True)
    assert residuals == sorted(residuals, reverse=True)
    assert gaps[-1] < 1e-4 * gaps[0] or gaps[-1] < 1e-10


@pytest.mark.parametrize("name", ["rpcholesky", "nystrom", "fourier", "tiles"])
def test_the_way_back_from_every_route(name):
    rows, _ = make_blobs(400, n_features=3, centers=4, random_state=0)
    knobs = {**ROUTES[name], "kernel": RBF(0.05)}
    model = KernelPCA(8, preimage="ridge", **knobs).fit(rows)
    back = model.inverse_transform(model.transform(rows))
    assert np.mean((back - rows) ** 2) < 0.05 * rows.var()


def test_eigenvectors_of_an_approximation_do_not_exist(x):
    model = KernelPCA(2, kernel=RBF(0.2), approximation="nystrom").fit(x)
    assert not hasattr(model, "eigenvectors_")
    assert hasattr(KernelPCA(2, kernel=RBF(0.2)).fit(x), "eigenvectors_")


@pytest.mark.parametrize(
    ("approximation", "kernel", "message"),
    [
        (RPCholesky(rank=701), RBF(0.2), "rank must be an integer from 1 to 700.*got 701"),
        (RPCholesky(rank=0), RBF(0.2), "rank"),
        (RandomFourier(100), Polynomial(2), "shift-invariant.*RPCholesky"),
        ("rpcolesky", RBF(0.2), "Did you mean 'rpcholesky'"),
        (3, RBF(0.2), "approximation must be"),
        (Nystrom(10), "precomputed", "precomputed"),
    ],
)
def test_what_an_approximation_can_not_do(approximation, kernel, message, x):
    rows = x @ x.T if kernel == "precomputed" else x
    with pytest.raises((InputError, KernelError), match=message):
        KernelPCA(2, kernel=kernel, approximation=approximation).fit(rows)


def test_a_tolerance_beyond_the_precision_is_refused(x):
    approximation = RPCholesky(rank="auto", tol=1e-12)
    with pytest.raises(InputError, match="float32"):
        KernelPCA(2, approximation=approximation).fit(x.astype(np.float32))


def test_a_rank_that_grows_until_the_certificate_holds(x):
    for tol in (0.3, 0.03, 0.003):
        approximation = RPCholesky(rank="auto", tol=tol)
        model = KernelPCA(2, kernel=RBF(0.2), approximation=approximation).fit(x)
        assert model.fit_.trace_error <= tol
        one_less = Nystrom(model.fit_.projection.sections.points[:-1])
        again = KernelPCA(2, kernel=RBF(0.2), approximation=one_less).fit(x)
        assert again.fit_.trace_error > tol


def test_a_rank_that_stops_growing_too_early_is_told(x):
    approximation = RPCholesky(rank="auto", tol=1e-3, max_rank=20)
    with pytest.warns(ApproximationWarning, match=r"0.001 was asked for: .* at 20\."):
        KernelPCA(2, kernel=RBF(0.2), approximation=approximation).fit(x)


def test_a_bound_that_rests_on_an_assumption_says_so(x):
    plain = KernelPCA(2, kernel=RBF(0.2), approximation="nystrom").fit(x)
    assert "not known" not in str(plain.fit_)
    custom = KernelPCA(2, kernel=lambda a, b: (a @ b.T + 1.0) ** 2, approximation="nystrom").fit(x)
    assert "if the kernel is valid, which is not known" in str(custom.fit_)


# ── plans ───────────────────────────────────────────────────────────────────
def test_a_plan_is_what_fit_does_and_fits_nothing(route, x):
    model = KernelPCA(3, **route)
    planned = model.plan(x)
    assert not hasattr(model, "fit_")
    assert planned.seconds > 0
    assert planned.n_products >= 1
    assert "expected" in str(planned)
    done = model.fit(x).plan_
    assert str(replace(planned, n_products=None, seconds=None)) == str(done)
    assert planned.recipe == done.recipe


def test_a_long_exact_fit_says_so_once(x, monkeypatch):
    monkeypatch.setattr("mercer.estimators.fit_request.LONG_ROWS", 100)
    monkeypatch.setattr("mercer.estimators.fit_request.LONG_SECONDS", 0.0)
    with pytest.warns(LongFitWarning, match="approximation='rpcholesky'") as told:
        KernelPCA(2, kernel=RBF(0.2)).fit(x)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelPCA(2, kernel=RBF(0.2), approximation="nystrom").fit(x)


def test_a_long_call_of_lapack_is_announced_since_nothing_interrupts_it(x, monkeypatch):
    monkeypatch.setattr("mercer.estimators.fit_request.LAPACK_ROWS", 100)
    monkeypatch.setattr("mercer.estimators.fit_request.LAPACK_SECONDS", 0.0)
    with pytest.warns(
        LongFitWarning, match="Ctrl-C takes effect only when LAPACK has ended"
    ) as warned:
        KernelPCA(None, kernel=RBF(0.2), solver="lapack").fit(x)
    assert len(warned) == 1


# ── interruptions ───────────────────────────────────────────────────────────
class Interrupting(RBF):
    """A kernel during which the user presses Ctrl-C."""

    calls = 0

    def tile(self, x, y):
        Interrupting.calls += 1
        if Interrupting.calls > 3:
            raise KeyboardInterrupt
        return super().tile(x, y)


def test_ctrl_c_leaves_the_estimator_as_it_was(x):
    Interrupting.calls = 0
    model = KernelPCA(2, kernel=RBF(0.2)).fit(x)
    before = dict(model.__dict__)
    model.set_params(kernel=Interrupting(0.2), memory="25MB", solver="krylov")
    with pytest.raises(KeyboardInterrupt):
        model.fit(x)
    assert {**before, **model.get_params(deep=False)} == model.__dict__
    np.testing.assert_array_equal(model.eigenvalues_, before["fit_"].eigenvalues)


def test_verbose_tells_how_far_it_is(x, capsys):
    KernelPCA(2, kernel=RBF(0.2), solver=BlockKrylov(), verbose=1).fit(x)
    told = capsys.readouterr()
    assert told.out == ""
    assert "products, residual" in told.err


@pytest.mark.parametrize("name", ["lapack", "primal", "rpcholesky"])
def test_a_checkpoint_that_is_not_used_is_told(name, x, tmp_path):
    path = tmp_path / "fit.ckpt"
    with pytest.warns(CheckpointWarning, match="is not used"):
        KernelPCA(2, checkpoint=path, **ROUTES[name]).fit(x)
    assert not path.exists()


def test_a_resumed_fit_is_the_same_fit(x, tmp_path):
    knobs = {"kernel": RBF(0.2), "solver": BlockKrylov(), "memory": "20MB"}
    plain = KernelPCA(2, **knobs).fit(x)
    first = KernelPCA(2, checkpoint=tmp_path / "a.ckpt", **knobs).fit(x)
    again = KernelPCA(2, checkpoint=tmp_path / "a.ckpt", **knobs).fit(x)
    for model in (first, again):
        np.testing.assert_array_equal(model.eigenvalues_, plain.eigenvalues_)
        np.testing.assert_array_equal(model.eigenvectors_, plain.eigenvectors_)
    with pytest.raises(InputError, match="kernel"):
        KernelPCA(2, checkpoint=tmp_path / "a.ckpt", **{**knobs, "kernel": RBF(0.3)}).fit(x)


def test_the_public_names():
    assert {"IncrementalKernelPCA", "approximations"} <= set(mercer.__all__)


# ── what a shift, a cast or a scale must not do ─────────────────────────────
def exact_eigenvalues(rows, gamma, k):
    """From distances that no shift has touched."""
    matrix = np.exp(-gamma * cdist(rows, rows, "sqeuclidean"))
    centring = np.eye(len(rows)) - 1.0 / len(rows)
    return np.linalg.eigvalsh(centring @ matrix @ centring)[::-1][:k]


@pytest.mark.parametrize("solver", ["lapack", "krylov"])
@pytest.mark.parametrize("far", [1e8, 1e12, 1e20])
def test_one_row_far_away_does_not_blur_the_others(far, solver, rng):
    rows = rng.standard_normal((600, 5))
    rows[-1] = far
    found = KernelPCA(3, kernel=RBF(0.05), solver=solver).fit(rows).eigenvalues_
    np.testing.assert_allclose(found, exact_eigenvalues(rows, 0.05, 3), rtol=1e-8)


def test_two_clusters_far_apart_are_both_seen(rng):
    rows = rng.standard_normal((600, 5))
    rows[300:] += 1e10
    found = KernelPCA(3, kernel=RBF(0.05), solver="krylov").fit(rows).eigenvalues_
    np.testing.assert_allclose(found, exact_eigenvalues(rows, 0.05, 3), rtol=1e-6)


@pytest.mark.parametrize("kernel", [RBF(0.1) + Polynomial(2), Polynomial(2), RBF(1e-6), "linear"])
@pytest.mark.parametrize("n", [700, 3100])
def test_float32_scores_are_those_of_the_fit(kernel, n, rng):
    rows = (rng.standard_normal((n, 4)) * [3.0, 2.0, 1.0, 0.5] + 1000.0).astype(np.float32)
    model = KernelPCA(3, kernel=kernel)
    scores = model.fit_transform(rows)
    again = model.transform(rows)
    assert scores.dtype == again.dtype == np.float32
    np.testing.assert_allclose(again, scores, atol=2e-3 * np.abs(scores).max())
    assert model.residuals_.max() < 1e-4


@pytest.mark.parametrize("unit", [1e-100, 1e-8, 1e12, 1e60])
def test_weights_of_any_size(unit, x):
    weights = 1.0 + np.arange(700) % 3
    knobs = {"kernel": RBF(0.2), "solver": "krylov"}
    plain = KernelPCA(3, **knobs).fit(x, sample_weight=weights)
    large = KernelPCA(3, **knobs).fit(x, sample_weight=unit * weights)
    np.testing.assert_allclose(large.eigenvalues_ / unit, plain.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(large.transform(x[:9]), plain.transform(x[:9]), atol=1e-8)


def test_bounds_of_refined_pairs_hold_where_a_direction_is_missing(rng):
    rows = rng.standard_normal((400, 2))
    rows[200:] += 20.0
    few = Nystrom(rows[:6], refine=1)  # landmarks in one of the two clusters
    model = KernelPCA(4, kernel=RBF(0.3), approximation=few).fit(rows)
    low, high = model.fit_.bounds.T
    true = exact_eigenvalues(rows, 0.3, 4)
    assert np.all((low <= true) & (true <= high))


@pytest.mark.parametrize("memory", ["400MB", "40MB"])
def test_the_rounding_of_tiles_is_no_negative_eigenvalue(memory, rng):
    """A constant drops out of the centred matrix: what is left is valid, though nobody can prove it."""
    x = rng.standard_normal((3500, 3))
    kernel = RBF(0.01) - 0.1
    assert kernel.why_valid() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error", IndefiniteKernelWarning)
        model = KernelPCA(3, kernel=kernel, memory=memory).fit(x)
    assert model.plan_.recipe.packed == (memory == "40MB")


@pytest.mark.parametrize(("d", "gamma", "k"), [(2, 0.006, 12), (1, 0.006, 4), (2, 0.003, 9)])
def test_scores_of_tiny_components_are_those_of_transform(d, gamma, k, rng):
    x = rng.standard_normal((3100, d))
    model = KernelPCA(k, kernel=RBF(gamma))
    scores = model.fit_transform(x)
    gap = np.linalg.norm(scores - model.transform(x), axis=0)
    # A fit may leave ‖K̃u - product‖ ≤ 1e-5 · λ unseen. Scores are products over √λ, and √λ long, so this
    # is a share of each column, whichever way tiles are rounded; for single rows there is no such bound.
    # `transform` itself rounds by a few units of k(x, x) = 1 over a variance λ/n of 1e-8 and more: 1e-7.
    assert np.all(gap < (1e-5 + 1e-7) * np.linalg.norm(scores, axis=0))
