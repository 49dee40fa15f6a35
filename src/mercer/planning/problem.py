"""What a plan depends on: a few numbers about rows, kernel, engine and memory, all asked before planning."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache

import numpy as np

from mercer._core.memory import HOST, Memory, parse_bytes, said_of
from mercer._core.types import Indices, Rows
from mercer.data.rows import take_rows
from mercer.data.training import TrainingData
from mercer.engine.base import FLOAT32, Facts, Workers
from mercer.engine.tiles import CACHE_BYTES
from mercer.kernels.base import Kernel

# Crossovers, measured on two cores; where each rule stops paying is flat, so round numbers do.
SMALL_ROWS = 3000  # products so cheap that iterating to rounding costs nothing
SMALL_SHARE, SHARE = 25, 12  # k above this part of n: the Krylov basis would grow towards K itself

DOUBLE = 8  # bytes

# Rows of a source up to this share of the budget are read into memory by an exact fit.
OWN_SHARE = 0.25
# Rows whose kernel values among themselves show what all are like.
PROBE_ROWS = 100


def lapack_share(n: int) -> int:
    """The s of the n/s components up to which iterating is quicker than LAPACK."""
    # LAPACK's n³ is the dearer the larger n, and up to `SMALL_ROWS` iterating goes on to more digits.
    return SMALL_SHARE if n <= SMALL_ROWS else SHARE


class Ownership(Enum):
    """Whose rows a fit works on, and what becomes of them."""

    SEEN = "seen"  # the caller's, in memory, of which the model keeps nothing
    BORROWED = "borrowed"  # the caller's: a model that keeps them copies them after the fit
    COPIED = "copied"  # our own copy, made before the fit: a user's function might write into them
    LOADED = "loaded"  # read from a source into memory
    STREAMED = "streamed"  # they stay in their source, and are read slice by slice

    @classmethod
    def of(
        cls, data: TrainingData, kernel: Kernel, *, exact: bool, budget: int, remote: bool = False
    ) -> Ownership:
        """Decided once. An exact model keeps its rows, and the caller may change theirs."""
        if not data.in_memory:
            # What a `remote` engine reads is never read here, where it can be had in any order.
            stay = remote and data.rows.random_access
            # An exact model reads rows that take a small part of the budget: it then owns them, whatever
            # becomes of the file. It has to where slices can't be had in any order (batches), or where the
            # rows themselves are the dual problem (a linear kernel with more columns than rows).
            wide = kernel.is_linear and data.d >= data.n
            small = data.n_bytes <= OWN_SHARE * budget
            read_once = kernel.map_dimension(data.d) is not None and not wide
            loads = small or wide or not (data.rows.random_access or read_once)
            return cls.LOADED if exact and not stay and loads else cls.STREAMED
        if data.copied:
            return cls.COPIED
        return cls.BORROWED if exact and not kernel.is_precomputed else cls.SEEN


@dataclass(frozen=True)
class Budget:
    """Bytes that a fit may use: where its tiles live and, where that is elsewhere, in this process too."""

    there: int
    here: int | None = None  # None: tiles live in this process

    @classmethod
    def of(cls, memory: Memory, facts: Facts) -> Budget:
        """What `memory` says of the places of an engine."""
        place = facts.name if facts.elsewhere else HOST
        there = parse_bytes(memory, free=facts.free_bytes, place=place)
        if not facts.elsewhere:
            return cls(there)
        said = said_of(memory, HOST, beside=place)
        if facts.workers is None:
            return cls(there, parse_bytes(said))
        # A client has little but vectors: unless `memory` says otherwise they may take all that is free.
        free = facts.workers.here_bytes
        return cls(there, free if said == "auto" else min(free, parse_bytes(said)))

    @property
    def of_rows(self) -> int:
        """For rows that are read into this process."""
        return self.there if self.here is None else self.here


@dataclass(frozen=True)
class Problem:
    """What the choice depends on."""

    n: int
    d: int
    n_components: int | float | None
    itemsize: int = 8
    budget_bytes: int = 2**63
    n_threads: int = 1
    rows_bytes: int = 0  # what the model itself keeps of the rows
    from_source: bool = False  # rows are read from a source, slice by slice
    reading_bytes: int = 0  # what the source holds while it is read: a batch, a row group
    staging_bytes: int = 0  # what this process holds while it sends rows to a device
    dense: bool = True  # False: a sparse matrix
    d_held: int | None = None  # numbers that a row takes in memory; None: d
    map_dimension: int | None = None  # of the kernel's explicit map, where there is one
    shift_invariant: bool = False
    precomputed: bool = False
    linear: bool = False  # PCA itself: there is no kernel to approximate
    costly: bool = False  # a user's Python function: no entry is computed twice
    single: bool = True  # tiles may be float32: the engine has it, and it holds the kernel's values
    valid: bool = False  # positive semi-definite by construction: the spectrum has no negative part
    cache_bytes: int = CACHE_BYTES  # a tile of this size is made fastest
    locked: bool = True  # threads that make tiles wait for the interpreter's lock
    panel: int = 1  # tiles are so many rows wide, or some times that
    halves: int = 0  # half floats a number of which the engine makes products: none, one or two
    engine: str = "numpy"
    workers: int = 0  # that make tiles and read rows, where this process does not
    least: int = 0  # numbers from which they do
    devices: bool = False  # each worker makes its tiles on a device
    elsewhere: bool = False  # tiles live on a device or with workers: the budget is theirs
    here_bytes: int = 2**63  # memory of this process, which has the vectors then
    # What follows from these.
    k: int | None = field(init=False)  # components asked for, where that is a number
    is_share: bool = field(init=False)  # a share of the variance: k is found on the way
    on_device: bool = field(init=False)  # its budget it is; all else is this process's
    by_devices: bool = field(init=False)  # they make tiles, one at a time: ours, or each worker's
    # Entries are made in float64, whatever the rows are: where float32 can't hold them, where the engine has
    # none, and of few rows, which are not multiplied roughly and proved. The eigenvalues of a wide kernel are
    # far below its entries, and drown in their rounding.
    is_double: bool = field(init=False)

    def __post_init__(self) -> None:
        k = self.n_components if isinstance(self.n_components, int) else None
        on_device = self.elsewhere and not self.workers
        vars(self).update(
            k=k,
            is_share=k is None and self.n_components is not None,
            on_device=on_device,
            by_devices=on_device or self.devices,
            is_double=not self.precomputed and (self.n <= SMALL_ROWS or not self.single),
        )

    @classmethod
    def of(
        cls,
        data: TrainingData,
        kernel: Kernel,
        n_components: int | float | None,
        *,
        facts: Facts,
        budget: Budget | int,
        ownership: Ownership = Ownership.SEEN,
        forms_k: bool = True,
        linear: bool = False,
    ) -> Problem:
        """All that can change a choice; `forms_k` is False for an approximation, `linear` True for PCA."""
        streamed, workers = ownership is Ownership.STREAMED, facts.workers or Workers(0, 0)
        budget = Budget(budget) if isinstance(budget, int) else budget
        # Rows of batches that are not loaded are read once, for an explicit map: no entry of K is made.
        forms_k = forms_k and not linear and (not streamed or data.rows.random_access)
        # Little work stays here, where no half floats are multiplied; nor are sparse rows.
        cold = data.is_sparse or data.n**2 * data.d < workers.least
        return cls(
            n=data.n,
            d=data.d,
            n_components=n_components,
            itemsize=data.itemsize,
            budget_bytes=budget.there,
            n_threads=facts.lanes if kernel.parallel else 1,
            rows_bytes=0 if ownership in (Ownership.SEEN, Ownership.STREAMED) else data.n_bytes,
            from_source=streamed,
            reading_bytes=data.reading_bytes,
            staging_bytes=facts.staging(data.n * data.d * data.itemsize) if facts.staging else 0,
            dense=not data.is_sparse,
            d_held=None if kernel.tree().densifies else data.numbers_a_row,
            map_dimension=kernel.map_dimension(data.d),
            shift_invariant=kernel.shift_invariant and not data.is_sparse,
            precomputed=kernel.is_precomputed,
            linear=linear,
            costly=not kernel.parallel,
            single=FLOAT32 in facts.precisions and (not forms_k or fits_single(kernel, data.rows)),
            valid=kernel.why_valid() is not None,
            cache_bytes=facts.cache_bytes,
            locked=facts.locked,
            panel=facts.panel,
            halves=facts.halves(kernel) if facts.halves and forms_k and not cold else 0,
            engine=facts.name,
            workers=workers.count,
            least=workers.least,
            devices=workers.devices,
            elsewhere=budget.here is not None,
            here_bytes=workers.here_bytes if budget.here is None else budget.here,
        )

    @property
    def at_home(self) -> Problem:
        """The same for work that is the host's, whatever device there is: of its budget."""
        if not self.on_device:
            return self
        return replace(self, elsewhere=False, budget_bytes=self.here_bytes, here_bytes=2**63)

    @property
    def wide(self) -> Problem:
        return self if self.itemsize == DOUBLE else replace(self, itemsize=DOUBLE)

    @property
    def dtype(self) -> str:
        return f"float{8 * self.itemsize}"

    def sum_columns(self, columns: int) -> int:
        """Numbers a row that a product with so many columns sums up in float64, by all workers."""
        if self.by_devices:  # the sums, the right side and its rounded copy
            return 3 * columns * max(1, self.workers)
        # One array a thread; or, without a lock, two for all threads and the right side, all three padded to
        # whole vectors.
        own = columns * self.n_threads if self.locked else 3 * 16 * -(-columns // 16)
        return own * max(1, self.workers)


# ── probes of the kernel on a few rows ──────────────────────────────────────
@lru_cache(maxsize=16)
def spread_over(n: int, count: int) -> Indices:
    """Positions of so many rows, from the first to the last, or of all of them."""
    found = np.arange(n) if n <= count else np.linspace(0, n - 1, count).astype(np.intp)
    found.flags.writeable = False
    return found


def probe_rows(x: Rows) -> Rows:
    """A few rows, spread over all."""
    n = int(x.shape[0])
    whole = n <= PROBE_ROWS and isinstance(x, np.ndarray)
    return x if whole else take_rows(x, spread_over(n, PROBE_ROWS))


def fits_single(kernel: Kernel, x: Rows) -> bool:
    """Whether float32 holds the kernel's values, judged from some rows."""
    # Of few rows K is made in float64 anyway; values of a user's function and of a matrix are what they are.
    if int(x.shape[0]) <= SMALL_ROWS or kernel.is_precomputed or not kernel.parallel:
        return True
    few = probe_rows(x).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(np.max(np.abs(kernel.tile(few, few))))
    # Sums over a row have to fit too, and small values must not vanish beside the smallest float32.
    single = np.finfo(np.float32)
    return 1e6 * float(single.tiny) < largest < float(single.max) / (1e3 * int(x.shape[0]))
