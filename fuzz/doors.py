"""A door takes bytes from strangers. Here: texts, plain arrays and models, with honest inputs."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from fuzz.mutate import mutated
from fuzz.sealed import named_forgeries, resealed, resealed_1
from fuzz.trial import EscapeError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from mercer.model.checkpoint import Checkpoint

EXPRESSIONS = (
    "rbf(gamma=0.5) + 0.1*linear()",
    "RBF(gamma='median') * Polynomial(3, gamma=0.1, coef0=1.0) ** 2",
    "matern(nu=1.5, length_scale=2).on([0, 1]) + 3",
    "(cosine() + -1e-3 * laplacian(0.2)).normalised()",
    "sigmoid(gamma=2, coef0=-1)",
    "rational_quadratic(alpha=1, length_scale=0.1) - chi2()",
)
TABLES = (
    "id,x,y,label\n1,0.5,1.5,a\n2,-1e-3,2,b\n3,7,8.25,a\n",
    "x;y\n1,5;2,25\n3,0;-4,5\n0,1;0,2\n",
    'name\ta\tb\n"quoted ""one"""\t1\t2\n"two\nlines"\t3\t4\n',
    "1,2,3\n4,5,6\n7,8,9\n",
    "a,b\n1,\nNA,2\n3,4\n",
    "t,p\n°C,kPa\n1,2\n3,4\n",
)


@dataclass(frozen=True)
class Door:
    """A parser, where its inputs come from, and how they are spoilt."""

    name: str
    suffix: str
    seeds: Callable[[], list[bytes]]
    enter: Callable[[Path], None]
    spoil: Callable[[bytes, list[bytes], random.Random], bytes] = field(default=mutated)
    named: Callable[[], dict[str, bytes]] = field(default=dict)  # each of these must be refused


def enter_table(path: Path, named_by: str | None = None) -> None:
    """Read all rows, as the command line does."""
    from mercer.data.formats import open_table
    from mercer.preprocessing.align import learned_rows

    learned_rows(
        open_table(path, id=named_by), memory_bytes=200_000_000, impute="mean", one_hot=True
    )


def _enter_both_parsers(path: Path) -> None:
    """Read a table by our own parser and by Arrow's, which must agree."""
    from mercer.data.csv import table as arrow
    from mercer.data.formats import open_table
    from mercer.errors import InputError

    least, seen = (arrow.LEAST_CHARACTERS, arrow.LEAST_ROWS), []
    refusal: InputError | None = None
    for how in (least, (0, 1)):
        arrow.LEAST_CHARACTERS, arrow.LEAST_ROWS = how
        try:
            chunks = list(open_table(path).chunks(1000))
            seen.append([(c.numbers.tobytes(), str(c.words), str(c.ids)) for c in chunks])
        except InputError as error:
            seen.append([str(error)])
            refusal = error
        finally:
            arrow.LEAST_CHARACTERS, arrow.LEAST_ROWS = least
    if seen[0] != seen[1]:
        msg = f"Arrow reads a table otherwise: {seen[1]}, not {seen[0]}"
        raise EscapeError(msg)
    if refusal is not None:
        raise refusal


def _enter_model(path: Path) -> None:
    import mercer

    model = mercer.load(path)
    inner = model.model if isinstance(model, mercer.Prepared) else model
    rows = np.zeros((2, inner.n_features_in_))
    # A model that loads must work: nothing half-right comes through the door.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the rows have no names
        if isinstance(inner, mercer.KernelPCADetector):
            model.predict(rows)
        else:
            model.transform(rows)


def _enter_kernel(path: Path) -> None:
    from mercer.kernels.text import parse_kernel

    parse_kernel(path.read_bytes().decode("utf-8", "replace"))


# ── honest inputs ───────────────────────────────────────────────────────────
@cache
def _arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, 3))
    return [x, x.astype(np.float32), np.asfortranarray(x), np.arange(8).reshape(4, 2), x > 0]


def npy_seeds() -> list[bytes]:
    """Arrays of several kinds."""
    return [_saved(np.save, array) for array in _arrays()]


def npz_seeds() -> list[bytes]:
    """Archives, plain and compressed."""
    x = _arrays()[0]
    labels = np.array(["a", "b"] * 6)
    return [
        _saved(lambda f, a: np.savez(f, X=a, y=labels), x),
        _saved(lambda f, a: np.savez_compressed(f, X=a), x),
    ]


def _saved(save: Callable[..., None], array: np.ndarray) -> bytes:
    file = io.BytesIO()
    save(file, array)
    return file.getvalue()


@cache
def model_seeds() -> list[bytes]:
    """Models of several routes, small."""
    import mercer
    from mercer.approximations import RPCholesky
    from mercer.kernels import RBF, Linear, Polynomial
    from mercer.preprocessing.preparation import Preparation

    x = np.random.default_rng(0).standard_normal((14, 3))
    preparation = Preparation(("a", "b", "c"), fills=x[0], center=x[1], spread=np.exp(x[2]))
    models = [
        mercer.KernelPCA(2, kernel=RBF(0.5) + 0.1 * Linear()),
        mercer.KernelPCA(2, kernel=Polynomial(2), preimage="ridge"),
        mercer.KernelPCA(2, approximation=RPCholesky(rank=6)),
        mercer.PCA(2),
        mercer.IncrementalKernelPCA(2, kernel=RBF(0.5)),
        mercer.KernelPCADetector(2, folds=2),
    ]
    fitted = [model.fit(x) for model in models]
    fitted.append(mercer.Prepared(preparation, fitted[0]))  # what the command line writes
    fitted.append(fitted[-1].to_pipeline())
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m.mercer"
        found = []
        for model in fitted:
            mercer.save(model, path)
            found.append(path.read_bytes())
    return found


def model_named() -> dict[str, bytes]:
    """Headers that a forger would write."""
    return named_forgeries(model_seeds()[0])


def first_seeds() -> list[bytes]:
    """The file of format 1 that has to load for ever."""
    return [(Path(__file__).parents[1] / "tests" / "data" / "model-format-1.mercer").read_bytes()]


@cache
def checkpoint_seeds() -> list[bytes]:
    """A state of a fit."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "fit.ckpt"
        _checkpoint(path).keep(lambda: {"basis": _arrays()[0], "product": 3, "worst": float("inf")})
        return [path.read_bytes()]


def _checkpoint(path: Path) -> Checkpoint:
    from mercer.model.checkpoint import Checkpoint

    return Checkpoint(path, {"n": 12, "kernel": "RBF(gamma=0.5)"})


def _enter_checkpoint(path: Path) -> None:
    _checkpoint(path).resume()


def csv_seeds() -> list[bytes]:
    """Tables in several dialects."""
    return [text.encode() for text in TABLES]


def kernel_seeds() -> list[bytes]:
    """Expressions."""
    return [text.encode() for text in EXPRESSIONS]


TEXT_AND_MODELS = (
    Door("csv", ".csv", csv_seeds, enter_table),
    Door("csv, by two parsers", ".csv", csv_seeds, _enter_both_parsers),
    Door("npy", ".npy", npy_seeds, enter_table),
    Door("npz", ".npz", npz_seeds, enter_table),
    Door("model", ".mercer", model_seeds, _enter_model),
    Door("model, resealed", ".mercer", model_seeds, _enter_model, resealed, model_named),
    Door("model, format 1", ".mercer", first_seeds, _enter_model),
    Door("model, format 1, resealed", ".mercer", first_seeds, _enter_model, resealed_1),
    Door("checkpoint", ".ckpt", checkpoint_seeds, _enter_checkpoint),
    Door("kernel", ".txt", kernel_seeds, _enter_kernel),
)
