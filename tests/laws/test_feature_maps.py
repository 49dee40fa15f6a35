"""Laws of explicit maps: φ(x)·φ(x') is the kernel, and each column is what its name says."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import re
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.metrics.pairwise import cosine_similarity, polynomial_kernel
from sklearn.preprocessing import PolynomialFeatures

from mercer import KernelPCA
from mercer._core.errors import InputError, NoFiniteMapError
from mercer.kernels import (
    RBF,
    Constant,
    Cosine,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Sigmoid,
    map_base,
)
from mercer.kernels.feature_map import (
    ColumnsMap,
    IdentityMap,
    PolynomialMap,
    ProductMap,
    SumMap,
    UnitMap,
    n_monomials,
)
from mercer.model.rounding import features_moved, features_unit

CASES = [  # d, p, gamma, coef0
    *itertools.product([1, 2, 5], [1, 2, 3, 4], [1.0], [0.0, 1.0]),
    *itertools.product([1, 3], [0, 1, 2, 7], [0.25, 3.0], [0.0, 0.5, 10.0]),
    (12, 3, 1 / 12, 1.0),
    (2, 15, 0.5, 1.0),
    (1, 200, 0.5, 0.5),
]

# Each kernel beside the same in NumPy and scikit-learn, on three features.
POLY2 = {"degree": 2, "gamma": 1.0, "coef0": 1.0}
ALGEBRA = {
    "linear": (Linear(), lambda x: x @ x.T),
    "cosine": (Cosine(), cosine_similarity),
    "constant": (Constant(2.5), lambda x: np.full((len(x), len(x)), 2.5)),
    "zero": (0.0 * Linear(), lambda x: 0.0 * x @ x.T),
    "shifted": (Linear() + 3.0, lambda x: x @ x.T + 3.0),
    "sum": (Polynomial(2) + Linear(), lambda x: polynomial_kernel(x, **POLY2) + x @ x.T),
    "product": (Polynomial(2) * Linear(), lambda x: polynomial_kernel(x, **POLY2) * (x @ x.T)),
    "scaled": (0.3 * Polynomial(2), lambda x: 0.3 * polynomial_kernel(x, **POLY2)),
    "power": (Linear() ** 3, lambda x: (x @ x.T) ** 3),
    "power of a sum": ((Cosine() + 0.5) ** 2, lambda x: (cosine_similarity(x) + 0.5) ** 2),
    "columns": (Polynomial(2).on([2, 0]), lambda x: polynomial_kernel(x[:, [2, 0]], **POLY2)),
    "last column": (Linear().on([-1]), lambda x: np.outer(x[:, 2], x[:, 2])),
    "columns twice": (
        (Polynomial(2).on([0, 1]) * Linear()).on([1, 2, 0]),
        lambda x: polynomial_kernel(x[:, [1, 2]], **POLY2) * (x @ x.T),
    ),
    "normalised": (
        Polynomial(2).normalised(),
        lambda x: (
            polynomial_kernel(x, **POLY2) / np.outer(*[1.0 + np.einsum("ij,ij->i", x, x)] * 2)
        ),
    ),
    "1/d": (Polynomial(3, gamma="1/d"), lambda x: polynomial_kernel(x, degree=3)),
}


def points(n: int, d: int, *, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(n, d))
    x.flags.writeable = False
    return x


def assert_dot_products(phi, x, y, *, p, gamma, coef0):
    """φ(x)·φ(y) against (γ x·y + θ)^p, relative to what is added up: the same of |x| and |y|."""
    scale = (gamma * abs(x) @ abs(y).T + coef0) ** p
    error = abs(phi(x) @ phi(y).T - (gamma * x @ y.T + coef0) ** p)
    assert (error <= 8 * (p + 2) * np.finfo(phi(x).dtype).eps * scale).all()


# ── polynomial maps ─────────────────────────────────────────────────────────
@pytest.mark.parametrize(("d", "p", "gamma", "coef0"), CASES)
def test_dot_products_are_the_kernel(d, p, gamma, coef0):
    phi = PolynomialMap(d, p, gamma=gamma, coef0=coef0)
    assert_dot_products(phi, points(9, d), points(5, d, seed=1), p=p, gamma=gamma, coef0=coef0)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.data())
def test_dot_products_are_the_kernel_for_any_points(data):
    d, p = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 6))
    gamma, coef0 = data.draw(st.floats(1e-3, 1e3)), data.draw(st.just(0.0) | st.floats(1e-3, 1e3))
    number = st.floats(-100, 100).filter(lambda v: v == 0 or abs(v) > 1e-3)
    x, y = (data.draw(arrays(np.float64, (3, d), elements=number)) for _ in range(2))
    phi = PolynomialMap(d, p, gamma=gamma, coef0=coef0)
    assert_dot_products(phi, x, y, p=p, gamma=gamma, coef0=coef0)


def expansion(d: int, p: int, gamma: Fraction, coef0: Fraction) -> dict[tuple[int, ...], Fraction]:
    """(γ Σ t_i + θ)^p multiplied out one factor at a time, t_i standing for x_i x'_i."""
    total = {(0,) * d: Fraction(1)}
    for _ in range(p):
        grown: dict[tuple[int, ...], Fraction] = {}
        for a, c in total.items():
            grown[a] = grown.get(a, 0) + c * coef0
            for i in range(d):
                up = (*a[:i], a[i] + 1, *a[i + 1 :])
                grown[up] = grown.get(up, 0) + c * gamma
        total = grown
    return {a: c for a, c in total.items() if c}


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("p", [0, 1, 2, 3, 4, 6])
@pytest.mark.parametrize(("gamma", "coef0"), [(1.0, 1.0), (1.0, 0.0), (0.375, 2.5), (4.0, 0.0)])
def test_coefficients_are_those_of_the_expanded_power(d, p, gamma, coef0):
    phi = PolynomialMap(d, p, gamma=gamma, coef0=coef0)
    expected = expansion(d, p, Fraction(gamma), Fraction(coef0))
    rows = [tuple(a) for a in phi.exponents.tolist()]
    assert len(rows) == len(set(rows))
    assert set(rows) == set(expected)
    roots = [math.sqrt(expected[a]) for a in rows]
    np.testing.assert_allclose(phi.coefficients, roots, rtol=1e-14)


def test_a_high_degree_keeps_its_digits():
    phi = PolynomialMap(2, 40, gamma=0.5, coef0=0.25)
    x = points(1, 2)
    with mpmath.workdps(50):
        squares = [
            mpmath.factorial(40)
            / (mpmath.factorial(a) * mpmath.factorial(b) * mpmath.factorial(40 - a - b))
            * mpmath.mpf(0.5) ** (a + b)
            * mpmath.mpf(0.25) ** (40 - a - b)
            for a, b in phi.exponents.tolist()
        ]
        exact = [
            float(mpmath.sqrt(c) * mpmath.mpf(x[0, 0]) ** a * mpmath.mpf(x[0, 1]) ** b)
            for c, (a, b) in zip(squares, phi.exponents.tolist(), strict=True)
        ]
    np.testing.assert_allclose(phi(x)[0], exact, rtol=1e-13)


@pytest.mark.parametrize(("d", "p"), [(1, 3), (2, 2), (3, 4), (6, 3)])
def test_the_order_is_that_of_scikit_learn(d, p):
    x = points(7, d)
    theirs = PolynomialFeatures(p).fit(x)
    phi = PolynomialMap(d, p, gamma=0.7, coef0=2.0)
    np.testing.assert_array_equal(phi.exponents, theirs.powers_)
    np.testing.assert_allclose(phi(x), phi.coefficients * theirs.transform(x), rtol=1e-13)


def test_large_features_overflow_only_where_the_kernel_does():
    phi = PolynomialMap(1, 4, gamma=1e-200, coef0=1.0)
    x = np.array([[1e100]])
    assert (phi(x) @ phi(x).T).item() == pytest.approx(16.0)  # (1 + 1)⁴


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("p", [0, 1, 2, 3, 4])
def test_dimension_counts_the_monomials(d, p):
    degrees = [sum(a) for a in itertools.product(range(p + 1), repeat=d)]
    counts = {1.0: sum(q <= p for q in degrees), 0.0: degrees.count(p)}
    for coef0, count in counts.items():
        phi = PolynomialMap(d, p, coef0=coef0)
        assert n_monomials(d, p, homogeneous=coef0 == 0) == count
        assert phi.dimension == len(phi.names) == len(phi.latex) == count
        assert phi(points(2, d)).shape == (2, count)


def test_dimension_needs_no_enumeration():
    assert n_monomials(10_000, 10) == math.comb(10_010, 10)
    assert Polynomial(10).map_dimension(10_000) == math.comb(10_010, 10)
    assert Polynomial(10, coef0=0.0).map_dimension(10_000) == math.comb(10_009, 10)


# ── what a map is for: the circle ───────────────────────────────────────────
def test_a_circle_lies_in_a_linear_subspace():
    a, b, r = 1.5, -0.5, 2.0
    angle = np.linspace(0, 2 * np.pi, 50)
    circle = np.column_stack([a + r * np.cos(angle), b + r * np.sin(angle)])
    phi = Polynomial(2).feature_map(2)
    # u of the plain monomials, each entry divided by the coefficient that our column carries
    plain = {"1": a * a + b * b - r * r, "f1": -2 * a, "f2": -2 * b, "f1²": 1, "f1 f2": 0, "f2²": 1}
    names = [name.removeprefix("√2 ") for name in phi.names]
    u = np.array([plain[name] for name in names]) / phi.coefficients
    np.testing.assert_allclose(phi(circle) @ u, 0.0, atol=1e-14)
    assert abs(phi(circle + 0.1) @ u).max() > 0.1  # and a circle elsewhere does not


# ── names ───────────────────────────────────────────────────────────────────
def test_the_six_names_of_two_features():
    phi = Polynomial(2).feature_map(2)
    assert phi.names == ["1", "√2 f1", "√2 f2", "f1²", "√2 f1 f2", "f2²"]
    assert phi.latex == [
        "1", r"\sqrt{2}\,f_1", r"\sqrt{2}\,f_2", "f_1^2", r"\sqrt{2}\,f_1 f_2", "f_2^2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("phi", "text", "latex"),
    [
        (PolynomialMap(2, 3), "√6 f1 f2", r"\sqrt{6}\,f_1 f_2"),
        (PolynomialMap(2, 4), "√12 f1 f2", r"\sqrt{12}\,f_1 f_2"),  # not 2√3
        (PolynomialMap(2, 4), "2 f1 f2³", r"2\,f_1 f_2^3"),  # not √4
        (PolynomialMap(1, 12, coef0=0.0).after(ColumnsMap(12, [10])), "f11¹²", "f_{11}^{12}"),
        (PolynomialMap(1, 2, gamma=0.5), "f1", r"f_1"),
        (PolynomialMap(1, 2, gamma=0.1), "0.4472 f1", r"0.4472\,f_1"),
        (PolynomialMap(1, 2, coef0=1e-10), "1.414e-05 f1", r"1.414 \cdot 10^{-5}\,f_1"),
        (PolynomialMap(3, 0).scaled(2.25), "1.5", "1.5"),
        (PolynomialMap(3, 0).scaled(9.0), "3", "3"),
        (UnitMap(IdentityMap(1)), "f1 ‖f1‖⁻¹", r"f_1 \lVert f_1 \rVert^{-1}"),
    ],
)
def test_how_coefficients_are_written(phi, text, latex):
    assert text in phi.names
    assert phi.latex[phi.names.index(text)] == latex


def value_of(name: str, x: np.ndarray) -> np.ndarray:
    """What a name says, worked out from its text alone."""
    value = np.ones(len(x))
    for word in name.split():
        if part := re.fullmatch(r"f(\d+)([⁰¹²³⁴⁵⁶⁷⁸⁹]*)", word):
            power = "".join(str("⁰¹²³⁴⁵⁶⁷⁸⁹".index(c)) for c in part[2]) or "1"
            value = value * x[:, int(part[1]) - 1] ** int(power)
        else:
            value = value * (math.sqrt(int(word[1:])) if word[0] == "√" else float(word))
    return value


NAMED = {
    "poly": (PolynomialMap(3, 4), 1e-12),
    "homogeneous": (PolynomialMap(3, 3, coef0=0.0), 1e-12),
    "other gamma": (PolynomialMap(2, 3, gamma=0.3, coef0=1.7), 1e-3),
    "sum": (SumMap(PolynomialMap(2, 2), IdentityMap(2)), 1e-12),
    "product": (ProductMap(PolynomialMap(3, 2), PolynomialMap(3, 3)), 1e-12),
    "scaled": (PolynomialMap(2, 2).scaled(3.0), 1e-12),
    "columns": (PolynomialMap(2, 2).after(ColumnsMap(12, [11, 3])), 1e-12),
    "power of a sum": (((Linear() + 2.0 * Linear() ** 2) ** 2).feature_map(2), 1e-12),
}


@pytest.mark.parametrize("case", NAMED)
def test_each_column_is_what_its_name_says(case):
    phi, rtol = NAMED[case]
    x = points(6, phi.n_features)
    said = np.column_stack([value_of(name, x) for name in phi.names])
    np.testing.assert_allclose(phi(x), said, rtol=rtol)


def test_a_map_prints_as_a_formula_and_as_a_value():
    phi = PolynomialMap(2, 1, gamma=2.0)
    assert repr(phi) == "PolynomialMap(d=2, degree=1, gamma=2.0, coef0=1.0)"
    assert str(phi) == "φ(f1, f2) = (1, 1.414 f1, 1.414 f2)"
    assert str(PolynomialMap(9, 2)).startswith("φ(f1, f2, …, f9) = (1, √2 f1, √2 f2, ")
    assert str(PolynomialMap(9, 2)).endswith(", …: 55 columns)")
    assert phi == PolynomialMap(2, np.int64(1), gamma=np.float32(2.0))
    assert len({phi, PolynomialMap(2, 1, gamma=2.0)}) == 1
    assert ColumnsMap(3, [-1, 0]) == ColumnsMap(3, (2, 0))
    with pytest.raises(AttributeError):
        phi.degree = 3


# ── the algebra of maps ─────────────────────────────────────────────────────
@pytest.mark.parametrize("case", ALGEBRA)
def test_maps_of_combined_kernels(case):
    kernel, reference = ALGEBRA[case]
    x = np.vstack([points(8, 3), np.zeros((1, 3))])
    phi = kernel.feature_map(3)
    assert phi.n_features == 3
    assert phi.dimension == kernel.map_dimension(3) == len(phi.names)
    np.testing.assert_allclose(phi(x) @ phi(x).T, reference(x), rtol=1e-12, atol=1e-12)


def test_unit_rows_have_length_one_and_zero_rows_stay_zero():
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(UnitMap(IdentityMap(2))(x), [[0.6, 0.8], [0.0, 0.0]], rtol=1e-15)


# ── arrays in, arrays out ───────────────────────────────────────────────────
@pytest.mark.parametrize("case", ALGEBRA)
def test_dtype_is_kept_and_input_is_not_changed(case):
    phi = ALGEBRA[case][0].feature_map(3)
    x = points(6, 3)
    before = x.copy()
    values = phi(x)
    assert values.dtype == np.float64
    assert not np.shares_memory(values, x)
    values += 1.0  # the caller's own
    np.testing.assert_array_equal(x, before)
    single = x.astype(np.float32)
    single.flags.writeable = False
    assert phi(single).dtype == np.float32
    np.testing.assert_allclose(phi(single), phi(x), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("d", "p"), [(2, 2), (5, 3), (3, 6)])
def test_float32_is_accurate_to_its_own_rounding(d, p):
    phi = PolynomialMap(d, p)
    x = points(9, d).astype(np.float32)
    assert_dot_products(phi, x, x, p=p, gamma=1.0, coef0=1.0)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.float16, bool])
def test_other_numbers_become_float64(dtype):
    x = np.array([[0, 1], [1, 1]], dtype=dtype)
    phi = PolynomialMap(2, 2)
    for rows in (x, sparse.csr_array(x.astype(np.int8)), x.tolist()):
        assert phi(rows).dtype == np.float64
        np.testing.assert_array_equal(phi(rows), phi(x.astype(float)))


@pytest.mark.parametrize("case", ALGEBRA)
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_sparse_rows_give_the_same(case, form):
    phi = ALGEBRA[case][0].feature_map(3)
    x = points(20, 3) * (np.random.default_rng(3).random((20, 3)) < 0.4)
    values = phi(form(x))
    assert isinstance(values, np.ndarray)
    np.testing.assert_array_equal(values, phi(x))
    assert phi(form(x.astype(np.float32))).dtype == np.float32


@pytest.mark.parametrize("case", ALGEBRA)
def test_blocks_of_rows_change_nothing(case, monkeypatch):
    phi = ALGEBRA[case][0].feature_map(3)
    x = points(23, 3)
    whole = phi(x)
    monkeypatch.setattr(map_base, "BLOCK_ROWS", 5)
    np.testing.assert_array_equal(phi(x), whole)
    np.testing.assert_array_equal(phi(np.asfortranarray(x)), whole)
    assert phi(x[:0]).shape == (0, phi.dimension)
    assert whole.flags.f_contiguous  # columns are contiguous


# ── where there is no map ───────────────────────────────────────────────────
@pytest.mark.parametrize(
    "kernel", [RBF(1.0), Laplacian(1.0), Matern(1.5, 1.0), RBF(1.0) + Linear()]
)
def test_stationary_kernels_have_no_finite_map(kernel):
    with pytest.raises(NoFiniteMapError, match="infinite"):
        kernel.feature_map(2)
    assert kernel.map_dimension(2) is None


@pytest.mark.parametrize(
    "kernel", [Sigmoid(), -Linear(), Polynomial(2.5), Polynomial(2, coef0=-1.0), Constant(-1.0)]
)
def test_what_is_no_dot_product_has_no_map(kernel):
    with pytest.raises(NoFiniteMapError):
        kernel.feature_map(2)


def test_an_absurd_size_is_refused_before_it_is_enumerated():
    phi = PolynomialMap(1000, 5)
    assert phi.dimension == math.comb(1005, 5) == 8_459_043_543_951
    for ask in (
        lambda: phi(np.ones((1, 1000))),
        lambda: phi.names,
        lambda: phi.exponents,
        phi.__str__,
    ):
        with pytest.raises(InputError, match="8,459,043,543,951 columns; at most 5,000,000"):
            ask()
    huge = ProductMap(phi, phi)
    with pytest.raises(InputError, match="more than 10¹⁵ columns"):
        huge(np.ones((1, 1000)))
    inside = PolynomialMap(phi.dimension, 0).after(phi)  # one column, but by way of too many
    with pytest.raises(InputError, match="at most 5,000,000"):
        inside(np.ones((1, 1000)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PolynomialMap(2, 2)(np.ones((3, 5))), "must have 2 columns.*got 5"),
        (
            lambda: PolynomialMap(2, 2)(sparse.csr_array(np.ones((3, 5)))),
            "must have 2 columns.*got 5",
        ),
        (lambda: PolynomialMap(2, 2)(np.ones(2)), "1-D array"),
        (
            lambda: IdentityMap(2)(sparse.csr_array(np.ones((1, 2), dtype=complex))),
            "got complex",
        ),
        (lambda: IdentityMap(0), "d must be an integer >= 1; got 0"),
        (lambda: PolynomialMap(2, -1), "degree must be an integer >= 0; got -1"),
        (lambda: PolynomialMap(2, 1.5), "degree must be an integer >= 0; got 1.5"),
        (lambda: PolynomialMap(2, 2, gamma=0.0), "gamma must be a number > 0"),
        (lambda: PolynomialMap(2, 2, coef0=-1.0), "coef0 must be a number >= 0; got -1.0"),
        (lambda: PolynomialMap(9, 400), "coefficients beyond"),
        (lambda: IdentityMap(2).scaled(-1.0), "factor must be a number >= 0; got -1.0"),
        (lambda: IdentityMap(2).scaled(math.nan), "factor must be a number >= 0; got nan"),
        (lambda: ColumnsMap(2, [0, 2]), r"from 0 to 1.*got \[0, 2\] for 2 columns"),
        (lambda: ColumnsMap(2, []), "one of them at least"),
        (
            lambda: SumMap(IdentityMap(2), IdentityMap(3)),
            "same columns; got .* of 2 and .* of 3",
        ),
        (lambda: PolynomialMap(3, 2).after(IdentityMap(2)), "takes 3 columns, but .* gives 2"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


# ── the page ────────────────────────────────────────────────────────────────
def test_the_page_runs_as_pasted():
    page = Path(__file__).parents[2] / "docs" / "feature-maps.md"
    blocks = re.findall(
        r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", page.read_text("utf-8"), re.S
    )
    assert len(blocks) >= 5
    names: dict[str, object] = {}
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        assert printed.getvalue() == shown


# ── rounding ────────────────────────────────────────────────────────────────
ROUNDED = {
    "poly2": Polynomial(2),
    "poly7": Polynomial(7, 0.5, 0.0),
    "poly9": Polynomial(9, 1.0, 0.5),
    "sum": Polynomial(5, 0.5, 1.0) + 3.7 * Linear(),
    "product": Polynomial(4, 0.3, 0.0) * (Polynomial(3).on([0])),
    "normalised": Polynomial(6, 0.5, 1.0).normalised(),
    "composed": (Polynomial(2, 0.3, 1.0) + Linear()) ** 3,
}


@pytest.mark.parametrize("name", ROUNDED)
def test_features_are_off_by_no_more_than_their_roundings(name, rng):
    x = (rng.standard_normal((300, 2)) + np.array([0.0, 3.0])).astype(np.float32)
    phi = ROUNDED[name].feature_map(2)
    found, wanted = phi(x), phi(x.astype(np.float64))
    # Each rounding of a constant, which is not counted, leads to one that is.
    unit = features_unit(2 * phi.roundings() + 1, np.float32)
    assert found.dtype == np.float32
    assert np.all(np.abs(found - wanted) <= unit * np.abs(wanted))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 3, 100, 2000, 20_000])
def test_unit_rows_are_off_by_no_more_than_their_roundings(d, dtype, rng):
    """Of a sum of D squares one by one, D would be rounded."""
    x = rng.random((9, d)).astype(dtype)
    phi = Cosine().feature_map(d)
    unit, found = features_unit(phi.roundings(), dtype), phi(x)
    assert found.dtype == dtype
    with mpmath.mp.workdps(40):
        for row, own in zip(x.tolist(), found.tolist(), strict=True):
            length = mpmath.mp.sqrt(mpmath.mp.fsum(row, squared=True))
            off = max(abs(mpmath.mp.mpf(b) * length - a) / a for a, b in zip(row, own, strict=True))
            assert off <= unit


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shift", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("name", ROUNDED)
def test_true_eigenvalues_lie_within_the_residuals_of_float32(name, shift, weighted):
    """Also of rows on a grid, whose roundings are alike, and of maps that round a dozen times."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(60, 240))
        x = 3.0 * rng.standard_normal((n, 2)) + shift
        x = (np.round(x) if seed % 4 == 3 else x).astype(np.float32)
        w = rng.integers(1, 5, n).astype(float) if weighted else np.ones(n)
        model = KernelPCA(4, kernel=ROUNDED[name]).fit(x, sample_weight=w if weighted else None)
        assert model.plan_.route == "primal"
        assert_within(model, ROUNDED[name].feature_map(2)(x.astype(np.float64)), w)


def test_true_eigenvalues_of_a_high_degree_lie_within_the_residuals():
    """Rows whose roundings add up."""
    for seed in (102, 920):
        rng = np.random.default_rng(seed)
        x = (3.0 * rng.standard_normal((227, 2))).astype(np.float32)
        for degree in (7, 9):
            model = KernelPCA(4, kernel=Polynomial(degree, 0.5, 0.0)).fit(x)
            phi = Polynomial(degree, 0.5, 0.0).feature_map(2)(x.astype(np.float64))
            assert_within(model, phi, np.ones(len(x)))


def assert_within(model, features, weights):
    """The true eigenvalues are those of the same rows' features in float64, to its own rounding."""
    share = weights / weights.sum()
    centred = np.sqrt(weights)[:, None] * (features - share @ features)
    true = np.linalg.svd(centred, compute_uv=False)[: len(model.eigenvalues_)] ** 2
    trace = float(weights @ np.einsum("ij,ij->i", features, features))
    slack = features_moved(trace, true[0], features_unit(60, np.float64))
    low, high = model.fit_.bounds.T
    assert np.all(np.abs(model.eigenvalues_ - true) <= model.residuals_ * true[0] + slack)
    assert np.all((low - slack <= true) & (true <= high + slack))
