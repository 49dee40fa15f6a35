"""Seeded generators are NumPy's own, number by number."""

import pickle
from copy import deepcopy

import numpy as np
import pytest

from mercer._core.quick import seeded


@pytest.mark.parametrize("seed", [0, 1, 7, 2**40, 10**30])
def test_a_seeded_generator_is_that_of_numpy(seed):
    for _ in range(2):  # the second from what was remembered
        own, theirs = seeded(seed), np.random.default_rng(seed)
        np.testing.assert_array_equal(own.standard_normal(9), theirs.standard_normal(9))
        for mine, child in zip(own.spawn(2), theirs.spawn(2), strict=True):
            np.testing.assert_array_equal(mine.random(3), child.random(3))
        for copied in (deepcopy(own), pickle.loads(pickle.dumps(own))):
            assert copied.random() == deepcopy(theirs).random()
