"""scikit-learn's own test module for KernelPCA, pointed at the drop-in."""

import pytest
from sklearn.decomposition.tests import test_kernel_pca as suite
from sklearn.decomposition.tests.test_kernel_pca import *  # noqa: F403 - its tests are now ours

from mercer.sklearn import KernelPCA

# What scikit-learn's own settings leave out of "warnings are errors".
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(autouse=True)
def _drop_in(monkeypatch):
    monkeypatch.setattr(suite, "KernelPCA", KernelPCA)


@pytest.fixture(params=[0, 42])
def global_random_seed(request):
    return request.param


def test_the_suite_runs_on_the_drop_in():
    assert suite.KernelPCA is KernelPCA
