"""Pictures to try things on: drawn faces, with and without glasses, and a photograph that is not a face.

Nothing is downloaded. The faces are seeded drawings, smooth and varied as photographs of faces are; errors
on them say nothing about photographs.

Examples
--------
>>> from mercer import PCA
>>> from mercer.datasets import faces
>>> drawn = faces(5, 4, shape=(28, 23))
>>> PCA(3).fit_transform(drawn.X).shape
(20, 3)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer._core.errors import refuse
from mercer._core.public import public
from mercer._core.types import Array
from mercer.data.frames import need

__all__ = ["Faces", "faces", "flower"]


@dataclass(frozen=True)
class Faces:
    """Drawn faces, one a row.

    Attributes
    ----------
    X : array of shape (n, h * w)
        Grey levels, about 0 to 255.
    people : array of shape (n,)
        The person in each picture, counted from 0.
    glasses : boolean array of shape (n,)
        Whether this picture has glasses.
    shape : (h, w)
        Height and width of a picture.
    """

    X: Array
    people: NDArray[np.intp]
    glasses: NDArray[np.bool_]
    shape: tuple[int, int]


@public
def faces(
    n_people: int = 40,
    n_pictures: int = 6,
    *,
    shape: tuple[int, int] = (56, 46),
    glasses: float = 0.0,
    seed: int = 0,
) -> Faces:
    """Draw faces: each person has a geometry of their own, each picture a light and a pose.

    Parameters
    ----------
    n_people : int
        Number of people.
    n_pictures : int
        Number of pictures of each.
    shape : (h, w)
        Height and width of a picture. The defaults of 40 people and ten pictures of (112, 92) pixels are as
        many, and as large, as the ORL photographs.
    glasses : float in [0, 1]
        Share of the pictures of each person in which they wear glasses.
    seed : int
        The same seed draws the same faces.

    Returns
    -------
    Faces

    Examples
    --------
    >>> from mercer.datasets import faces
    >>> drawn = faces(3, 2, shape=(28, 23), glasses=0.5)
    >>> drawn.X.shape, drawn.people.tolist(), int(drawn.glasses.sum())
    ((6, 644), [0, 0, 1, 1, 2, 2], 3)
    """
    if not 0.0 <= glasses <= 1.0:
        refuse("glasses", glasses, "a share from 0 to 1")
    if min(n_people, n_pictures, *shape) < 1:
        given = (n_people, n_pictures, *shape)
        refuse("n_people, n_pictures and shape", given, "positive integers")
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[-1 : 1 : shape[0] * 1j, -1 : 1 : shape[1] * 1j]  # (h, w) each
    wears = np.arange(n_pictures) < round(glasses * n_pictures)
    rows = []
    for _ in range(n_people):
        person = rng.normal(size=10)
        for pose, worn in zip(rng.normal(size=(n_pictures, 4)), wears, strict=True):
            picture = _face(x - 0.03 * pose[0], y - 0.02 * pose[1], person, pose, worn=worn)
            rows.append(picture.ravel())
    people = np.repeat(np.arange(n_people), n_pictures)
    return Faces(np.stack(rows), people, np.tile(wears, n_people), shape)


def _face(x: Array, y: Array, person: Array, pose: Array, *, worn: bool) -> Array:
    """One drawing (h, w): soft blobs on a soft oval, hair above it, lit from one side."""

    def blob(cx: float, cy: Array | float, wide: float, high: float) -> Array:
        return np.exp(-(((x - cx) / wide) ** 2) - ((y - cy) / high) ** 2)

    def edge(inside: Array, sharpness: float) -> Array:
        return 1.0 / (1.0 + np.exp(-sharpness * inside))

    wide, high = 0.64 + 0.04 * person[0], 0.84 + 0.04 * person[1]
    oval = edge(1 - (x / wide) ** 2 - (y / high) ** 2, 14)
    apart, up = 0.27 + 0.025 * person[2], -0.14 + 0.025 * person[3]
    smile = 0.03 * person[4] + 0.03 * pose[2]
    dark = 0.16 * blob(0, 0.2, 0.12 + 0.015 * person[6], 0.07) + 0.07 * blob(0, 0.0, 0.07, 0.2)
    dark = dark + 0.5 * blob(0, 0.5 - smile * (x / 0.25) ** 2, 0.23 + 0.03 * person[7], 0.045)
    rims = np.zeros_like(x)
    for side in (-1, 1):
        dark = dark + 0.6 * blob(side * apart, up, 0.09, 0.05)
        dark = dark + (0.35 + 0.08 * person[5]) * blob(side * apart, up - 0.16, 0.16, 0.035)
        radius = np.hypot((x - side * apart) / 0.21, (y - up) / 0.17)
        rims = np.maximum(rims, np.exp(-(((radius - 1) / 0.17) ** 2)))
    if worn:
        bridge = np.abs(x) < apart - 0.2
        rims = np.maximum(rims, bridge * np.exp(-(((y - up + 0.02) / 0.03) ** 2)))
        dark = np.maximum(dark, 0.8 * rims)
    skin = (165 + 10 * person[8] + 22 * pose[3] * x) * (1 - np.minimum(dark, 0.9))
    line = -0.5 + 0.05 * person[9] + 0.25 * x**2  # where the hair begins
    hair = edge(line - y, 16) * edge(1.15 - (x / wide) ** 2 - (y / (high + 0.06)) ** 2, 14)
    face = 95 + oval * (skin - 95)
    return face + hair * (48 + 16 * person[5] - face)


@public
def flower(shape: tuple[int, int] = (56, 46)) -> Array:
    """A photograph of a flower in grey, cut to the shape of a face picture.

    Parameters
    ----------
    shape : (h, w)
        Height and width in pixels.

    Returns
    -------
    array of shape (h * w,)
        Grey levels from 0 to 255.

    Notes
    -----
    The photograph is scikit-learn's ``flower.jpg``; Pillow reads it.

    Examples
    --------
    >>> from mercer.datasets import flower
    >>> flower((28, 23)).shape
    (644,)
    """
    from sklearn.datasets import load_sample_image

    image = need("PIL.Image", extra="images")
    photo = image.fromarray(load_sample_image("flower.jpg")).convert("L")
    height, width = shape
    wide = round(photo.height * width / height)
    left = (photo.width - wide) // 2
    cut = photo.crop((left, 0, left + wide, photo.height)).resize((width, height))
    return np.asarray(cut, dtype=np.float64).ravel()
