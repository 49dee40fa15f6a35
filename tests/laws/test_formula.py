"""Laws of formulas: a kernel added by one class with one formula, and what is read off a tree."""

import numpy as np
import onnxruntime
import pytest
from mpmath import mp

import mercer
from markets.exact import squares
from markets.kernels import HISTOGRAM, INDEFINITE, VALID
from mercer import KernelPCA
from mercer.engine.formula import Add, Affine, Exp, Mul, Opaque, Pair, Pow, Unit
from mercer.errors import IndefiniteKernelWarning, InputError, KernelError, ModelFileError
from mercer.kernels import (
    RBF,
    Chi2,
    Constant,
    Cosine,
    Custom,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
    Sum,
    as_kernel,
)
from mercer.kernels.base import FORMULAS
from mercer.kernels.evaluate import values
from mercer.kernels.text import kernel_text, parse_kernel
from mercer.onnx import to_onnx, verify
from mercer.preimage import Distances, FixedPoint, Gradient


# ── a kernel, added ─────────────────────────────────────────────────────────
class PowerCauchy(Kernel):
    """(1 + (‖x - x'‖/l)^a)^(-b/a), a kernel for 0 < a ≤ 2 and b > 0 (Gneiting & Schlather 2004)."""

    proof = "it is a positive mixture of powered exponentials"
    rules = ("length_scale",)

    def __init__(self, a=1.0, b=2.0, length_scale=1.0):
        self.a = a
        self.b = b
        self.length_scale = length_scale

    def formula(self):
        far = Pow(Pair("sqdist", self.length_scale), 0.5 * self.a)
        return Pow(Affine(far, 1.0, 1.0), -self.b / self.a)


CAUCHY = PowerCauchy(1.5, 2.0, 1.3)


def test_its_values_are_right(cloud):
    found = CAUCHY(cloud[:6], cloud[6:12])
    for i, x in enumerate(cloud[:6]):
        for j, y in enumerate(cloud[6:12]):
            r = mp.sqrt(squares([mp.mpf(v) for v in x], [mp.mpf(v) for v in y])) / mp.mpf(1.3)
            assert abs(found[i, j] - (1 + r**1.5) ** mp.mpf(-2.0 / 1.5)) < 1e-14
    np.testing.assert_array_equal(CAUCHY.diag(cloud), np.ones(len(cloud)))


def test_it_fits_as_its_matrix_does(cloud):
    model = KernelPCA(4, kernel=CAUCHY).fit(cloud)
    wanted = KernelPCA(4, kernel="precomputed").fit(CAUCHY(cloud))
    np.testing.assert_allclose(model.eigenvalues_, wanted.eigenvalues_, rtol=1e-9)
    assert mercer.check_kernel(CAUCHY, cloud).valid


def test_its_width_may_be_read_off_the_data(cloud):
    waiting = PowerCauchy(length_scale="median")
    assert waiting.is_data_dependent
    assert waiting.shift_invariant
    found = waiting.resolve(cloud, rng=np.random.default_rng(0))
    wanted = Matern(length_scale="median").resolve(cloud, rng=np.random.default_rng(0))
    assert found.length_scale == wanted.length_scale
    with pytest.raises(KernelError, match="length_scale must be a number > 0"):
        PowerCauchy(length_scale=-1.0)(cloud)


def test_it_has_slopes(cloud, rng):
    x, y, h = cloud[:8], cloud[8:], 1e-6
    weights = rng.standard_normal((len(x), len(y)))
    assert CAUCHY.differentiable
    found = CAUCHY.tile_slope(x, y, weights)
    for j in range(x.shape[1]):
        step = h * np.eye(x.shape[1])[j]
        wanted = np.sum(weights * (CAUCHY.tile(x + step, y) - CAUCHY.tile(x - step, y)), axis=1)
        np.testing.assert_allclose(found[:, j], wanted / (2.0 * h), atol=1e-6)
    assert np.all(np.isfinite(CAUCHY.tile_slope(x, x, np.ones((8, 8)))))  # a kink, on itself


@pytest.mark.parametrize("method", [Gradient(), FixedPoint(), Distances()])
def test_it_has_preimages(method, cloud):
    model = KernelPCA(30, kernel=CAUCHY, preimage=method).fit(cloud)
    back = model.inverse_transform(model.transform(cloud[:5]))
    spread = np.linalg.norm(cloud - cloud.mean(axis=0), axis=1).max()
    assert np.linalg.norm(back - cloud[:5], axis=1).max() < 0.5 * spread


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-8), ("float32", 1e-3)])
def test_it_becomes_a_graph(dtype, tolerance, cloud):
    model = KernelPCA(3, kernel=2.0 * CAUCHY.on([0, 2]) + Linear()).fit(cloud)
    graph = to_onnx(model, dtype=dtype)
    found = verify(graph, model, cloud)
    assert found.ok
    assert found.max_rel < tolerance
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (scores,) = session.run(None, {session.get_inputs()[0].name: cloud.astype(dtype)})
    np.testing.assert_allclose(
        scores, model.transform(cloud), atol=tolerance * np.abs(scores).max()
    )


class ExponentialDot(Kernel):
    """e^(x·x'/10)."""

    proof = "its power series has positive coefficients"

    def formula(self):
        return Exp(Affine(Pair("dot"), 0.1))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kernel", [ExponentialDot(), ExponentialDot().normalised()])
def test_a_function_of_dot_products_is_right_or_nan_in_a_graph(kernel, dtype, cloud):
    model = KernelPCA(3, kernel=kernel).fit(cloud)
    assert verify(to_onnx(model, dtype=dtype), model, cloud).ok


def test_it_is_kept_in_a_model_file(cloud, tmp_path):
    model = KernelPCA(3, kernel=CAUCHY * RBF(0.1)).fit(cloud)
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert again.kernel == model.kernel
    np.testing.assert_array_equal(again.transform(cloud), model.transform(cloud))


def test_a_file_knows_kernels_with_a_formula_and_no_others(cloud, tmp_path):
    class Twice(RBF):
        def tile(self, x, y):
            return 2.0 * super().tile(x, y)

        def tile_diag(self, x):
            return 2.0 * super().tile_diag(x)

    class Linear(Kernel):  # the name of another
        def formula(self):
            return Pow(Pair("dot"), 3)

    for kernel in (Twice(0.3), Linear()):
        with pytest.raises(ModelFileError):
            KernelPCA(2, kernel=kernel).fit(cloud).save(tmp_path / "m.mercer")


def test_a_file_of_a_kernel_that_the_program_lacks_is_refused(cloud, tmp_path, monkeypatch):
    KernelPCA(3, kernel=CAUCHY).fit(cloud).save(tmp_path / "m.mercer")
    monkeypatch.delitem(FORMULAS, "PowerCauchy")
    with pytest.raises(ModelFileError, match="PowerCauchy"):
        mercer.load(tmp_path / "m.mercer")


def test_a_name_of_mercers_stays_its_own():
    class Constant(Kernel):
        def formula(self):
            return Pair("dot")

    assert FORMULAS["Constant"] is not Constant


def test_it_has_a_text():
    kernel = 2.0 * PowerCauchy(1.5, length_scale="median").on([0]) + RBF(0.1)
    assert parse_kernel(kernel_text(kernel)) == kernel
    assert as_kernel("power_cauchy(a=1.5) * linear") == PowerCauchy(1.5) * Linear()


# ── formulas and tiles ──────────────────────────────────────────────────────
ALL = {**VALID, **HISTOGRAM, **INDEFINITE}
WITHOUT = ["gp", "matrices", "points"]


@pytest.mark.parametrize("name", [name for name in ALL if name not in WITHOUT])
def test_a_tile_is_its_formula(name, cloud, histograms):
    kernel, x = ALL[name], histograms if name in HISTOGRAM else cloud
    assert not kernel.formula().has("opaque")
    np.testing.assert_array_equal(values(kernel.formula(), x[:9], x), kernel.tile(x[:9], x))
    np.testing.assert_array_equal(values(kernel.formula(), x), kernel.tile_diag(x))


@pytest.mark.parametrize("name", WITHOUT)
def test_what_has_no_formula_is_a_leaf_of_others(name, cloud):
    kernel = VALID[name]
    assert kernel.formula() is None
    assert (kernel + RBF(1.0)).formula() == Add(Opaque(kernel), RBF(1.0).formula())
    np.testing.assert_allclose((kernel * RBF(1.0))(cloud), kernel(cloud) * RBF(1.0)(cloud))


def test_a_class_of_its_own_needs_no_formula(cloud):
    class Wider(RBF):
        def tile(self, x, y):
            return np.sqrt(super().tile(x, y))

    kernel = Wider(0.6)
    assert kernel.formula() is None
    assert not kernel.shift_invariant
    np.testing.assert_allclose(kernel(cloud), RBF(0.3)(cloud), rtol=1e-12)
    np.testing.assert_allclose((kernel + 1.0)(cloud), RBF(0.3)(cloud) + 1.0, rtol=1e-12)
    with pytest.raises(KernelError, match="no derivative"):
        kernel.tile_slope(cloud, cloud, np.ones((len(cloud), len(cloud))))


def test_a_leaf_without_a_formula_asks_the_kernels_that_it_is_made_of(cloud, histograms):
    class Mean(Sum):
        def tile(self, x, y):
            return 0.5 * (self.left.tile(x, y) + self.right.tile(x, y))

        def tile_diag(self, x):
            return 0.5 * (self.left.tile_diag(x) + self.right.tile_diag(x))

    mean = Mean(Chi2(), RBF(0.3))
    for kernel in (mean, mean + RBF(1.0), 2.0 * mean):
        assert kernel.positive_only
        assert kernel.looks_at_rows
        assert not kernel.shift_invariant
        assert not kernel.differentiable
        kernel.check_rows(histograms)
        with pytest.raises(InputError, match="Negative values in data"):
            kernel.check_rows(cloud)
    assert not Mean(Laplacian(1.0), RBF(0.3)).looks_at_rows


class Squared(Linear):
    """(x·x')², which is not linear any more."""

    def tile(self, x, y):
        return super().tile(x, y) ** 2

    def tile_diag(self, x):
        return super().tile_diag(x) ** 2


class Formula(Squared):
    """x·x' + 1, whatever the tiles of the class above are."""

    def formula(self):
        return Affine(Pair("dot"), 1.0, 1.0)


class Difference(RBF):
    """Not positive semi-definite, though the class above is."""

    def formula(self):
        return Add(super().formula(), Affine(Pair("dot"), -1.0))


@pytest.mark.parametrize(
    ("kernel", "same"), [(Squared(), Polynomial(2, 1.0, 0.0)), (Formula(), Polynomial(1))]
)
def test_a_class_that_changes_the_function_is_that_function(kernel, same, cloud):
    assert Linear().is_linear
    assert not kernel.is_linear
    np.testing.assert_allclose(kernel(cloud), same(cloud), rtol=1e-12)
    found, wanted = (KernelPCA(3, kernel=each).fit(cloud).eigenvalues_ for each in (kernel, same))
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_what_is_proved_of_a_class_is_not_proved_of_another_function(cloud):
    assert [kernel.why_valid() for kernel in (Squared(), Formula(), Difference(0.5))] == [None] * 3
    assert (Squared() + RBF(1.0)).why_valid() is None
    with pytest.warns(IndefiniteKernelWarning):
        KernelPCA(2, kernel=Difference(0.5)).fit(cloud)


IMPOSSIBLE = [
    RBF([1.0, 2.0]),
    RBF(10**400),
    RBF(sigma="a"),
    RBF(sigma=0.0),
    RBF(sigma=1e-200),
    RBF(sigma=1e200),
    Laplacian([]),
    Matern(None),
    Matern("a"),
    Matern(1.5, [1.0, 2.0]),
    RationalQuadratic(0.0),
    RationalQuadratic("a"),
    Polynomial(None),
    Polynomial("a"),
    Polynomial(2, 1.0, None),
    Sigmoid(1.0, None),
    Chi2("a"),
    RBF(1.0).on(5),
    RBF(1.0).on(None),
    RBF(1.0) ** "a",
    RBF(1.0) ** None,
    Linear() + 2.0 * Matern(None),
]


@pytest.mark.parametrize("kernel", IMPOSSIBLE, ids=repr)
def test_parameters_that_no_formula_has_are_told_wherever_it_is_asked_for(kernel, histograms):
    model = KernelPCA(2, kernel=kernel)
    for ask in (model.fit, model.plan, kernel, kernel.diag):
        with pytest.raises(KernelError):
            ask(histograms)
    with pytest.raises(KernelError):
        kernel.shape()
    assert not model.__sklearn_tags__().input_tags.positive_only


def test_a_kernel_without_either_says_so(cloud):
    class Empty(Kernel):
        pass

    with pytest.raises(NotImplementedError, match="needs a formula, or a tile and a tile_diag"):
        Empty()(cloud)


@pytest.mark.parametrize("nested", [Unit(Pair("dot")), Unit(Mul(Pair("dot"), Pair("dot")))])
def test_rows_of_length_one_are_the_quotient(nested, cloud):
    """The fast path of cosines against the formula."""
    of = nested.of
    lengths = np.sqrt(values(of, cloud))
    wanted = values(of, cloud, cloud) / np.outer(lengths, lengths)
    np.testing.assert_allclose(values(nested, cloud, cloud), wanted, atol=1e-14)


# ── what is read off a tree ─────────────────────────────────────────────────
# kernel: (shift-invariant, decreasing, vanishes, counts only, densifies, divides)
PROPERTIES = {
    RBF(): (True, True, True, False, False, False),
    Matern(): (True, True, True, False, False, False),
    RationalQuadratic(): (True, True, True, False, False, False),
    Laplacian(): (True, False, True, False, True, False),
    Chi2(): (False, False, False, True, True, False),
    Linear(): (False, False, False, False, False, False),
    Sigmoid(): (False, False, False, False, False, False),
    Cosine(): (False, False, False, False, False, True),
    Constant(2.0): (True, True, False, False, False, False),
    RBF() + 1.0: (True, True, False, False, False, False),
    RBF() * Matern() + 2.0 * RBF(): (True, True, False, False, False, False),
    -RBF(): (True, False, False, False, False, False),
    RBF().on([0]): (True, False, False, False, False, False),
    RBF() + Chi2(): (False, False, False, True, True, False),
    Polynomial(2).normalised(): (False, False, False, False, False, True),
    CAUCHY: (True, True, True, False, False, False),
    Custom(np.minimum) + RBF(): (False, False, False, False, False, False),
}


@pytest.mark.parametrize("kernel", PROPERTIES, ids=repr)
def test_properties(kernel):
    shape = kernel.shape()
    found = (shape.shift_invariant, shape.decreasing, shape.vanishes)
    found += (shape.counts_only, shape.densifies, shape.divides)
    assert found == PROPERTIES[kernel]


def test_a_formula_is_printed():
    assert str(Polynomial(2, 0.5).formula()) == "(0.5 x·x' + 1)^2"
    assert str((RBF(0.3) + 1.0).formula()) == "(exp (-0.3 ‖x - x'‖²) + 1)"
    assert str(Exp(Affine(Pair("sqdist", 2.0), -0.5))) == "exp (-0.5 (‖x - x'‖²/2²))"


def test_a_tree_follows_the_parameters_of_its_kernel():
    """Trees are remembered by what determines them, and any of it may change."""
    inner = RBF(1.0)
    outer = inner + 0.5 * Linear()
    before = outer.shape()
    assert before == outer.tree()
    inner.gamma = 2.0
    assert outer.shape() == (RBF(2.0) + 0.5 * Linear()).tree() != before
    one = Polynomial(2, gamma=1)
    assert one.shape() == one.tree()
    one.gamma = True  # which is equal to 1, and no number
    with pytest.raises(KernelError):
        one.shape()


def test_a_tree_with_a_function_is_that_of_its_own_object():
    first, second = (as_kernel(lambda x, y: float(x @ y)) for _ in range(2))
    for kernel in (first, second):
        (leaf,) = (node for node in (2.0 * kernel).shape().walk() if isinstance(node, Opaque))
        assert leaf.kernel is kernel
