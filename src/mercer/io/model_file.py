"""Model files: a fitted model in one file that holds numbers and names, never code.

``save`` and ``load`` are the two ends; docs/model-file.md has every byte. What a loaded model computes is
what the saved one did, to the last bit.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer._core.errors import InputError, ModelFileError
from mercer.io import container
from mercer.io.decode import Decoder
from mercer.io.encode import Encoder
from mercer.io.schema import name_of
from mercer.io.stored_types import ESTIMATORS, TYPES
from mercer.io.summary import VERSION, described, identity, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable

FORMAT = 1
# From the header of a format to that of the next: a file of any older format is brought up step by step.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
MOST_QUOTED = 400  # letters
NEEDED = ("arrays", "config", "data", "evidence", "features", "kernel", "kind", "mercer_version")


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    data: Any = None,
    about: dict[str, Any] | None = None,
) -> None:
    """Write a fitted model to a file, which takes the place of an older one in a single step.

    Parameters
    ----------
    model : fitted estimator or Prepared
    path : str or path-like
        The file; ``.mercer`` is the usual ending. Its folder has to exist.
    data : array-like, sparse matrix or source of rows, or a dict, optional
        The training rows, of which a digest is kept; a dict is kept as it is. Without it, the digest is
        that of the points that an exact fit keeps anyhow.
    about : dict, optional
        Anything that JSON can hold, for people: who fitted it, with which command.

    Raises
    ------
    ModelFileError
        The model is not fitted, or holds what no model file can hold, such as a Python function.
    OSError
        The file could not be written. The old one is as it was.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from mercer import KernelPCA
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> model = KernelPCA(2, kernel="rbf").fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model.mercer")
    ...     again = load(f"{folder}/model.mercer")
    >>> np.array_equal(again.transform(X), model.transform(X))
    True
    """
    target = _path(path)
    if not target.parent.is_dir():
        msg = f"There is no folder {target.parent} to write the model file {target.name} to. Make it first."
        raise FileNotFoundError(msg)
    if target.is_dir():
        msg = f"{target} is a folder, where a model file was to be written. Add a name to it."
        raise IsADirectoryError(msg)
    _require_fitted(model)
    words = described(model, data, about)  # a stream solves what it has seen for that, and keeps it
    encoder = Encoder()
    root = encoder.value(model, type(model).__name__)
    tree = {"objects": encoder.objects, "root": root}
    header = {"format": FORMAT, **words, "model": tree}
    try:
        container.write(target, FORMAT, header, encoder.arrays)
    except OSError as error:
        why = error.strerror or error
        msg = f"The model file {target} could not be written: {why}. What was there before is as it was."
        raise OSError(error.errno, msg) from error


def load(path: str | os.PathLike[str], *, mmap: bool = False) -> Any:
    """The model in a file, after a look at every byte of it.

    Safe on a file from a stranger: sizes, checksums and types are checked before anything is used, and no
    code is ever in it.

    Parameters
    ----------
    path : str or path-like
    mmap : bool, default=False
        Whether large arrays stay in the file and are read when they are needed. The file has to stay as it
        is while the model is used.

    Returns
    -------
    model : estimator or Prepared
        As it was saved: its scores are the same to the last bit.

    Raises
    ------
    ModelFileError
        There is no such file, it is damaged, foreign or of a newer format.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from mercer import PCA
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     PCA(1).fit(np.diag([1.0, 2.0, 4.0])).save(f"{folder}/pca.mercer")
    ...     load(f"{folder}/pca.mercer")
    PCA(n_components=1)
    """
    contents = _read(path, mmap=mmap)
    tree = contents.header.get("model")
    try:
        return _decoded(tree, contents)
    except Exception as error:
        # The checksums are right, so whatever went wrong was written into the file: constructors say it in
        # their own words, and none of it is the caller's doing.
        wrote = _short(contents.header.get("mercer_version"))
        why = _short(str(error) or type(error).__name__)
        msg = (
            f"The model file {os.fspath(path)} can't be used: {why}. It says that "
            f"mercer {wrote} wrote it, and this is mercer {VERSION}; if that is newer, "
            "pip install --upgrade mercer."
        )
        raise ModelFileError(msg) from error


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file says about itself, after a look at every byte of it.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    header : dict
        ``format``, ``mercer_version``, ``kind``, ``prepared``, ``kernel``, ``config``, ``evidence``,
        ``features``, ``data``, ``about``, ``versions`` and ``arrays``; docs/model-file.md explains them.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from mercer import KernelPCA
    >>> from mercer.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     KernelPCA(1, kernel=RBF(gamma=2.0)).fit(X).save(f"{folder}/model.mercer")
    ...     header = read_header(f"{folder}/model.mercer")
    >>> header["kind"], header["kernel"], header["data"]["n"]
    ('KernelPCA', 'RBF(gamma=2.0)', 40)
    """
    header = dict(_read(path, mmap=False, arrays=False).header)
    header.pop("model", None)
    return header


def _read(path: str | os.PathLike[str], *, mmap: bool, arrays: bool = True) -> container.Contents:
    file = _path(path)
    contents = container.read(file, FORMAT, mmap=mmap, arrays=arrays)
    header, version = contents.header, contents.format
    while version < FORMAT:
        header = UPGRADES[version](header)
        version += 1
    missing = [name for name in NEEDED if name not in header]
    if missing or header.get("format") != contents.format:
        msg = (
            f"The model file {file} is refused: its header lacks {', '.join(missing) or 'its format'}. No "
            "mercer writes such a file."
        )
        raise ModelFileError(msg)
    return replace(contents, format=version, header=header)


def _decoded(tree: Any, contents: container.Contents) -> Any:
    whole = isinstance(tree, dict) and set(tree) == {"objects", "root"}
    if not whole or not isinstance(tree["objects"], list):
        msg = "its header has no model, a list of objects and their root"
        raise ModelFileError(msg)
    decoder = Decoder(contents.arrays)
    for entry in tree["objects"]:
        decoder.add(entry)
    model = decoder.value(tree["root"])
    _require_fitted(model)
    _require_told(model, contents.header)
    return model


def _require_told(model: Any, header: dict[str, Any]) -> None:
    """Raise where the file says of its model what it is not: people go by what `mercer info` tells them."""
    if header["mercer_version"] != VERSION:  # another may have written kernels otherwise
        return
    for name, found in identity(model).items():
        if header.get(name) != found:
            told = _short(header.get(name))
            msg = f"its header tells {name} {told}, but its model has {_short(found)}"
            raise ModelFileError(msg)


def _short(found: Any) -> str:
    """As it stands in the file, which may hold a word of many pages; a sentence quotes its beginning."""
    text = str(found)
    return text if len(text) <= MOST_QUOTED else f"{text[:MOST_QUOTED]}…"


def _require_fitted(model: Any) -> None:
    """Raise unless it is a model that was fitted, of a type that a file may hold."""
    inner = unwrapped(model)
    name = name_of(inner)
    if name not in ESTIMATORS or name == "KernelCenterer":
        kind = type(inner)
        msg = (
            f"A fitted model of mercer was needed, but a {kind.__module__}.{kind.__qualname__} came. Model "
            "files hold mercer's own estimators; a pipeline around one is kept with joblib or skops."
        )
        raise ModelFileError(msg)
    assert name is not None
    if not TYPES[name].required <= set(vars(inner)):
        msg = f"{type(inner).__name__} is not fitted yet, and files hold fitted models. Call `fit` first."
        raise ModelFileError(msg)


def _path(path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        msg = f"The path of a model file was needed, but a {type(path).__name__} came."
        raise InputError(msg)
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text:
        msg = f"{text!r} can't be the path of a model file: it has to be text without zero bytes."
        raise InputError(msg)
    # Behind a link, so that the file is replaced and not the link.
    return Path(os.path.realpath(os.path.expanduser(text)))
