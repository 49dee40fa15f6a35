"""Model files: a fitted model in one file that holds numbers and names, never code.

``save`` and ``load`` are the two ends; docs/model-file.md has every byte. What a loaded model computes is
what the saved one did, to the last bit.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from mercer._core import container
from mercer._core.container import FORMAT, ContainerError, Contents
from mercer._core.errors import InputError, MercerError, ModelFileError, kind_of
from mercer._core.version import VERSION
from mercer.persistence import format_1

MOST_QUOTED = 400  # letters
NEEDED = ("config", "data", "evidence", "features", "kernel", "kind", "mercer_version", "model")
# By how a container can't be read (`ContainerError.how`).
REFUSED = {
    "foreign": "{path} is not a model file: {why}. Model files are written by `mercer fit … -o` and by "
    "`model.save(path)`.",
    "newer": "{path} has format {why}, and this mercer reads formats up to {most}: a newer mercer wrote it. "
    "Upgrade with: pip install --upgrade mercer",
    "damaged": "The model file {path} is damaged: {why}. It was cut short or changed after it was written. "
    "Copy it again, or fit again.",
    "forged": "The model file {path} is refused: {why}. No mercer writes such a model file.",
}


class Loaded(NamedTuple):
    """A model and the header of its file, of one reading."""

    model: Any
    header: dict[str, Any]


# ── save ────────────────────────────────────────────────────────────────────
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
    model : fitted estimator, Prepared or Pipeline
        A scikit-learn pipeline may have scalers, imputers and encoders before a model of mercer.
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
    from mercer.persistence.card import card, plain
    from mercer.persistence.encode import Encoder

    target = _path(path)
    if not target.parent.is_dir():
        msg = f"There is no folder {target.parent} to write the model file {target.name} to. Create it first."
        raise FileNotFoundError(msg)
    if target.is_dir():
        msg = f"{target} is a folder; a model file needs a name. Add one to it."
        raise IsADirectoryError(msg)
    _require_fitted(model)
    # A stream solves what it has seen for its card, and keeps it.
    about_model = card(model, data).to_dict()
    encoder = Encoder()
    root = encoder.value(model, type(model).__name__)
    tree = {"objects": encoder.objects, "root": root}
    try:
        header = {"mercer_version": VERSION, **about_model, "about": plain(about), "model": tree}
        container.write(target, header, encoder.arrays)
    except OSError as error:
        why = error.strerror or error
        msg = f"The model file {target} could not be written: {why}. The old file is unchanged."
        raise OSError(error.errno, msg) from error
    except ContainerError as error:
        raise ModelFileError(str(error)) from error
    except MercerError:  # of rows that are still in a file
        raise
    except (TypeError, ValueError, RecursionError) as error:  # a lone surrogate is a ValueError
        msg = f"The header of a model file has to be plain JSON in UTF-8, but: {error}."
        raise ModelFileError(msg) from error


# ── load ────────────────────────────────────────────────────────────────────
def load(path: str | os.PathLike[str], *, mmap: bool = False) -> Any:
    """The model in a file, after a check of every byte of it.

    Safe on a file from anywhere: sizes, checksums and types are checked before use, and it has no code.

    Parameters
    ----------
    path : str or path-like
    mmap : bool, default=False
        Whether large arrays stay in the file and are read when they are needed. The file has to stay as it
        is while the model is used.

    Returns
    -------
    model : estimator, Prepared or Pipeline
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
    return opened(path, mmap=mmap).model


def opened(path: str | os.PathLike[str], *, mmap: bool = False) -> Loaded:
    """The model in a file and what its header says: the file is read, and hashed, once."""
    contents = _read(path, mmap=mmap)
    header = contents.header
    try:
        model = _decoded(header.pop("model"), contents)
    except Exception as error:
        # The checksums are right, so whatever went wrong was written into the file: constructors say it in
        # their own words, and none of it is the caller's doing.
        why = _short(str(error) or type(error).__name__)
        msg = (
            f"The model file {os.fspath(path)} can't be used: {why}. It says that mercer "
            f"{_short(header['mercer_version'])} wrote it, and this is mercer {VERSION}; if that is newer, "
            "pip install --upgrade mercer."
        )
        raise ModelFileError(msg) from error
    return Loaded(model, header)


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file says about itself, after a check of every byte of it.

    These are ``format``, ``mercer_version``, the fields of a `mercer.ModelCard`, ``about`` and ``arrays``;
    docs/model-file.md explains them.

    >>> import tempfile, mercer, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mercer.KernelPCA(1, kernel="rbf(gamma=2)").fit(X).save(f"{folder}/model.mercer")
    ...     header = read_header(f"{folder}/model.mercer")
    >>> header["kind"], header["kernel"], header["data"]["n"]
    ('KernelPCA', 'RBF(gamma=2.0)', 40)
    """
    header = _read(path, arrays=False).header
    del header["model"]
    return header


def _read(path: str | os.PathLike[str], *, mmap: bool = False, arrays: bool = True) -> Contents:
    place = _path(path)
    try:
        with _opened(place) as file:
            first = file.read(len(format_1.MAGIC)) == format_1.MAGIC
            contents = (format_1 if first else container).read(file, mmap=mmap, arrays=arrays)
    except ContainerError as error:
        msg = REFUSED[error.how].format(path=place, why=error, most=FORMAT)
        raise ModelFileError(msg) from error
    header = contents.header
    missing = ", ".join(name for name in NEEDED if name not in header)
    if missing:
        is_checkpoint = "checkpoint" in header
        why = "it is a checkpoint of a fit" if is_checkpoint else f"its header lacks {missing}"
        raise ModelFileError(REFUSED["forged"].format(path=place, why=why))
    header["format"] = contents.format
    return contents


def _opened(path: Path) -> BinaryIO:
    try:
        if path.is_dir():
            msg = f"{path} is a folder; a model file is needed. Name the file in it."
            raise ModelFileError(msg)
        if path.exists() and not path.is_file():
            msg = f"{path} is not a plain file, and a model is read from one. Copy it to a file first."
            raise ModelFileError(msg)
        return path.open("rb", buffering=0)  # what is hashed is what a map of the file shows
    except FileNotFoundError as error:
        msg = f"There is no model file {path}."
        raise ModelFileError(msg) from error
    except OSError as error:
        msg = f"The model file {path} can't be opened: {error.strerror or error}."
        raise ModelFileError(msg) from error


def _decoded(tree: Any, contents: Contents) -> Any:
    from mercer.persistence.card import PIPELINE
    from mercer.persistence.decode import Decoder
    from mercer.persistence.schema import name_of

    whole = isinstance(tree, dict) and set(tree) == {"objects", "root"}
    if not whole or not isinstance(tree["objects"], list):
        msg = "its header has no model, a list of objects and their root"
        raise ModelFileError(msg)
    decoder = Decoder(contents.arrays)
    for entry in tree["objects"]:
        decoder.add(entry)
    model = decoder.value(tree["root"])
    _require_fitted(model)
    if name_of(model) == PIPELINE:
        from mercer.persistence.scikit_learn import check_pipeline

        check_pipeline(model)
    _require_identity(model, contents.header)
    return model


def _require_identity(model: Any, header: dict[str, Any]) -> None:
    """Raise where the file says of its model what it is not: people go by what `mercer info` prints."""
    from mercer.persistence.card import identity

    if header["mercer_version"] != VERSION:  # another may have written kernels otherwise
        return
    for name, found in identity(model).items():
        if header.get(name) != found:
            msg = f"its header says {name} {_short(header.get(name))}, but its model has {_short(found)}"
            raise ModelFileError(msg)


def _short(found: Any) -> str:
    """The beginning of a text from a file, which may have many pages."""
    text = str(found)
    return text if len(text) <= MOST_QUOTED else f"{text[:MOST_QUOTED]}…"


def _require_fitted(model: Any) -> None:
    """Raise unless it is a model that was fitted, of a type that a file may hold."""
    from mercer.persistence.card import unwrapped
    from mercer.persistence.schema import known_type, name_of

    inner = unwrapped(model)
    name = name_of(inner)
    known = None if name is None else known_type(name)
    if known is None or known.making != "estimator" or known.is_open:
        holds = "a fitted model of mercer, alone or as the last step of a pipeline"
        msg = f"A model file holds {holds}; got a {type(inner).__module__}.{type(inner).__qualname__}."
        raise ModelFileError.saying(msg, "Keep anything else with joblib or skops.")
    if not known.required <= set(vars(inner)):
        msg = f"{type(inner).__name__} is not fitted yet, and files hold fitted models. Call `fit` first."
        raise ModelFileError(msg)


def _path(path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        msg = f"The path of a model file must be a string or a Path; got {kind_of(path)}."
        raise InputError(msg)
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text:
        msg = f"The path of a model file must be text without zero bytes; got {text!r}."
        raise InputError(msg)
    # Behind a link, so that the file is replaced and not the link.
    return Path(os.path.realpath(os.path.expanduser(text)))
