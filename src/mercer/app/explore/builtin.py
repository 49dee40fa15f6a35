"""Data sets to begin with. Each is written as a file, and then read as any other file is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_digits, make_moons

from mercer._core.errors import ParameterError, nearest
from mercer.app.demo import circles_text, process_text
from mercer.app.explore.dataset import Dataset
from mercer.data.table import Reading

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from mercer._core.types import Array

FACES_SHAPE = (56, 46)


@dataclass(frozen=True)
class Builtin:
    """A data set of mercer's own: what it is called, what it shows, and a recipe to begin with."""

    title: str
    words: str
    write: Callable[[Path], Path]  # into a folder; the file
    recipe: dict[str, Any]
    reading: Reading = field(default_factory=Reading)
    image_shape: tuple[int, int] | None = None
    partner: str | None = None  # rows that a detector fitted to these is to watch
    hidden: bool = False  # opened with its partner only


def _text(name: str, text: Callable[[], str]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / f"{name}.csv"
        path.write_text(text(), encoding="utf-8")
        return path

    return write


def _arrays(name: str, arrays: Callable[[], dict[str, Any]]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / f"{name}.npz"
        np.savez(path, **arrays())
        return path

    return write


def _moons() -> dict[str, Any]:
    points, which = make_moons(400, noise=0.06, random_state=0)
    return {
        "rows": points,
        "labels": np.array(["upper", "lower"])[which],
        "names": np.array(["x", "y"]),
    }


def _digits() -> dict[str, Any]:
    digits = load_digits()
    return {"rows": digits.data, "labels": digits.target.astype(str), "names": _pixels(8, 8)}


def _pixels(height: int, width: int) -> Any:
    return np.array([f"pixel_{r}_{c}" for r in range(height) for c in range(width)])


def _faces() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    height, width = FACES_SHAPE
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    people, pictures = [rng.normal(size=8) for _ in range(40)], []
    for person in people:
        for _ in range(6):
            pose = rng.normal(size=4)
            pictures.append(_face(x - 0.04 * pose[0], y - 0.03 * pose[1], person, pose).ravel())
    labels = np.repeat([f"person {i:02d}" for i in range(1, len(people) + 1)], 6)
    return {"rows": np.stack(pictures), "labels": labels, "names": _pixels(height, width)}


def _face(x: Array, y: Array, person: Array, pose: Array) -> Array:  # (h, w) twice -> (h, w)
    """A drawing with the build of a face: soft blobs on a soft oval, lit from one side."""

    def blob(cx: float, cy: Any, wide: float, high: float) -> Array:
        return np.exp(-(((x - cx) / wide) ** 2) - ((y - cy) / high) ** 2)

    wide, high = 0.66 + 0.05 * person[0], 0.86 + 0.05 * person[1]
    oval = 1 / (1 + np.exp(12 * ((x / wide) ** 2 + (y / high) ** 2 - 1)))
    apart, up = 0.27 + 0.03 * person[2], -0.18 + 0.03 * person[3]
    smile = 0.05 * person[4] + 0.03 * pose[2]
    dark = 0.25 * blob(0, 0.15, 0.07 + 0.01 * person[6], 0.14)
    for side in (-1, 1):
        dark = dark + 0.55 * blob(side * apart, up, 0.12, 0.06)
        dark = dark + (0.3 + 0.08 * person[5]) * blob(side * apart, up - 0.16, 0.17, 0.04)
    dark = dark + 0.5 * blob(0, 0.48 + smile * (x / 0.3) ** 2, 0.24 + 0.03 * person[7], 0.06)
    return 40 + oval * ((170 + 25 * pose[3] * x) * (1 - dark) - 40)


_TANK = Reading(id="time")
BUILTINS = {
    "circles": Builtin(
        "Two circles",
        "400 points on two rings that no line separates",
        _text("circles", circles_text),
        {"kernel": "rbf(gamma=2)", "components": 6},
        Reading(id="id", label="label"),
    ),
    "moons": Builtin(
        "Two moons",
        "400 points on two crescents that reach into each other",
        _arrays("moons", _moons),
        {"kernel": "rbf(gamma=5)", "components": 6},
    ),
    "faces": Builtin(
        "Drawn faces",
        "240 drawings of 40 faces, 56 × 46 pixels: walk along a component and watch one change",
        _arrays("faces", _faces),
        {"kernel": "rbf(gamma='median')", "components": 20, "scale": "none"},
        image_shape=FACES_SHAPE,
    ),
    "digits": Builtin(
        "Handwritten digits",
        "1797 digits of 8 × 8 pixels, as scikit-learn has them",
        _arrays("digits", _digits),
        {"kernel": "rbf(gamma='median')", "components": 20, "scale": "none"},
        image_shape=(8, 8),
    ),
    "tank": Builtin(
        "A heated tank",
        "five sensors of a process in order, and a day on which one of them drifts",
        _text("tank", lambda: process_text(faulty=False)),
        {"kind": "detector", "components": 0.99},
        _TANK,
        partner="tank-today",
    ),
    "tank-today": Builtin(
        "The tank today",
        "the same five sensors on the day that is to be judged",
        _text("tank-today", lambda: process_text(faulty=True)),
        {"kernel": "rbf(gamma='median')", "components": 4},
        _TANK,
        hidden=True,
    ),
}


def write_builtin(name: str, folder: str | os.PathLike[str]) -> Dataset:
    """Write a data set of mercer's own into a folder, and open it.

    Parameters
    ----------
    name : str
        ``"circles"``, ``"moons"``, ``"faces"``, ``"digits"`` or ``"tank"``.
    folder : path
        Where the file goes, under the name of the data set.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_builtin("moons", folder).sheet("none").rows.shape
    (400, 2)
    """
    if name not in BUILTINS:
        raise ParameterError.about(
            parameter="name",
            value=name,
            must_be="a built-in data set",
            remedy=nearest(str(name), BUILTINS),
        )
    own = BUILTINS[name]
    return Dataset(
        own.write(Path(folder)),
        own.reading,
        name=name,
        title=own.title,
        image_shape=own.image_shape,
        suggested=own.recipe,
    )
