"""Fixtures shared by all tests: read-only data, so that no law can pass by damaging its input."""

import signal

import numpy as np
import pytest
from hypothesis import settings

# The same examples in every run: what fails here fails for everybody.
settings.register_profile("mercer", derandomize=True, deadline=None)
settings.load_profile("mercer")

# A shell starts jobs in the background with Ctrl-C ignored, and Python leaves it so: the tests that press it
# need Python's own handler, however the suite was started.
signal.signal(signal.SIGINT, signal.default_int_handler)


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
