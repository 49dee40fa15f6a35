"""The planner: a table in, a plan out, and the reasons in words."""

from dataclasses import replace

import pytest

from mercer import KernelPCA
from mercer._core.errors import MemoryBudgetError
from mercer.approximations import Nystrom, RandomFourier, RPCholesky
from mercer.model import Problem, plan_approximation, plan_linear
from mercer.planning.plan import plan
from mercer.planning.recipe import Given, Tiles, Whole
from mercer.solvers import BlockKrylov, Lanczos, Lapack

GB = 10**9

TABLE = {
    "small": (Problem(200, 5, 2, shift_invariant=True), "dual", Lapack, Whole),
    "medium": (Problem(2000, 5, 20, shift_invariant=True), "dual", BlockKrylov, Whole),
    "large": (Problem(10_000, 50, 20, shift_invariant=True), "dual", BlockKrylov, Tiles),
    "large, not shift-invariant": (Problem(10_000, 50, 20), "dual", BlockKrylov, Tiles),
    "large, float32": (
        Problem(10_000, 50, 20, itemsize=4, shift_invariant=True),
        "dual",
        BlockKrylov,
        Tiles,
    ),
    "too large to store": (
        Problem(10_000, 50, 20, budget_bytes=GB // 5, shift_invariant=True),
        "dual",
        BlockKrylov,
        Tiles,
    ),
    "all components": (Problem(3000, 50, None, shift_invariant=True), "dual", Lapack, Tiles),
    "many components": (Problem(3000, 50, 900, shift_invariant=True), "dual", Lapack, Tiles),
    "a share, small": (Problem(1500, 50, 0.9, shift_invariant=True), "dual", Lapack, Tiles),
    "few rows": (Problem(100, 5, 2, valid=True), "dual", Lapack, Whole),
    "some rows": (Problem(300, 5, 20, valid=True), "dual", Lanczos, Whole),
    "more rows": (Problem(900, 5, 20, valid=True), "dual", Lanczos, Whole),
    "some rows, perhaps no kernel": (Problem(500, 5, 20), "dual", Lapack, Whole),
    "some rows, many components": (Problem(500, 5, 80, valid=True), "dual", Lapack, Whole),
    "a share, small, a kernel": (
        Problem(2000, 50, 0.9, shift_invariant=True, valid=True),
        "dual",
        BlockKrylov,
        Whole,
    ),
    "a share, large": (Problem(9000, 50, 0.9, shift_invariant=True), "dual", BlockKrylov, Tiles),
    "a short map": (Problem(10_000, 10, 20, map_dimension=66), "primal", Lapack, type(None)),
    "a long map": (Problem(10_000, 50, 20, map_dimension=9000), "dual", BlockKrylov, Tiles),
    "a long map, all components": (
        Problem(3000, 50, None, map_dimension=2500),
        "primal",
        Lapack,
        type(None),
    ),
    "a map as long as n": (Problem(66, 10, 2, map_dimension=66), "dual", Lapack, Whole),
    "precomputed": (Problem(5000, 5000, 3, precomputed=True), "dual", BlockKrylov, Given),
}


@pytest.mark.parametrize("case", sorted(TABLE))
def test_the_table(case):
    problem, route, solver, recipe = TABLE[case]
    chosen = plan(problem)
    assert (chosen.route, type(chosen.solver), type(chosen.recipe)) == (route, solver, recipe)
    assert chosen.n_bytes <= problem.budget_bytes
    assert chosen.reasons
    assert all(reason in str(chosen) for reason in chosen.reasons)


def test_tolerance_follows_precision_and_cost():
    assert plan(Problem(2000, 5, 20)).solver.tol == 1e-10
    assert plan(Problem(9000, 5, 20)).solver.tol == 1e-6
    assert plan(Problem(2000, 5, 20, itemsize=4)).solver.tol == 1e-6


@pytest.mark.parametrize(("n", "most"), [(3000, 120), (3600, 300), (12_000, 1000)])
def test_few_components_are_iterated_for_and_many_left_to_lapack(n, most):
    assert isinstance(plan(Problem(n, 5, most)).solver, BlockKrylov)
    assert isinstance(plan(Problem(n, 5, most + 1)).solver, Lapack)


@pytest.mark.parametrize("n", [60, 100, 300, 500])
def test_of_a_small_valid_kernel_the_top_few_are_computed_alone(n):
    few = Problem(n, 5, n // 8, valid=True)
    assert plan(few).solver == Lapack(subset=True)
    iterated = plan(replace(few, n_components=n // 10)).solver
    assert isinstance(iterated, Lanczos if n > 150 else Lapack)
    assert plan(replace(few, n_components=n // 8 + 1)).solver == Lapack()
    for asked in (None, 0.9):
        assert plan(replace(few, n_components=asked)).solver == Lapack()
    # The negative part of what may not be a kernel is told, and all of it: the whole spectrum is needed.
    assert plan(replace(few, valid=False)).solver == Lapack()


@pytest.mark.filterwarnings("ignore::mercer._core.errors.IndefiniteKernelWarning")
@pytest.mark.parametrize(("kernel", "subset"), [("rbf", True), ("sigmoid", False)])
def test_the_negative_part_is_seen_wherever_a_kernel_may_have_one(kernel, subset, rng):
    model = KernelPCA(2, kernel=kernel).fit(rng.standard_normal((100, 5)))
    assert model.plan_.solver == Lapack(subset=subset)
    assert subset or model.fit_.low_end.complete


def test_a_small_fit_stores_its_matrix_only_where_there_is_room():
    problem = Problem(300, 5, 35, valid=True)
    roomy = plan(problem)
    assert isinstance(roomy.recipe, Whole)
    tight = plan(replace(problem, budget_bytes=roomy.n_bytes - 1))
    assert isinstance(tight.recipe, Tiles)
    assert tight.n_bytes == roomy.n_bytes - 300**2 * 8


def test_what_was_asked_for_is_used():
    solver = BlockKrylov(tol=1e-3)
    assert plan(Problem(100, 5, 2), solver).solver == solver
    assert isinstance(plan(Problem(100, 5, 2), "krylov").solver, BlockKrylov)
    assert isinstance(plan(Problem(9000, 5, 2), "lapack").solver, Lapack)


def test_a_tight_tolerance_iterates_in_the_precision_of_the_data():
    problem = Problem(9000, 5, 20, shift_invariant=True)
    assert plan(problem).recipe.proof is not None
    assert plan(problem, BlockKrylov(tol=1e-11)).recipe.proof is None


def test_single_precision_is_proved_in_double():
    assert plan(Problem(9000, 5, 20, itemsize=4)).recipe.proof is not None


@pytest.mark.parametrize(("n", "double"), [(300, True), (3000, True), (3001, False)])
def test_a_small_matrix_of_single_precision_is_solved_in_double_where_it_fits(n, double):
    problem = Problem(n, 5, None, itemsize=4)
    assert plan(problem).recipe.dtype == ("float64" if double else "float32")
    # Of few rows K is kept too, but only where there is room for it beside LAPACK's own.
    kept = n**2 * 8 if isinstance(plan(problem).recipe, Whole) else 0
    least = plan(problem).n_bytes - kept
    tight = plan(replace(problem, budget_bytes=least - 1)) if double else None
    assert tight is None or tight.recipe.dtype == "float32"


@pytest.mark.parametrize("budget", [13 * 10**7, 2 * 10**8, 4 * 10**8, 10**9])
def test_tiles_are_held_as_far_as_memory_goes(budget):
    problem = Problem(20_000, 50, 20, budget_bytes=budget, shift_invariant=True)
    found = plan(problem)
    assert found.n_bytes <= budget
    assert 0.0 <= found.recipe.share <= 1.0
    tile = 4 * found.recipe.width**2
    if 0.0 < found.recipe.share < 1.0:  # what is left over would not hold one more tile
        assert budget - found.n_bytes < tile
    if (
        found.recipe.share == 0.0
    ):  # nor a thirty-second of them, below which none is worth its memory
        assert budget - found.n_bytes < tile * (found.recipe.store.n_tiles / 32 + 1)


def test_a_short_budget_shortens_the_basis():
    roomy = Problem(20_000, 50, 20, budget_bytes=10**9, shift_invariant=True)
    tight = plan(replace(roomy, budget_bytes=13 * 10**7))
    assert plan(roomy).solver.max_basis is None
    assert tight.solver.max_basis < BlockKrylov().room(20, 20_000)
    assert "restarts" in str(tight)


def test_an_approximation_never_forms_k():
    problem = Problem(10**6, 20, 20, budget_bytes=GB, shift_invariant=True)
    found = plan_approximation(problem, RPCholesky(rank=500))
    assert found.route == "low-rank"
    assert found.n_bytes <= GB
    assert "K never formed" in str(found)


WAYS_OUT = {
    "rank": (RPCholesky(rank=5000), r"lower rank of RPCholesky", RPCholesky(rank=500)),
    "max_rank": (
        RPCholesky(rank="auto", max_rank=5000),
        r"lower max_rank of RPCholesky",
        RPCholesky(rank="auto", max_rank=500),
    ),
    "landmarks": (Nystrom(landmarks=5000), r"lower landmarks of Nystrom", Nystrom(landmarks=500)),
    "n_features": (
        RandomFourier(n_features=9000),
        r"lower n_features of RandomFourier",
        RandomFourier(n_features=500),
    ),
    "refine": (RPCholesky(rank=500, refine=1), r"use refine=0 of RPCholesky", RPCholesky(rank=500)),
    "rank of a refined one": (
        RPCholesky(rank=5000, refine=1),
        r"lower rank of RPCholesky",
        RPCholesky(rank=500),
    ),
}


@pytest.mark.parametrize("case", sorted(WAYS_OUT))
def test_an_approximation_that_does_not_fit_names_what_makes_it_fit(case):
    too_large, says, smaller = WAYS_OUT[case]
    problem = Problem(300_000, 20, 30, budget_bytes=GB // 2, itemsize=4, shift_invariant=True)
    with pytest.raises(MemoryBudgetError, match=says):
        plan_approximation(problem, too_large)
    assert plan_approximation(problem, smaller).n_bytes <= GB // 2


def test_an_exact_fit_that_does_not_fit_names_the_approximation():
    with pytest.raises(MemoryBudgetError, match=r"Raise `memory` to .*approximation=RPCholesky"):
        plan(Problem(10**6, 20, 20, budget_bytes=GB, shift_invariant=True))


def test_planning_is_pure():
    problem = TABLE["large"][0]
    assert plan(problem) == plan(problem)


@pytest.mark.parametrize(
    ("budget", "ways"), [(GB, "use approximation=RPCholesky"), (60 * GB, "components.*RPCholesky")]
)
def test_nothing_that_fits_is_an_error_with_ways_out(budget, ways):
    with pytest.raises(MemoryBudgetError, match=f"Raise `memory` to .*{ways}"):
        plan(Problem(50_000, 5, None, budget_bytes=budget))


@pytest.mark.parametrize(("n", "d", "route"), [(400, 10_304, "dual"), (1000, 64, "primal")])
def test_pca_takes_the_smaller_side(n, d, route):
    assert plan_linear(Problem(n, d, None)).route == route
    assert isinstance(plan_linear(Problem(9000, 5000, 10)).solver, BlockKrylov)


@pytest.mark.parametrize(
    ("memory", "packed", "share"),
    [(200e6, False, 1.0), (90e6, True, 1.0), (75e6, False, 0.40)],
)
def test_tiles_are_held_in_sixteen_bits_where_that_holds_them_all(memory, packed, share):
    """Float32 while it fits; sixteen bits where they all fit in those; else as many as there is room for."""
    problem = Problem(
        5000,
        50,
        20,
        budget_bytes=int(memory),
        n_threads=2,
        shift_invariant=True,
        rows_bytes=2_000_000,
    )
    found = plan(problem)
    assert found.recipe.packed == packed
    assert found.recipe.proof is not None
    assert found.recipe.share == pytest.approx(share, abs=0.02)
    assert ("16 bits" in str(found)) == packed


def test_values_of_an_unbounded_kernel_are_not_packed():
    problem = Problem(5000, 50, 20, itemsize=4, budget_bytes=85_000_000, n_threads=2)
    found = plan(problem)
    assert found.recipe.proof is not None
    assert not found.recipe.packed


@pytest.mark.parametrize(
    ("megabytes", "block", "least"), [(1000, None, None), (300, 16, 100), (270, 8, 60)]
)
def test_a_short_basis_has_narrow_blocks(megabytes, block, least):
    """Two wide blocks hardly converge; the memory of one wide block holds several narrow ones."""
    problem = Problem(
        50_000,
        50,
        20,
        itemsize=4,
        budget_bytes=megabytes * 10**6,
        n_threads=2,
        shift_invariant=True,
        rows_bytes=10**7,
    )
    solver = plan(problem).solver
    assert solver.block == block
    assert (solver.max_basis is None) if least is None else (solver.max_basis >= least)


def test_a_block_that_was_asked_for_stays():
    problem = Problem(
        50_000, 50, 20, itemsize=4, budget_bytes=340_000_000, n_threads=2, shift_invariant=True
    )
    assert plan(problem, BlockKrylov(block=20)).solver.block == 20


@pytest.mark.parametrize("itemsize", [8, 4])
def test_more_memory_takes_no_way_out(itemsize):
    """Tiles that are held leave room for LAPACK, where a share of the variance may need it."""
    n, d = 3500, 500
    problem = Problem(n, d, 0.9, itemsize, shift_invariant=True, rows_bytes=n * d * itemsize)
    chosen = [plan(replace(problem, budget_bytes=mb * 10**6)) for mb in range(600, 1100, 5)]
    fits = [one.lapack_fits for one in chosen]
    assert fits == sorted(fits)
    assert fits[0] is False
    lapack = plan(replace(problem, n_components=None)).n_bytes  # that it takes alone
    assert fits.index(True) == 1 + int((lapack - 600e6) // 5e6)


@pytest.mark.parametrize("n_components", [20, None])
def test_nothing_is_made_in_float32_where_that_can_not_be(n_components):
    """Neither on LAPACK's route: K of float32 rows would overflow, or the engine has no such tiles."""
    found = plan(Problem(5000, 50, n_components, itemsize=4, single=False))
    assert (found.recipe.dtype, found.recipe.proof) == ("float64", None)


@pytest.mark.parametrize("itemsize", [8, 4])
def test_values_beyond_float32_are_held_in_float64(itemsize):
    """Whether float32 holds the kernel's values is known before planning: the plan is what runs."""
    problem = Problem(
        5000, 50, 20, itemsize=itemsize, n_threads=2, shift_invariant=True, single=False
    )
    found = plan(problem)
    assert found.recipe.proof is None
    assert found.recipe.share == 1.0
    assert found.recipe.dtype == "float64"
    assert found.recipe.store.n_bytes >= 5000 * 5001 // 2 * 8
    assert "float32" not in str(found)


@pytest.mark.parametrize(("megabytes", "least"), [(100_000, 16), (1000, 8), (500, 2)])
def test_threads_do_not_take_the_room_of_the_basis(megabytes, least):
    """16 sums of 100 000 x 33 numbers are 420 MB: fewer threads, rather than a basis that restarts."""
    problem = Problem(
        100_000,
        50,
        20,
        itemsize=4,
        budget_bytes=megabytes * 10**6,
        n_threads=16,
        shift_invariant=True,
        rows_bytes=20_000_000,
    )
    found, two = plan(problem), plan(replace(problem, n_threads=2))
    assert found.n_threads >= least
    assert found.n_bytes <= problem.budget_bytes
    longest = two.solver.room(20, problem.n)
    assert found.solver.room(20, problem.n) >= min(
        longest, 20 + 5 * 32
    )  # five whole blocks, or as on two
    assert ("threads: the sums" in str(found)) == (found.n_threads < 14)


# ── a cluster ───────────────────────────────────────────────────────────────
def test_vectors_have_to_fit_where_the_client_is():
    """The budget is that of the workers."""
    problem = Problem(1_000_000, 50, 20, itemsize=4, budget_bytes=10**13, shift_invariant=True)
    problem = replace(problem, workers=100, here_bytes=64 * GB)
    assert "100 workers" in str(plan(problem))
    with pytest.raises(
        MemoryBudgetError, match="in the process of the client, which can take 100 MB"
    ):
        plan(replace(problem, here_bytes=GB // 10))
