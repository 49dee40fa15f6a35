"""Arrays of other libraries: read through DLPack, from a device in slices, and handed back where asked."""

from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from sklearn import config_context

from mercer import PCA, IncrementalKernelPCA, KernelPCA, KernelPCADetector
from mercer._core.errors import InputError
from mercer.data import arrays as tensors
from mercer.data.arrays import is_tensor
from mercer.data.intake import admitted
from mercer.estimators.scores import like
from mercer.kernels import RBF

X = np.random.default_rng(0).standard_normal((120, 3))
CPU, GPU = (1, 0), (2, 0)
pytestmark = pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")


class Tensor:
    """An array with DLPack and nothing else of NumPy's: whatever asks for its numbers otherwise fails."""

    def __init__(self, array, place=CPU, dtype=None):
        self.array, self.place = array, place
        self.dtype = array.dtype if dtype is None else dtype
        self.shape, self.ndim = array.shape, array.ndim
        self.read = []

    def __dlpack_device__(self):
        return self.place

    def __dlpack__(self, **options):
        if self.place == GPU:
            raise BufferError
        return self.array.__dlpack__(**options)

    def __getitem__(self, key):
        self.read.append(self.array[key].shape)
        return type(self)(self.array[key], self.place, self.dtype)

    def __iter__(self):
        msg = "row by row"
        raise AssertionError(msg)

    def __array__(self, *_, **__):
        msg = "not by DLPack"
        raise AssertionError(msg)


class OfTorch(Tensor):
    """As torch has its own."""

    def detach(self):
        return self

    def cpu(self):
        return OfTorch(self.array, CPU)

    def float(self):
        return type(self)(self.array.astype(np.float32), self.place)


class OfCupy(Tensor):
    """As CuPy has its own."""

    def get(self):
        return self.array


class OfJax(Tensor):
    """As JAX has its own."""

    def __array__(self, *_, **__):
        return self.array

    def astype(self, dtype):
        return OfJax(self.array.astype(dtype), self.place)


KINDS = {
    "in memory": Tensor(X),
    "pinned": Tensor(X, (3, 0)),
    "of torch": OfTorch(X, GPU),
    "of cupy": OfCupy(X, GPU),
    "of jax": OfJax(X, GPU),
    "metal": OfTorch(X, (8, 0)),
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_numbers_are_those_of_the_array(kind):
    tensor = KINDS[kind]
    np.testing.assert_array_equal(admitted(tensor), X)
    model = KernelPCA(2, kernel=RBF(0.3), preimage="ridge").fit(tensor)
    usual = KernelPCA(2, kernel=RBF(0.3), preimage="ridge").fit(X)
    scores = usual.transform(X)
    np.testing.assert_array_equal(model.transform(tensor), scores)
    given = type(tensor)(scores, tensor.place)
    np.testing.assert_array_equal(model.inverse_transform(given), usual.inverse_transform(scores))
    assert model.n_features_in_ == 3
    pca = PCA(2).fit(tensor)
    np.testing.assert_array_equal(pca.transform(tensor), PCA(2).fit(X).transform(X))
    np.testing.assert_array_equal(RBF(0.3)(tensor, tensor), RBF(0.3)(X, X))


def test_rows_in_memory_are_not_copied():
    assert np.shares_memory(admitted(Tensor(X)), X)
    model, shared = KernelPCA(2).fit(X), X.copy()
    with pytest.raises(InputError, match="an array of its own"):
        model.transform(Tensor(shared), out=shared[:, :2])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_precision_is_kept(dtype):
    x = X > 0 if dtype == "bool" else (10 * X).astype(dtype)
    assert admitted(OfTorch(x, GPU)).dtype == dtype
    expected = "float32" if dtype == "float32" else "float64"
    assert KernelPCA(2).fit(OfTorch(x, GPU)).transform(Tensor(x)).dtype == expected


@pytest.mark.parametrize("make", [OfTorch, OfJax])
@pytest.mark.parametrize("name", ["torch.bfloat16", "float8_e4m3fn"])
def test_floats_that_numpy_has_not_become_float32(make, name):
    """Which holds them exactly; float64 stands for what the library would widen."""
    coarse = np.round(X * 8) / 8
    for place in (CPU, GPU):
        found = admitted(make(coarse, place, dtype=name))
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, coarse)


def test_a_device_is_read_in_slices(monkeypatch):
    monkeypatch.setattr(tensors, "SLICE_BYTES", 50 * X[0].nbytes)
    tensor = OfTorch(X, GPU)
    np.testing.assert_array_equal(admitted(tensor), X)
    assert [shape[0] for shape in tensor.read] == [1, 50, 50, 20]


@pytest.mark.parametrize("shape", [(), (0, 3), (4,), (2, 3, 4)])
def test_any_shape_is_read(shape):
    x = np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape)
    np.testing.assert_array_equal(admitted(OfTorch(x, GPU)), x)
    if shape != (0, 3):
        with pytest.raises(ValueError, match=r"2D|dim 3"):
            KernelPCA(2).fit(OfTorch(x, GPU))


def test_weights_and_lists_of_tensors():
    weights = np.r_[np.zeros(20), np.ones(100)]
    model = KernelPCA(2).fit(X, sample_weight=OfTorch(weights, GPU))
    usual = KernelPCA(2).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(model.eigenvalues_, usual.eigenvalues_)
    scores = KernelPCA(2).fit_transform(OfTorch(X, GPU), sample_weight=OfTorch(weights, GPU))
    np.testing.assert_array_equal(scores, KernelPCA(2).fit_transform(X, sample_weight=weights))
    rows = [OfTorch(row, GPU) for row in X]
    np.testing.assert_array_equal(
        KernelPCA(2).fit(rows).eigenvalues_, KernelPCA(2).fit(X).eigenvalues_
    )


@pytest.mark.parametrize("kind", [IncrementalKernelPCA, KernelPCADetector])
def test_every_estimator_reads_them(kind):
    method = "transform" if kind is IncrementalKernelPCA else "decision_function"
    found = getattr(kind(2).fit(OfTorch(X, GPU)), method)(OfCupy(X, GPU))
    np.testing.assert_array_equal(found, getattr(kind(2).fit(X), method)(X))


def test_batches_may_be_tensors():
    found = KernelPCA(2, kernel="linear").fit(
        lambda: (OfTorch(X[i : i + 40], GPU) for i in (0, 40, 80))
    )
    np.testing.assert_allclose(
        found.eigenvalues_, KernelPCA(2, kernel="linear").fit(X).eigenvalues_, rtol=1e-12
    )


# ── what can't be read ──────────────────────────────────────────────────────
class Sparse(OfTorch):
    layout = "torch.sparse_coo"


class Broken(OfTorch):
    def __dlpack_device__(self):
        msg = "Unknown device type meta for Dlpack. See the manual."
        raise ValueError(msg)


def test_what_can_not_be_read_is_told():
    with pytest.raises(InputError, match=r"^X is .* layout sparse_coo, .*scipy\.sparse.*to_dense"):
        KernelPCA(2).fit(Sparse(X))
    with pytest.raises(InputError, match=r"can't be read .*meta for Dlpack\)\. Pass a plain one"):
        KernelPCA(2).fit(Broken(X))
    with pytest.raises(InputError, match=r"^sample_weight is .* that can't be read"):
        KernelPCA(2).fit(X, sample_weight=Broken(X[:, 0]))
    with pytest.raises(InputError, match="X must be finite; got NaN, first in row 0, column 1"):
        KernelPCA(2).fit(OfTorch(np.where(np.arange(3) == 1, np.nan, X), GPU))


def test_what_is_no_tensor():
    arrow = SimpleNamespace(__dlpack__=None, __arrow_c_array__=None)
    for other in (X, X.tolist(), Tensor, arrow, "x", None, 3.0, X[0, 0]):
        assert not is_tensor(other)


# ── tensors out ─────────────────────────────────────────────────────────────
def asarray(array, *, device):
    made = OfNamespace(array, GPU)
    made.device = device
    return made


TOY = ModuleType("toy")
TOY.asarray = asarray


class OfNamespace(OfTorch):
    """One that says which library it is of."""

    device = "cuda:0"

    def __array_namespace__(self, **_):
        return TOY


def test_out_as_in_where_scikit_learn_is_told_to(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    tensor = OfNamespace(X, GPU)
    usual = KernelPCA(2, preimage="ridge").fit(X)
    assert type(usual.transform(tensor)) is np.ndarray
    with config_context(array_api_dispatch=True):
        model = KernelPCA(2, preimage="ridge").fit(tensor)
        scores = model.transform(tensor)
        assert (type(scores), scores.device) == (OfNamespace, "cuda:0")
        np.testing.assert_array_equal(scores.array, usual.transform(X))
        back = model.inverse_transform(scores)
        np.testing.assert_array_equal(back.array, usual.inverse_transform(usual.transform(X)))
        for found in (model.reconstruct(tensor), model.reconstruction_error(tensor)):
            assert type(found) is OfNamespace
        for each in (KernelPCA(2), KernelPCA(2, approximation="nystrom"), PCA(2)):
            assert type(each.fit_transform(tensor)) is OfNamespace
        pca = PCA(2).fit(tensor)
        assert type(pca.inverse_transform(pca.transform(tensor))) is OfNamespace
        assert type(model.transform(X)) is np.ndarray  # as it came in
        pytest.importorskip("pandas")
        named = model.set_output(transform="pandas").transform(tensor)
        assert list(named.columns) == ["kernelpca0", "kernelpca1"]


def test_metal_gets_float32(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    tensor = OfNamespace(X, (8, 0))
    tensor.device = "mps:0"
    with config_context(array_api_dispatch=True):
        assert like(X, tensor).array.dtype == np.float32
