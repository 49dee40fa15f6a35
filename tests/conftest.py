"""Fixtures shared by all tests: read-only data, so that no law can pass by damaging its input."""

import numpy as np
import pytest


def frozen(array):
    array = np.array(array)
    array.flags.writeable = False
    return array


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)


@pytest.fixture(scope="session")
def cloud():
    return frozen(np.random.default_rng(1).standard_normal((60, 4)))


@pytest.fixture(scope="session")
def histograms():
    return frozen(np.random.default_rng(2).random((60, 4)))
