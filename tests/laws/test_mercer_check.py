"""check_kernel tells kernels from functions that are none, and its witnesses can be recomputed."""

import inspect
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from scipy import sparse
from sklearn.gaussian_process import kernels as gp

from markets.exact import exact
from mercer._core.errors import InputError, KernelError
from mercer.diagnostics import (
    Verdict,
    Witness,
    check_kernel,
    mercer_check,
    n_components,
    select,
    symptoms,
    widths,
)
from mercer.diagnostics.mercer_check import How
from mercer.diagnostics.rounding import value_error
from mercer.diagnostics.witness import MatrixValues, find_negative
from mercer.kernels import (
    RBF,
    Chi2,
    Cosine,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
)
from mercer.kernels.feature_map import IdentityMap


def euclid(x, y):
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)))


def inner(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def distance(x, y):
    return euclid(x, y)


def sine(x, y):
    return math.sin(inner(x, y))


def matrix_tanh(X, Y):
    return np.tanh(X @ Y.T)


def largest(x, y):
    return max(x[0], y[0])


def smallest(x, y):
    return min(x[0], y[0])


def cone(x, y):
    return max(0.0, 1.0 - euclid(x, y))


def exponential(x, y):
    return math.exp(inner(x, y))


class Liar(Kernel):
    """-x·x', and it says it is a kernel."""

    def tile(self, x, y):
        return -(x @ y.T)

    def tile_diag(self, x):
        return -np.einsum("id,id->i", x, x)

    def why_valid(self):
        return "its author says so"


# name: (what is judged, the same function of two points in plain Python)
INVALID = {
    "sigmoid, negative offset": (
        Sigmoid(gamma=2.0, coef0=-1.0),
        lambda x, y: math.tanh(2.0 * inner(x, y) - 1.0),
    ),
    "sigmoid, positive offset": (
        Sigmoid(gamma=0.3, coef0=1.0),
        lambda x, y: math.tanh(0.3 * inner(x, y) + 1.0),
    ),
    "sigmoid, nearly linear": (
        Sigmoid(gamma=0.001, coef0=0.0),
        lambda x, y: math.tanh(0.001 * inner(x, y)),
    ),
    "minus RBF": (-RBF(gamma=0.7), lambda x, y: -math.exp(-0.7 * euclid(x, y) ** 2)),
    "minus RBF, width from the data": (-RBF(), None),
    "sine of the dot product": (sine, sine),
    "distance": (distance, distance),
    "minus distance": (lambda x, y: -euclid(x, y), lambda x, y: -euclid(x, y)),
    "polynomial, negative offset": (
        Polynomial(2, coef0=-1.0),
        lambda x, y: (inner(x, y) - 1.0) ** 2,
    ),
    "polynomial, broken degree": (Polynomial(2.5), lambda x, y: (inner(x, y) + 1.0) ** 2.5),
    "linear minus RBF": (
        Linear() - 2 * RBF(gamma=0.5),
        lambda x, y: inner(x, y) - 2.0 * math.exp(-0.5 * euclid(x, y) ** 2),
    ),
    "difference of Gaussians": (
        RBF(gamma=1.0) - RBF(gamma=0.9),
        lambda x, y: math.exp(-(euclid(x, y) ** 2)) - math.exp(-0.9 * euclid(x, y) ** 2),
    ),
    "tanh of matrices": (matrix_tanh, lambda x, y: math.tanh(inner(x, y))),
    "larger of two numbers": (largest, largest),
    # exp(-r^p) is a kernel for 0 < p ≤ 2 only (Schoenberg 1938)
    "exp(-r^2.1)": (
        lambda x, y: math.exp(-(euclid(x, y) ** 2.1)),
        lambda x, y: math.exp(-(euclid(x, y) ** 2.1)),
    ),
    # (1 - r)₊ is a kernel on the line, but not in the plane (Askey 1973)
    "cone": (cone, cone),
    "lying subclass": (Liar(), lambda x, y: -inner(x, y)),
    # sin²(π‖x - x'‖) under the exponential is periodic in ‖x - x'‖ only, which is fine in one dimension
    "periodic in the plane": (
        gp.ExpSineSquared(),
        lambda x, y: math.exp(-2.0 * math.sin(math.pi * euclid(x, y)) ** 2),
    ),
    "scikit-learn's sigmoid": (
        gp.PairwiseKernel(metric="sigmoid", gamma=1.0),
        lambda x, y: math.tanh(inner(x, y) + 1.0),
    ),
}

BY_CONSTRUCTION = {
    "rbf by name": "rbf",
    "RBF": RBF(gamma=2.0),
    "Laplacian": Laplacian(),
    "Matern 0.3": Matern(0.3, 1.0),
    "Matern 0.5": Matern(0.5),
    "Matern 1.5": Matern(1.5),
    "Matern 2.5": Matern(2.5, 1.0),
    "Matern 3.7": Matern(3.7, 1.0),
    "Matern inf": Matern(np.inf),
    "RationalQuadratic": RationalQuadratic(0.4),
    "Chi2": Chi2(),
    "sum": RBF() + Linear(),
    "product": RBF() * Polynomial(2),
    "power": (RBF() + 1.0) ** 3,
    "multiple": 3.5 * Laplacian(),
    "columns": RBF().on([1]),
    "far column": RBF().on([6]),
    "normalised": (RBF() + Linear()).normalised(),
    "GP": gp.ConstantKernel(2.0) * gp.Matern(nu=0.8) + gp.WhiteKernel(0.1),
    "GP dot product": gp.DotProduct() ** 2,
}

BY_MAP = {
    "Linear": Linear(),
    **{f"Polynomial {p}": Polynomial(p, gamma=0.5) for p in (1, 2, 3, 4)},
    "homogeneous": Polynomial(3, coef0=0.0),
    "gamma from the data": Polynomial(2, gamma="scale"),
    "Cosine": Cosine(),
    "sum of maps": Linear() + 0.5 * Polynomial(2),
    "product of maps": Linear() * Cosine(),
    "power of a map": (Linear() + 1.0) ** 2,
    "one column": Linear().on([2]),
    "unit polynomial": Polynomial(3).normalised(),
}


def recomputed(function, points):
    return np.array([[function(x, y) for y in points] for x in points])


def assert_negative(witness, K):
    """The witness holds for K, which it had no part in."""
    assert isinstance(witness, Witness)
    assert witness.kind == "negative"
    v = witness.vector
    np.testing.assert_allclose(np.linalg.norm(v), 1.0, rtol=1e-12)
    scale = np.linalg.norm(K, 2)
    assert v @ K @ v < -1e-10 * scale
    np.testing.assert_allclose(v @ K @ v, witness.value, rtol=1e-6, atol=1e-13 * scale)
    np.testing.assert_allclose(witness.matrix, K, rtol=1e-9, atol=1e-13 * scale)


@pytest.fixture
def X():
    rows = np.abs(np.random.default_rng(7).normal(size=(40, 7)))
    rows.flags.writeable = False
    return rows


# ── functions that are no kernels ───────────────────────────────────────────
@pytest.mark.parametrize("name", INVALID)
def test_a_witness_is_found_without_data(name):
    kernel, function = INVALID[name]
    verdict = check_kernel(kernel)
    assert verdict.valid is False
    assert verdict.how is How.WITNESS
    points = verdict.witness.points
    assert_negative(verdict.witness, verdict.kernel(points))
    if function is not None:
        assert_negative(verdict.witness, recomputed(function, points))
    assert len(points) <= (25 if name == "cone" else 6)


@pytest.mark.parametrize(("name", "most"), [("distance", 2), ("sine of the dot product", 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_witness_on_data_is_made_of_few_of_its_rows(name, most, dtype, X):
    kernel, function = INVALID[name]
    verdict = check_kernel(kernel, X.astype(dtype))
    points = verdict.witness.points
    assert len(points) <= most
    assert all(any(np.array_equal(p, x) for x in X.astype(dtype)) for p in points)
    assert_negative(verdict.witness, recomputed(function, points))


def test_a_witness_recomputes_with_the_widths_of_the_whole_data(X):
    verdict = check_kernel(Linear() - 2 * RBF(), 0.5 * X)
    w = verdict.witness
    np.testing.assert_allclose(w.vector @ verdict.kernel(w.points) @ w.vector, w.value, rtol=1e-12)
    gamma = verdict.kernel.get_params()["right__kernel__kernel__gamma"]
    reference = lambda x, y: inner(x, y) - 2.0 * math.exp(-gamma * euclid(x, y) ** 2)  # noqa: E731
    assert_negative(w, recomputed(reference, w.points))


def test_evidence_beats_a_claim_on_data(X):
    assert check_kernel(Liar(), X).valid is False


def test_a_periodic_gp_kernel_is_valid_on_a_line_and_not_in_the_plane(X):
    assert check_kernel(gp.ExpSineSquared(), X[:, :1]).valid is True
    verdict = check_kernel(gp.ExpSineSquared(), X[:, :2])
    assert_negative(
        verdict.witness, recomputed(INVALID["periodic in the plane"][1], verdict.witness.points)
    )


def test_a_cone_is_valid_on_a_line():
    verdict = check_kernel(cone, np.linspace(0.0, 5.0, 60)[:, None])
    assert verdict.valid is True
    assert verdict.how is How.DATA


def test_climbing_finds_what_no_ready_made_data_set_holds(monkeypatch):
    def pit(x, y):  # independent values whose variance is negative within 0.001 of 3.37
        return ((x[0] - 3.37) ** 2 - 1e-6) if np.array_equal(x, y) else 0.0

    verdict = check_kernel(pit)
    assert verdict.valid is False
    assert abs(verdict.witness.points[0, 0] - 3.37) < 1e-3
    assert_negative(verdict.witness, recomputed(pit, verdict.witness.points))
    monkeypatch.setattr(mercer_check, "CLIMB_STEPS", 0)
    assert check_kernel(pit).valid is None


# ── asymmetry ───────────────────────────────────────────────────────────────
def rarely_asymmetric(x, y):
    return inner(x, y) * (1.01 if x[0] > 5.0 and y[0] < 0.0 else 1.0)


@pytest.mark.parametrize("function", [lambda x, y: x[0] - y[0], rarely_asymmetric])
@pytest.mark.parametrize("rows", [None, [[-1.0], [0.5], [7.0], [2.0]]])
def test_an_asymmetric_pair_is_shown(function, rows):
    verdict = check_kernel(function, rows)
    assert verdict.valid is False
    w = verdict.witness
    assert w.kind == "asymmetric"
    assert w.vector is None
    x, y = w.points
    assert function(x, y) != function(y, x)
    assert w.matrix[0, 1] == function(x, y)
    assert w.matrix[1, 0] == function(y, x)
    assert w.value == function(x, y) - function(y, x)
    assert "not symmetric" in str(verdict)


def test_asymmetry_within_rounding_is_symmetry(X):
    def rounds(x, y):  # sums in an order that depends on the order of the arguments
        return float(np.exp(-(x @ x) + 2.0 * (x @ y) - y @ y) * (1.0 + 1e-15 * (x[0] > y[0])))

    K = recomputed(rounds, X)
    assert np.any(K != K.T)
    assert check_kernel(rounds, X).valid is True


# ── kernels ─────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", BY_CONSTRUCTION)
def test_closure_rules_prove(name, X):
    for verdict in (check_kernel(BY_CONSTRUCTION[name]), check_kernel(BY_CONSTRUCTION[name], X)):
        assert verdict.valid is True
        assert verdict.how is How.CONSTRUCTION
        assert verdict.witness is None


@pytest.mark.parametrize("name", BY_MAP)
def test_an_explicit_map_is_exhibited(name, X):
    for verdict in (check_kernel(BY_MAP[name]), check_kernel(BY_MAP[name], X)):
        assert verdict.valid is True
        assert verdict.how is How.MAP
    columns = BY_MAP[name].map_dimension(7)
    assert f"φ of {columns} column{'s' if columns > 1 else ''} for 7 features" in verdict.reason


def test_a_map_that_gives_other_values_is_not_exhibited(X):
    class WrongMap(Polynomial):
        def map_dimension(self, d):
            return d

        def feature_map(self, d):
            return IdentityMap(d)

    assert check_kernel(WrongMap(2), X).how is How.CONSTRUCTION
    assert check_kernel(Polynomial(2), X).how is How.MAP


@pytest.mark.parametrize("function", [smallest, exponential, lambda X, Y: np.exp(X @ Y.T)])
def test_a_good_function_is_valid_on_data_and_unproved_elsewhere(function, X):
    verdict = check_kernel(function, X[:, :1])
    assert verdict.valid is True
    assert verdict.how is How.DATA
    lowest = np.linalg.eigvalsh(verdict.kernel(X[:, :1]))[0]
    np.testing.assert_allclose(verdict.smallest_eigenvalue, lowest, atol=1e-12)


@pytest.mark.parametrize(
    "function",
    [exponential, lambda X, Y: np.exp(-(abs(X[:, None, 0] - Y[None, :, 0]) ** 1.9))],
)
def test_a_failed_search_is_no_proof(function):
    verdict = check_kernel(function)
    assert verdict.valid is None
    assert verdict.how is How.SEARCH
    assert verdict.n_data_sets > 300
    assert "not a proof" in verdict.reason


@pytest.mark.parametrize("kernel", [RBF(gamma=1.0), Matern(2.5), Polynomial(3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("offset", "scale"), [(1e3, 1.0), (1e6, 1.0), (0.0, 1e5)])
def test_rounding_is_not_taken_for_evidence(kernel, dtype, offset, scale):
    rng = np.random.default_rng(3)
    rows = offset + scale * rng.normal(size=(12, 4))
    rows = np.concatenate([rows, rows + 1e-5 * scale * rng.normal(size=rows.shape), -rows])
    assert check_kernel(kernel, rows.astype(dtype)).valid is True


def test_the_float32_matrix_of_float32_data_would_have_failed():
    # So the law above has something to find: the same points, evaluated in float32.
    rows = np.random.default_rng(3).normal(size=(60, 2)).astype(np.float32)
    K = RBF(gamma=0.1)(rows)
    assert K.dtype == np.float32
    eigenvalues = np.linalg.eigvalsh(K.astype(np.float64))
    assert eigenvalues[0] < -1e-10 * eigenvalues[-1]
    assert check_kernel(RBF(gamma=0.1), rows).valid is True
    assert check_kernel(K).valid is True  # a float32 matrix is judged by float32's rounding


# ── matrices ────────────────────────────────────────────────────────────────
SHAPES = st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1))


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.sampled_from([np.float32, np.float64]), st.floats(1e-6, 1e6))
def test_a_gram_matrix_is_accepted(shape, dtype, scale):
    n, rank, seed = shape
    G = (scale * np.random.default_rng(seed).normal(size=(n, rank))).astype(dtype)
    K = G @ G.T
    assert check_kernel(K).valid is True
    assert check_kernel("precomputed", K).valid is True


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.floats(1e-6, 1.0))
def test_a_negative_direction_is_found_and_recomputes(shape, depth):
    n, rank, seed = shape
    rng = np.random.default_rng(seed)
    G, v = rng.normal(size=(n, rank)), rng.normal(size=n)
    v /= np.linalg.norm(v)
    K = G @ G.T
    K -= (v @ K @ v + depth * np.linalg.norm(K, 2)) * np.outer(v, v)  # vᵀKv = -depth ‖GGᵀ‖
    K = 0.5 * (K + K.T)
    verdict = check_kernel(K)
    assert verdict.valid is False
    rows = verdict.witness.points
    assert_negative(verdict.witness, K[np.ix_(rows, rows)])


def test_an_asymmetric_matrix_is_shown_by_its_rows():
    K = np.eye(5)
    K[1, 3] = 0.25
    verdict = check_kernel(K)
    assert verdict.witness.kind == "asymmetric"
    assert verdict.witness.points.tolist() == [1, 3]
    assert verdict.witness.matrix.tolist() == [[1.0, 0.25], [0.0, 1.0]]
    assert "not a kernel matrix" in verdict.reason


def test_a_matrix_symmetric_within_rounding_is_symmetric():
    K = np.full((3, 3), 0.3) + np.eye(3)
    K[0, 1] *= 1.0 + 1e-14
    assert check_kernel(K).valid is True


# ── manners ─────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("kernel", "constant", "most"),
    [(RBF(), "MAX_ROWS", 30), (smallest, "MAX_ROWS_PYTHON", 20), (None, "MAX_ROWS", 30)],
)
def test_a_sample_of_the_rows_is_owned_up_to(kernel, constant, most, X, monkeypatch):
    monkeypatch.setattr(mercer_check, constant, most)
    verdict = check_kernel(X @ X.T) if kernel is None else check_kernel(kernel, X)
    assert verdict.valid is True
    assert verdict.n_points == most
    assert f"{most} {'rows' if kernel is None else 'points'} drawn from the 40" in verdict.reason


def test_all_rows_are_used_where_that_is_affordable(X):
    verdict = check_kernel(RBF(), X)
    assert verdict.n_points == 40
    assert "all 40 points" in verdict.reason


def test_the_verdict_prints_as_sentences():
    verdict = check_kernel(distance, [[0.0], [1.0], [3.0]])
    assert str(verdict) == (
        "Custom(distance) is not a kernel: vᵀKv = -3 < 0 on 2 points.\n"
        "Witness: points [[0.] [3.]], v = [ 0.7071 -0.7071], vᵀKv = -3."
    )
    assert len(repr(verdict)) < 120
    assert isinstance(verdict, Verdict)


@pytest.mark.parametrize("kernel", [matrix_tanh, sine, Polynomial(2.5, coef0=0.0)])
def test_a_seed_fixes_the_verdict(kernel):
    first, second = check_kernel(kernel, random_state=5), check_kernel(kernel, random_state=5)
    np.testing.assert_array_equal(first.witness.points, second.witness.points)
    assert str(first) == str(second)


def test_what_seeds_other_questions_seeds_this_one():
    """None, the default everywhere, is a fixed seed; what one of them refuses, all refuse."""
    for question in (check_kernel, n_components, select, symptoms, widths):
        assert inspect.signature(question).parameters["random_state"].default is None
    at_zero, rows = str(check_kernel(distance, random_state=0)), np.eye(3)
    for seed in (None, np.int64(0), np.random.default_rng(0)):
        assert str(check_kernel(distance, random_state=seed)) == at_zero
    legacy = [check_kernel(distance, random_state=np.random.RandomState(3)) for _ in range(2)]
    assert str(legacy[0]) == str(legacy[1])
    for seed in (np.random.SeedSequence(0), [0, 1]):
        with pytest.raises(InputError) as refused:
            symptoms("rbf", rows, random_state=seed)
        with pytest.raises(InputError, match=re.escape(str(refused.value))):
            check_kernel("rbf", rows, random_state=seed)


def test_sparse_rows_give_the_verdict_of_dense_ones(X):
    rows = X * (X > 0.7)
    verdict = check_kernel(Sigmoid(gamma=0.5), sparse.csr_array(rows))
    assert str(verdict) == str(check_kernel(Sigmoid(gamma=0.5), rows))
    assert_negative(
        verdict.witness,
        recomputed(lambda x, y: math.tanh(0.5 * inner(x, y) + 1.0), verdict.witness.points),
    )


@pytest.mark.parametrize("column", [2, 20])
def test_the_search_gives_a_function_the_columns_it_asks_for(column):
    assert check_kernel(lambda x, y: x[column] * y[column]).valid is None
    assert check_kernel(lambda x, y: abs(x[column] - y[column])).valid is False
    assert check_kernel(Linear().on([column])).valid is True


@pytest.mark.parametrize("kernel", [lambda x, y: x[500] * y[500], Linear().on([500])])
def test_the_search_asks_for_rows_when_it_has_none_that_fit(kernel):
    with pytest.raises(InputError, match=r"500.*Pass rows that it is defined on as X"):
        check_kernel(kernel)
    assert check_kernel(kernel, np.eye(501)[-3:]).valid is True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((2, 3)),), r"must be square; got shape \(2, 3\)"),
        ((np.eye(2), [[1.0]]), "Leave X out"),
        (("precomputed",), "got no X"),
        (("rbf", [[1.0, 2.0], [3.0, np.nan]]), "got nan in row 1, column 1"),
        (("rbf", sparse.csr_array(np.array([[0.0, np.inf]]))), "got inf in row 0, column 1"),
        (("rbf", np.zeros((0, 2))), r"shape \(0, 2\)"),
        (("rfb",), "Did you mean 'rbf'"),
        ((lambda *_: math.nan,), "returned nan"),
        ((lambda *_: math.nan, [[1.0]]), "returned nan"),
        ((lambda *_: [1.0, 2.0], [[1.0]]), r"shape \(2,\)"),
        ((Polynomial(2.5), [[1.0], [-3.0]]), "integer degree"),
        ((Chi2(), [[-1.0]]), "histograms"),
        ((RBF(gamma=-1.0),), "gamma must be a number > 0"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        check_kernel(*arguments)


def test_kernel_errors_pass_through_as_they_are():
    with pytest.raises(KernelError):
        check_kernel(lambda *_: math.inf)


@pytest.mark.parametrize(("sign", "valid"), [(1.0, True), (-1.0, False)])
def test_one_point_is_a_data_set(sign, valid):
    assert check_kernel(sign * Linear(), [[2.0, 1.0]]).valid is valid


# ── one witness on every machine ────────────────────────────────────────────
RING = np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0)
STEPS = np.abs(np.linspace(-2.0, 2.0, 9))  # but for zero, each point twice
TIED = {
    "a pair of many": (-np.abs(np.subtract.outer(np.arange(4), np.arange(4)) % 2), [0, 1]),
    "either sign of v": (np.array([[1.0, 2.0], [2.0, 1.0]]), [0, 1]),
    "an eigenvalue twice": (np.eye(5) + 0.9 * RING, [0, 1, 2]),
    "all of a ring": (np.eye(5) + 0.65 * RING, [0, 1, 2, 3]),
    "points twice": ((1.0 + np.outer(STEPS, STEPS)) ** 2.5, [0, 1, 2, 3, 4]),
    "one point of many": (-np.eye(3), [0]),
    "a skew pair of many": (np.array([[2.0, 1.0, 0], [0, 2, 1.0], [1.0, 0, 2]]), [0, 1]),
}


@pytest.mark.parametrize("name", TIED)
def test_rounding_does_not_choose_among_equal_witnesses(name, rng):
    K, rows = TIED[name]
    first = check_kernel(K)
    np.testing.assert_array_equal(first.witness.points, rows)
    for _ in range(20):  # as another processor would round it
        noise = 1.0 + 1e-15 * rng.standard_normal(K.shape)
        assert str(check_kernel(K * (noise + noise.T) / 2.0)) == str(first)


def test_a_second_evaluation_without_a_negative_direction_is_no_witness(rng):
    class Fickle(MatrixValues):
        """A matrix that is one thing when it is looked at whole, and another at a second look."""

        def matrix(self, rows):
            return np.eye(len(rows)) + (1.0 if len(rows) < len(self.K) else -1.0) * 1e-3

    values = Fickle(np.eye(4))
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert find_negative(values, np.arange(2), K, eps=1e-16, rng=rng) is None


# ── rounding, amplified ─────────────────────────────────────────────────────
AMPLIFIED = {
    "power of rbf": RBF(1.0) ** 10**7,
    "power of median rbf": RBF() ** 10**7,
    "high power of rbf": RBF(1.0) ** 10**12,
    "power of laplacian": Laplacian(1.0) ** 10**9,
    "power of matern-1/2": Matern(0.5, 1.0) ** 10**7,
    "power of matern-3/2": Matern(1.5, 1.0) ** 10**8,
    "power of rational quadratic": RationalQuadratic(1.0, 1.0) ** 10**8,
    "power of cosine": Cosine() ** 10**7,
    "power of a normalised polynomial": Polynomial(2, 0.1).normalised() ** 10**8,
    "power of a product": (RBF(1.0) * Cosine()) ** 10**8,
    "power of a sum": (0.5 * RBF(1.0) + 0.5) ** 10**8,
    "power of a power": (RBF(1.0) ** 10**5) ** 10**3,
    "power of columns": Cosine().on([0]) ** 10**8,
    "degree": Polynomial(10**9, 1e-9, 1.0),
    "alpha": RationalQuadratic(1e12, 1e-3),
    "rough": Matern(1e-3, 1.0),
    "rougher": Matern(1e-6, 1.0),
}


@pytest.mark.parametrize("name", AMPLIFIED)
def test_no_witness_is_made_of_rounding(name, X):
    """All are kernels by construction: what seems negative is rounding, times the exponent."""
    for rows in (X[:15], 1e-3 * X[:15], 10.0 + 1e-3 * X[:15]):
        assert check_kernel(AMPLIFIED[name], rows).valid


@pytest.mark.parametrize("name", ["power of median rbf", "power of cosine", "rough"])
def test_no_search_ends_with_rounding(name):
    assert check_kernel(AMPLIFIED[name]).valid


@pytest.mark.parametrize("name", AMPLIFIED)
def test_the_bound_on_rounding_holds(name):
    """Against the same formula in 60 digits, on points so near that powers of them are not zero."""
    kernel = AMPLIFIED[name].resolve(np.eye(3), rng=np.random.default_rng(0))
    x = 1.0 + 1e-4 * np.random.default_rng(1).normal(size=(6, 3))
    bound = value_error(kernel, x) + np.finfo(float).tiny  # and what underflows
    found = kernel(x)
    rows = [[mp.mpf(float(v)) for v in row] for row in x]
    with mp.workdps(60):
        for i, j in np.ndindex(found.shape):
            assert abs(mp.mpf(float(found[i, j])) - exact(kernel, rows[i], rows[j])) <= bound[i, j]


@pytest.mark.parametrize("p", [3, 10**3, 10**5])
def test_a_power_of_no_kernel_still_has_a_witness(p):
    """k(x, x) = -1 to an odd power is -1, which no rounding explains."""
    verdict = check_kernel((-1.0 * RBF(1.0)) ** (p // 2 * 2 + 1))
    assert verdict.valid is False
    assert verdict.witness.value < -0.5


@pytest.mark.parametrize("seed", [-1, 1.5, "a"])
def test_a_seed_that_is_none_is_refused_in_words(seed):
    with pytest.raises(
        InputError, match=r"random_state must be an integer >= 0 or None; got .* too\."
    ):
        check_kernel("rbf", np.eye(3), random_state=seed)
