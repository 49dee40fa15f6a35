"""Data sets to begin with. Each is written as a file, and then read as any other file is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_digits, make_moons

from mercer._core.errors import nearest
from mercer.app.demo import circles_text, process_text
from mercer.app.explore.dataset import Dataset
from mercer.app.outcome import refuse_value
from mercer.data.table import Reading
from mercer.datasets import faces

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

FACES_SHAPE = (56, 46)


@dataclass(frozen=True)
class Builtin:
    """A data set of mercer's own: what it is called, what it shows, and a recipe to begin with."""

    title: str
    words: str
    content: Callable[[], str | dict[str, Any]]  # of its file: a CSV, or arrays
    recipe: dict[str, Any]
    reading: Reading = field(default_factory=Reading)
    image_shape: tuple[int, int] | None = None
    partner: str | None = None  # rows that a detector fitted to these is to watch
    hidden: bool = False  # opened with its partner only


def _moons() -> dict[str, Any]:
    points, which = make_moons(400, noise=0.06, random_state=0)
    labels = np.array(["upper", "lower"])[which]
    return {"rows": points, "labels": labels, "names": np.array(["x", "y"])}


def _digits() -> dict[str, Any]:
    digits = load_digits()
    return {"rows": digits.data, "labels": digits.target.astype(str), "names": _pixels(8, 8)}


def _pixels(height: int, width: int) -> Any:
    return np.array([f"pixel_{r}_{c}" for r in range(height) for c in range(width)])


def _faces() -> dict[str, Any]:
    drawn = faces(shape=FACES_SHAPE)
    labels = np.array([f"person {who + 1:02d}" for who in drawn.people])
    return {"rows": drawn.X, "labels": labels, "names": _pixels(*drawn.shape)}


_TANK = Reading(id="time")
BUILTINS = {
    "circles": Builtin(
        "Two circles",
        "400 points on two rings that no line separates",
        circles_text,
        {"kernel": "rbf(gamma=2)", "components": 6},
        Reading(id="id", label="label"),
    ),
    "moons": Builtin(
        "Two moons",
        "400 points on two crescents that reach into each other",
        _moons,
        {"kernel": "rbf(gamma=5)", "components": 6},
    ),
    "faces": Builtin(
        "Drawn faces",
        "240 drawings of 40 faces, 56 × 46 pixels: walk along a component and watch one change",
        _faces,
        {"kernel": "rbf(gamma='median')", "components": 20, "scale": "none"},
        image_shape=FACES_SHAPE,
    ),
    "digits": Builtin(
        "Handwritten digits",
        "1797 digits of 8 × 8 pixels, as scikit-learn has them",
        _digits,
        {"kernel": "rbf(gamma=0.001)", "components": 20, "scale": "none"},
        image_shape=(8, 8),
    ),
    "tank": Builtin(
        "A heated tank",
        "five sensors of a process in order, and a day on which one of them drifts",
        lambda: process_text(faulty=False),
        {"kind": "detector"},
        _TANK,
        partner="tank-today",
    ),
    "tank-today": Builtin(
        "The tank today",
        "the same five sensors on the day that is to be judged",
        lambda: process_text(faulty=True),
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
        refuse_value("name", name, "a built-in data set", remedy=nearest(str(name), BUILTINS))
    own = BUILTINS[name]
    content = own.content()
    path = Path(folder, f"{name}.csv" if isinstance(content, str) else f"{name}.npz")
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        np.savez(path, **content)
    return Dataset(
        path,
        own.reading,
        name=name,
        title=own.title,
        image_shape=own.image_shape,
        suggested=own.recipe,
    )
