"""The engines of the market, and one of a few lines that shows what an engine has to be."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mercer.data.rows import RowSource
from mercer.data.sources import as_source
from mercer.engine.base import FLOAT64, NOTHING_KEPT, Engine, Facts, TileStore
from mercer.engine.native import NativeEngine, compiled
from mercer.engine.numpy import NumpyEngine


@dataclass
class Loaded:
    """Rows of the dense engine: an array of float64, whatever they were."""

    rows: np.ndarray
    store: TileStore
    dtype = FLOAT64

    @property
    def n(self):
        return len(self.rows)

    @property
    def d(self):
        return self.rows.shape[1]

    def take(self, indices):
        return self.rows[indices]


def why_not(kernel):
    if kernel.parallel:
        return None
    return f"{kernel!r} is a Python function, which the dense engine does not call. Use engine='numpy'."


class DenseEngine(Engine[Loaded]):
    """K as a whole, in float64 alone, on one lane; counts its products."""

    def __init__(self):
        self.products = 0

    def facts(self):
        return Facts("dense", 1, 10**9, why_not, precisions=(FLOAT64,))

    def load(self, x, kernel, dtype, *, width=None, sliced=False, store=NOTHING_KEPT):
        del kernel, dtype, width, sliced
        rows = x[:] if isinstance(x, RowSource) else x
        rows = rows.toarray() if sparse.issparse(rows) else rows
        return Loaded(np.asarray(rows, dtype=np.float64), store)

    def times(self, kernel, x, z, v):
        self.products += 1
        return (kernel.tile(x.rows, z.rows) @ v).astype(v.dtype)

    def gram_times(self, kernel, x, v, *, rough=False):
        self.products += 1
        matrix = self.gram(kernel, x)
        if rough:
            matrix = (matrix - x.store.rounding.minus).astype(np.float32)
        return (matrix @ v).astype(v.dtype)

    def gram(self, kernel, x):
        matrix = kernel.tile(x.rows, x.rows)
        np.fill_diagonal(matrix, kernel.tile_diag(x.rows))
        return matrix - x.store.minus

    def fold(self, x, step, **advice):
        del advice
        return step(self._rows(x), slice(0, x.n if isinstance(x, Loaded) else x.shape[0]))

    def map(self, x, step, *beside, dtype=None, **advice):
        del advice
        rows = self._rows(x)
        return step(rows if dtype is None else rows.astype(dtype), *beside)

    def _rows(self, x):
        return x.rows if isinstance(x, Loaded) else self.load(x, None, None).rows


# Made anew for each test: an engine may count.
ENGINES = {
    "numpy": lambda: NumpyEngine(2),
    "numpy-one-thread": lambda: NumpyEngine(1),
    "numpy-many-threads": lambda: NumpyEngine(5),
    "dense": DenseEngine,
}
if compiled() is not None:  # there was a compiler
    ENGINES |= {"native": lambda: NativeEngine(2), "native-many-threads": lambda: NativeEngine(5)}


def _array(x, folder):
    del folder
    return x


def _sparse(x, folder):
    del folder
    return sparse.csr_array(np.where(np.abs(x) > 0.7, x, 0.0))


def _npy(x, folder):
    np.save(folder / "x.npy", x)
    return as_source(folder / "x.npy")


# Where rows may be: in memory, in memory with zeros left out, in a file.
SOURCES = {"array": _array, "sparse": _sparse, "file": _npy}


def in_memory(x):
    """The rows of a source as an array of float64."""
    rows = x[:] if isinstance(x, RowSource) else x
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
