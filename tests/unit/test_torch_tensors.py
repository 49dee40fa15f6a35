"""Tensors of torch as rows: the numbers of NumPy's arrays, or one sentence; tensors out where asked."""

import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone

pytest.importorskip("torch", reason="torch is not installed: pip install 'mercer[gpu]'")

import torch

from mercer import PCA, IncrementalKernelPCA, KernelPCA
from mercer._core.errors import InputError
from mercer.kernels import RBF

X = np.random.default_rng(0).standard_normal((120, 3))
T = torch.from_numpy(X)
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
MODELS = {
    "exact": KernelPCA(2, kernel=RBF(0.3), preimage="ridge"),
    "low rank": KernelPCA(2, kernel=RBF(0.3), approximation="nystrom", preimage="ridge"),
    "pca": PCA(2),
    "incremental": IncrementalKernelPCA(2, kernel=RBF(0.3), preimage="gradient"),
}
pytestmark = pytest.mark.filterwarnings("ignore::mercer._core.errors.MercerWarning")


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


# ── in ──────────────────────────────────────────────────────────────────────
READ = {
    "float64": T,
    "float32": T.float(),
    "half": T.half(),
    "bfloat16": T.bfloat16(),
    "whole": (10 * T).long(),
    "gradients": T.clone().requires_grad_(),
    "parameter": torch.nn.Parameter(T.clone()),
    "by columns": T.T.contiguous().T,
    "every other": torch.cat([T, T])[::2],
    "negated": torch.complex(T, T).conj().imag,
}


@pytest.mark.parametrize("name", sorted(READ))
def test_the_numbers_are_those_of_the_array(name, device):
    tensor = READ[name].to(device)
    plain = tensor.detach().cpu().resolve_neg()
    plain = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    model, usual = (KernelPCA(2, kernel=RBF(0.3)).fit(rows) for rows in (tensor, plain))
    scores = model.transform(tensor)
    assert (type(scores), scores.dtype) == (np.ndarray, usual.transform(plain).dtype)
    np.testing.assert_array_equal(scores, usual.transform(plain))
    np.testing.assert_array_equal(model.eigenvectors_, usual.eigenvectors_)


REFUSED = {
    "sparse": (T.to_sparse(), r"layout sparse_coo, .*X\.to_dense"),
    "no numbers": (T.to("meta"), "can't be read as an array .*meta"),
    "a scalar": (torch.tensor(3.0), "2D array, got scalar"),
    "a column": (T[:, 0], "2D array, got 1D"),
    "a stack": (T[None], "dim 3"),
    "no rows": (T[:0], r"0 sample\(s\)"),
    "complex": (torch.complex(T, T), "Complex data"),
    "nan": (T / (T > 0), "X must be finite"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_no_rows_is_refused(name):
    tensor, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        KernelPCA(2).fit(tensor)


def test_a_nested_tensor_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls it a prototype
        nested = torch.nested.nested_tensor([T[:100], T[100:]])
        with pytest.raises(InputError, match="can't be read as an array"):
            KernelPCA(2).fit(nested)


def test_the_tensor_is_left_as_it_is(device):
    tensor = T.to(device).clone()
    model = KernelPCA(2, preimage="ridge").fit(tensor, sample_weight=torch.ones(120).to(device))
    before = model.transform(tensor)
    assert torch.equal(tensor, T.to(device))
    tensor.zero_()  # the model has rows of its own
    np.testing.assert_array_equal(model.transform(T), before)


# ── out ─────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_tensors_in_tensors_out_where_scikit_learn_is_told_to(name, dtype, device, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    tensor, usual = T.to(device, dtype), clone(MODELS[name])
    plain = tensor.cpu().numpy()
    expected = usual.fit(plain).transform(plain)
    back = usual.inverse_transform(expected)
    with config_context(array_api_dispatch=True):
        model = clone(MODELS[name]).fit(tensor)
        scores = model.transform(tensor)
        pairs = [(scores, expected), (model.inverse_transform(scores), back)]
        pairs.append((clone(MODELS[name]).fit_transform(tensor), usual.fit_transform(plain)))
        for found, wanted in pairs:
            assert isinstance(found, torch.Tensor)
            assert (found.device, found.dtype) == (tensor.device, tensor.dtype)
            np.testing.assert_array_equal(found.cpu().numpy(), wanted)
        assert type(model.transform(plain)) is np.ndarray
    assert type(model.transform(tensor)) is np.ndarray
