"""The plan is what ran, on every route: solver, precision, storage, tile width, threads and products."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from mercer import PCA, KernelPCA
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.engine import threads
from mercer.engine.native import NativeEngine, compiled
from mercer.engine.native.engine import NativeRows
from mercer.engine.numpy import NumpyEngine
from mercer.estimators.fit_request import fit_request
from mercer.kernels import RBF, Linear, Polynomial
from mercer.model import dual
from mercer.operators import Centred, Gram, StoredGram
from mercer.planning import forecast, krylov, plan, problem
from mercer.planning.recipe import Given, Tiles, Whole
from mercer.sklearn import KernelPCA as DropIn
from mercer.solvers import BlockKrylov, Lapack

N, D = 850, 4
KRYLOV = BlockKrylov(tol=1e-6)


def function(x, y):
    return float(np.exp(-0.2 * ((x - y) ** 2).sum()))


# What is asked for, and what the plan is to be: route, solver, kind of recipe, share of tiles held.
EXACT = {
    "lapack": ({"solver": "lapack"}, "dual", Lapack, Tiles, 0.0),
    "all components": ({"n_components": None}, "dual", Lapack, Tiles, 0.0),
    "a share": ({"n_components": 0.7, "solver": KRYLOV}, "dual", BlockKrylov, Tiles, 1.0),
    "tiles held": ({"solver": KRYLOV}, "dual", BlockKrylov, Tiles, 1.0),
    "tiles packed": ({"solver": KRYLOV, "memory": "PACKED"}, "dual", BlockKrylov, Tiles, 1.0),
    "some held": ({"solver": KRYLOV, "memory": "SOME"}, "dual", BlockKrylov, Tiles, 0.5),
    "none held": ({"solver": KRYLOV, "memory": "NONE"}, "dual", BlockKrylov, Tiles, 0.0),
    "tight": ({"solver": BlockKrylov(tol=1e-10)}, "dual", BlockKrylov, Tiles, 1.0),
    "not bounded": (
        {"kernel": RBF(0.2) * Polynomial(2), "solver": KRYLOV},
        "dual",
        BlockKrylov,
        Tiles,
        1.0,
    ),
    "beyond float32": (
        {"kernel": 1e60 * RBF(0.2), "solver": KRYLOV},
        "dual",
        BlockKrylov,
        Tiles,
        1.0,
    ),
    "refined": ({"approximation": RPCholesky(40, refine=2)}, "dual", BlockKrylov, Tiles, 0.0),
}


@pytest.fixture(autouse=True)
def few_rows_are_many(monkeypatch):
    """Tiles, their cache and their proof begin above 3000 rows; here, above 300."""
    for module in (problem, plan, krylov):
        monkeypatch.setattr(module, "SMALL_ROWS", 300)
    # Seconds are not what is asked about.
    monkeypatch.setattr(forecast, "least_seconds", lambda work: work() is not None and 1e-6)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    return rng.standard_normal((N, D)) / np.sqrt(np.arange(1, D + 1))


class Seen:
    """What was built and used during a fit."""

    def __init__(self, monkeypatch):
        self.grams, self.solvers, self.widths = [], [], []
        self.lanes = set()  # that a fit had while it ran
        build = dual.gram_operator

        def building(*args, **kwargs):
            self.grams.append(build(*args, **kwargs).gram)
            self.lanes.add(kwargs["engine"].lanes)
            return Centred(self.grams[-1], args[3])

        for where in ("mercer.model.dual", "mercer.model.fit", "mercer.sklearn"):
            monkeypatch.setattr(f"{where}.gram_operator", building)

        def tiling(*args, **kwargs):
            self.widths.append(kwargs["width"])
            return Gram(*args, **kwargs)

        monkeypatch.setattr("mercer.planning.recipe.Gram", tiling)
        for kind in (Lapack, BlockKrylov):
            self._watch_solver(monkeypatch, kind, kind.__call__)

    def _watch_solver(self, monkeypatch, kind, call):
        def solving(solver, operator, *args, **kwargs):
            self.solvers.append(solver)
            return call(solver, operator, *args, **kwargs)

        monkeypatch.setattr(kind, "__call__", solving)


@pytest.fixture
def seen(monkeypatch):
    return Seen(monkeypatch)


def memory_for(model, rows, weights, wanted):
    """The largest budget in which tiles are held as wanted, by the plan alone."""
    for budget in range(20_000_000, 3_000_000, -20_000):
        model.set_params(memory=budget)
        recipe = fit_request(model, rows, weights, model.engine.facts()).plan.recipe
        kinds = {
            "NONE": recipe.share == 0.0,
            "SOME": 0.2 < recipe.share < 0.9,
            "PACKED": recipe.share == 1.0 and recipe.packed,
        }
        if kinds[wanted]:
            return budget
    raise AssertionError(wanted)


def assert_same_but_forecast(planned, done):
    bare = replace(planned, n_products=None, seconds=None, preimage_seconds=None)
    assert str(bare) == str(done)
    assert (planned.recipe, planned.n_threads, planned.n_bytes, planned.engine) == (
        done.recipe,
        done.n_threads,
        done.n_bytes,
        done.engine,
    )


def assert_built(done, gram, seen):
    """The operator that was built is that of the recipe."""
    recipe, n_threads = done.recipe, done.n_threads
    assert seen.lanes == {n_threads}
    if isinstance(recipe, (Given, Whole)):
        assert isinstance(gram, StoredGram)
        assert (str(gram.dtype), gram.n_threads) == (recipe.dtype, n_threads)
        return
    proof = recipe.proof or recipe
    assert gram.x.width == proof.width
    assert str(gram.dtype) == ("float64" if recipe.proof else recipe.dtype)
    assert (gram.rough is not None) == (recipe.proof is not None)
    if recipe.proof is None:
        assert_kept(gram, recipe)
    elif recipe.share == 1.0:  # all tiles, rounded from those of the proof
        assert gram.fills_rough
        assert gram.store.rounding.packed == recipe.packed
        assert rounded_bytes(gram.x) == recipe.store.n_bytes
    else:
        rough = gram.rough
        assert rough.x.width == recipe.width
        assert str(rough.dtype) == recipe.dtype
        assert_kept(rough, recipe)


def assert_kept(gram, recipe):
    """As many tiles lie in memory after the fit as the plan has counted."""
    kept = exact_tiles(gram.x)
    assert len(kept) == (0 if recipe.store is None else recipe.store.n_held)
    assert all(tile is not None for tile in kept)
    assert sum(tile.nbytes for tile in kept) <= (recipe.store.n_bytes if recipe.store else 0)


def exact_tiles(x):
    """The tiles that are kept as they are, None for one that was never made."""
    if not isinstance(x, NativeRows):
        return [] if x.kept is None else x.kept._exact
    if x.tiles is None:
        return []
    return [tile if made else None for tile, made in zip(x.tiles.exact, x.tiles.made, strict=False)]


def rounded_bytes(x):
    """What the rounded tiles take."""
    if not isinstance(x, NativeRows):
        return x.kept._pool.nbytes
    return (x.tiles.rounded if x.tiles.codes is None else x.tiles.codes).nbytes


ENGINES = {"numpy": NumpyEngine, **({} if compiled() is None else {"native": NativeEngine})}


@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
@pytest.mark.parametrize(
    ("dtype", "n_threads", "weighted"),
    [("float64", 1, False), ("float64", 2, True), ("float32", 1, True), ("float32", 2, False)],
)
@pytest.mark.parametrize("case", sorted(EXACT))
@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_kernel_matrices_are_built_as_planned(
    rows, seen, engine, case, *, dtype, n_threads, weighted
):
    params, route, solver, kind, share = EXACT[case]
    x, engine = rows.astype(dtype), ENGINES[engine](n_threads)
    weights = np.arange(N) % 3 + 1.0 if weighted else None
    given = {"n_components": 3, "kernel": RBF(0.2), "memory": "1GB", **params, "engine": engine}
    model = KernelPCA(**given, random_state=0)
    if given["memory"] in ("NONE", "SOME", "PACKED"):
        model.set_params(memory=memory_for(model, x, weights, given["memory"]))
    planned = model.plan(x, weights)
    seen.solvers.clear()
    fit = model.fit(x, sample_weight=weights).fit_
    assert_same_but_forecast(planned, model.plan_)
    done = model.plan_
    assert (done.route, type(done.solver), type(done.recipe)) == (route, solver, kind)
    assert abs(done.recipe.share - share) <= (0.4 if share == 0.5 else 0.0)
    assert done.n_threads <= n_threads
    (gram,) = seen.grams
    assert_built(done, gram, seen)
    if case != "refined":  # its Ritz step is no solver
        assert seen.solvers[0] == done.solver
    # A forecast of a typical run: right within a factor of two, where a basis holds more than two blocks.
    assert 1 <= fit.pairs.n_products <= 2 * planned.n_products


# Fits that make no entry of K, or make it elsewhere: what is asked for, route, and which operators are built.
OTHERS = {
    "primal": ({"kernel": Polynomial(2)}, "primal"),
    "primal, Krylov": ({"kernel": Polynomial(2), "solver": "krylov"}, "primal"),
    "linear": ({"kernel": Linear()}, "primal"),
    "rpcholesky": ({"approximation": RPCholesky(40)}, "low-rank"),
    "nystrom": ({"approximation": Nystrom(40)}, "low-rank"),
    "fourier": ({"approximation": RandomFourier(40)}, "low-rank"),
}


@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
@pytest.mark.parametrize("streamed", [False, True], ids=["", "from a file"])
@pytest.mark.parametrize("case", sorted(OTHERS))
def test_no_entry_is_made_where_the_plan_forms_no_matrix(
    rows, seen, tmp_path, monkeypatch, *, case, streamed
):
    params, route = OTHERS[case]
    monkeypatch.setattr(problem, "OWN_SHARE", 0.0)  # rows of a file stay there
    x = rows
    if streamed:
        np.save(tmp_path / "x.npy", rows)
        x = tmp_path / "x.npy"
    model = KernelPCA(3, random_state=0, **{"kernel": RBF(0.2), "memory": "1GB", **params})
    planned = model.plan(x)
    seen.solvers.clear()
    model.fit(x)
    assert_same_but_forecast(planned, model.plan_)
    assert (model.plan_.route, model.plan_.recipe) == (route, None)
    assert seen.grams == []
    if route == "primal":  # the small problem of a factor is solved at once
        assert seen.solvers[0] == model.plan_.solver


@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
@pytest.mark.parametrize("solver", ["lapack", "krylov"])
def test_a_matrix_a_function_and_a_file_are_taken_as_planned(solver, rows, seen, tmp_path):
    np.save(tmp_path / "x.npy", rows)
    made = Whole if solver == "lapack" else Tiles
    cases = [
        (rows[:280], {"kernel": RBF(0.2)}, Whole),
        (rows, {"kernel": function}, made),
        (RBF(0.2)(rows), {"kernel": "precomputed"}, Given),
        (tmp_path / "x.npy", {"kernel": RBF(0.2)}, Tiles),
    ]
    for x, params, kind in cases:
        x = x[:310] if params["kernel"] is function else x  # noqa: PLW2901  (called for each pair)
        seen.grams.clear()
        seen.widths.clear()
        seen.lanes.clear()
        model = KernelPCA(3, solver=solver, memory="1GB", random_state=0, **params).fit(x)
        assert type(model.plan_.recipe) is kind
        (gram,) = seen.grams
        assert_built(model.plan_, gram, seen)
        assert set(seen.widths) <= {model.plan_.recipe.width}
        assert seen.solvers[-1] == model.plan_.solver


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("d", [D, 700])
def test_pca_takes_the_side_of_its_plan(d, dtype, monkeypatch):
    sizes, solved = [], Lapack.__call__

    def solving(solver, operator, *args, **kwargs):
        sizes.append((operator.n, str(operator.dtype)))
        return solved(solver, operator, *args, **kwargs)

    monkeypatch.setattr(Lapack, "__call__", solving)
    x = np.random.default_rng(0).standard_normal((60, d)).astype(dtype)
    model = PCA(3, solver="lapack").fit(x)
    dual_side = d > 60
    assert (model.plan_.route == "dual") == dual_side
    assert model.plan_.recipe == (Whole(60, "float64") if dual_side else None)
    assert sizes == [(60 if dual_side else d, "float64")]


@pytest.mark.parametrize("solver", ["auto", "dense"])
def test_the_drop_in_builds_what_its_plan_says(solver, rows, seen):
    model = DropIn(3, kernel="rbf", eigen_solver=solver, random_state=0).fit(rows)
    (gram,) = seen.grams
    assert_built(model.plan_, gram, seen)
    assert seen.solvers == [model.plan_.solver]


@pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")
@pytest.mark.parametrize(
    "params",
    [
        *(EXACT[c][0] for c in ("lapack", "tiles held", "refined")),
        *(asked for asked, _ in OTHERS.values()),
    ],
    ids=str,
)
def test_a_fit_is_as_wide_as_its_engine(params, rows, monkeypatch):
    """Whoever asks for threads during a fit gets those of the engine, whatever BLAS might use."""
    asked = []
    monkeypatch.setattr(threads, "_within_cores", lambda _: 7)
    parallel_map = threads.parallel_map

    def sharing(work, tasks, *, n_threads):
        asked.append(n_threads)
        return parallel_map(work, tasks, n_threads=n_threads)

    for module in [m for name, m in sys.modules.items() if name.startswith("mercer.")]:
        if getattr(module, "parallel_map", None) is parallel_map:
            monkeypatch.setattr(module, "parallel_map", sharing)
    model = KernelPCA(
        3, random_state=0, engine=NumpyEngine(2), **{"kernel": RBF(0.2), "memory": "1GB", **params}
    )
    model.fit(rows)
    assert model.plan_.n_threads <= 2
    assert max(asked, default=1) <= 2


def test_more_memory_never_worsens_the_plan():
    """Nor do more threads: fewer restarts, more tiles, in no more bytes than there are."""
    many = problem.Problem(20_000, 50, 20, shift_invariant=True, rows_bytes=8_000_000, n_threads=2)
    plans = [plan.plan(replace(many, budget_bytes=mb * 10**6)) for mb in range(140, 1200, 10)]
    rooms = [one.solver.room(20, many.n) for one in plans]
    assert rooms == sorted(rooms)
    full = [one for one in plans if one.solver.max_basis is None]
    shares = [one.recipe.share for one in full]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert all(
        one.n_bytes <= mb * 10**6 for one, mb in zip(plans, range(140, 1200, 10), strict=True)
    )


@pytest.mark.parametrize("spread", [None, 3.0])
@pytest.mark.parametrize("columns", [16, 24])
def test_products_with_a_short_basis_are_forecast_within_a_factor_of_two(columns, spread):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4000, 20))  # which has no gap to speak of
    if spread is not None:  # clusters, whose components are found at once
        x += spread * rng.standard_normal((4, 20))[rng.integers(4, size=4000)]
    model = KernelPCA(
        3, kernel="rbf", memory="64MB", solver=BlockKrylov(max_basis=columns), random_state=0
    )
    planned = model.plan(x)
    assert planned.solver.max_basis == columns
    used = model.fit(x).fit_.pairs.n_products
    assert used / 2 <= planned.n_products <= 2 * used
