"""Drawn faces: as many as asked for, the same for the same seed, and as faces are."""

import numpy as np
import pytest

from mercer import PCA
from mercer.datasets import faces, flower
from mercer.errors import InputError


def test_rows_are_pictures_of_people():
    drawn = faces(4, 5, shape=(20, 16), glasses=0.4)
    assert drawn.X.shape == (20, 320)
    assert drawn.shape == (20, 16)
    np.testing.assert_array_equal(drawn.people, np.repeat(range(4), 5))
    np.testing.assert_array_equal(drawn.glasses.reshape(4, 5).sum(axis=1), 2)
    assert drawn.X.min() > 0
    assert drawn.X.max() < 255


def test_the_seed_decides():
    same, other = faces(3, 2, shape=(12, 10)), faces(3, 2, shape=(12, 10), seed=1)
    np.testing.assert_array_equal(same.X, faces(3, 2, shape=(12, 10)).X)
    assert not np.allclose(same.X, other.X)


def test_glasses_change_the_eyes_alone():
    with_glasses, without = faces(2, 2, glasses=1.0), faces(2, 2)
    changed = np.abs(with_glasses.X - without.X).max(axis=0).reshape(without.shape) > 5
    rows = np.flatnonzero(changed.any(axis=1)) / len(changed)
    assert rows.min() > 0.2
    assert rows.max() < 0.6


def test_pictures_of_one_person_are_nearer_than_those_of_others():
    drawn = faces(8, 4, shape=(28, 23))
    scores = PCA(10).fit_transform(drawn.X)
    distance = np.linalg.norm(scores[:, None] - scores[None], axis=2)
    same = drawn.people[:, None] == drawn.people[None]
    apart = ~np.eye(len(same), dtype=bool)
    assert np.median(distance[same & apart]) < 0.7 * np.median(distance[~same])


def test_a_flower_lies_farther_from_faces_than_a_stranger_does():
    drawn = faces(20, 4)
    model = PCA(25).fit(drawn.X[:-4])
    error = np.sqrt(model.reconstruction_error(np.vstack([drawn.X[-4:], flower()[None]])))
    assert error[-1] > 5 * error[:-1].max()


@pytest.mark.parametrize(
    "wrong", [{"glasses": 1.5}, {"n_people": 0}, {"n_pictures": -1}, {"shape": (0, 4)}]
)
def test_what_can_not_be_drawn_is_refused(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))}.* must be "):
        faces(**wrong)
