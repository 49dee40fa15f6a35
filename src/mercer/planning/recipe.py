"""What a plan says: which problem is solved, and the recipe by which its operator is built.

A recipe is a value that prints itself and builds what it says: the plan is what ran, by construction.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from mercer._core.errors import many
from mercer._core.memory import ELSEWHERE, format_bytes, format_seconds
from mercer._core.types import Array, Rows
from mercer._core.wording import brief
from mercer.approximations import Approximation
from mercer.engine.base import Engine, Rounding, TileStore
from mercer.engine.tiles import PACKED, SINGLE, n_upper
from mercer.kernels.base import Kernel
from mercer.operators import Gram, StoredGram
from mercer.planning.problem import PROBE_ROWS, probe_rows
from mercer.solvers import Lapack, Solver

Route: TypeAlias = Literal["primal", "dual", "low-rank"]

HOST = NUMPY, COMPILED = "numpy", "native"  # engines of the machine that plans
# Entries this many times as large as their spread are shifted: with less, hardly a digit is gained.
WIDE_KERNEL = 16.0
LEAST_SHARE = 1 / 32  # of the tiles, to hold any: fewer save less time than runs differ by


# ── what stays of the tiles between products ────────────────────────────────
@dataclass(frozen=True)
class TileCache:
    """Tiles on or above the diagonal of K, and how many of them are kept between products."""

    n_tiles: int
    n_held: int
    tile_bytes: int  # of one, as it is held
    packed: bool = False  # in sixteen bits

    @property
    def n_bytes(self) -> int:
        return self.n_held * self.tile_bytes

    @property
    def share(self) -> float:
        return self.n_held / self.n_tiles if self.n_tiles else 0.0

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why K is not simply held."""
        if self.packed:
            return (
                "half of K does not fit in float32: its tiles are held in 16 bits, whose rounding is "
                "measured on rows in float64",
            )
        if self.share == 1.0:
            return ()
        wanted = format_bytes(self.n_tiles * self.tile_bytes)
        left = "for which there is no room: all"
        if self.n_held:
            left = f"and {format_bytes(self.n_bytes)} are left for it: the other"
        return (f"half of K would take {wanted}, {left} tiles are made anew for each product",)

    @classmethod
    def within(cls, free: int, n: int, width: int, itemsize: int) -> TileCache:
        """As many tiles of so many bytes an entry as fit in `free` bytes, or none where these are few."""
        n_tiles, size = n_upper(n, width), width * width * itemsize
        n_held = max(0, min(n_tiles, free // size))
        return cls(
            n_tiles, n_held if n_held >= LEAST_SHARE * n_tiles else 0, size, itemsize == PACKED
        )


# ── recipes ─────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Given:
    """K is the caller's own matrix."""

    dtype: str

    width = 0  # no tile is made
    share, packed, proof = 1.0, False, None

    def gram(self, engine: Engine[Any], kernel: Kernel, x: Rows, n_threads: int) -> StoredGram:  # noqa: ARG002
        return StoredGram(x, n_threads)


@dataclass(frozen=True)
class Whole:
    """K is made once, in tiles, and held as one matrix."""

    width: int
    dtype: str

    share, packed, proof = 1.0, False, None

    def gram(self, engine: Engine[Any], kernel: Kernel, x: Rows, n_threads: int) -> StoredGram:
        """The operator K, less what its entries have in common."""
        stored = Gram(engine, kernel, x, dtype=self.dtype, width=self.width).stored(n_threads)
        every = -(-stored.n // PROBE_ROWS)
        minus = _in_common(stored.matrix[::every, ::every])
        if minus:
            np.subtract(stored.matrix, minus, out=stored.matrix)
            stored.minus = minus
        return stored


@dataclass(frozen=True)
class Proof:
    """Float64 tiles that prove what was found with rounded ones."""

    width: int
    sliced: bool = False  # rows are made ready slice by slice, in each product again


@dataclass(frozen=True)
class Tiles:
    """K is never formed: products make its tiles, and keep as many of them as the cache has room for."""

    width: int
    dtype: str  # of the tiles that products use
    store: TileCache | None = None
    proof: Proof | None = None

    @property
    def share(self) -> float:
        return 0.0 if self.store is None else self.store.share

    @property
    def packed(self) -> bool:
        return self.store is not None and self.store.packed

    def gram(self, engine: Engine[Any], kernel: Kernel, x: Rows, n_threads: int) -> Gram:  # noqa: ARG002
        """The operator K, with a rough one that is cheaper where there is a proof."""
        kept = 0 if self.store is None else self.store.n_bytes
        if (proof := self.proof) is None:
            # A Python function is slow, and not called for this.
            store = TileStore(_constant(kernel, x) if kernel.parallel else 0.0, kept)
            return Gram(engine, kernel, x, store, dtype=self.dtype, width=self.width)
        minus = _mean(kernel, x)
        exact: dict[str, Any] = {"dtype": "float64", "width": proof.width, "sliced": proof.sliced}
        if self.share >= 1.0:
            store = TileStore(rounding=Rounding(self.packed, minus))
            return Gram(engine, kernel, x, store, **exact)
        store = TileStore(minus, kept)
        rough = Gram(engine, kernel, x, store, dtype=self.dtype, width=self.width)
        return Gram(engine, kernel, x, rough=rough, **exact)

    def text(self, n_threads: int, *, compiled: bool) -> str:
        kind = "tiles"
        if self.proof is not None:
            how = "checked" if self.share >= 1.0 else "proved"
            kind = f"{'16-bit' if self.packed else 'float32'} tiles, {how} in float64"
        threads = f", {n_threads} threads" if n_threads > 1 else ""
        where = f"{kind} ({self.width} wide{threads}{', compiled' if compiled else ''})"
        if self.share >= 1.0:
            return f"half of K held as {where}"
        if self.share > 0.0:
            return f"K in {where}, {self.share:.0%} of them held"
        return f"K in {where}, none stored"


@dataclass(frozen=True)
class Halved:
    """K is never formed, nor is a tile of it: a device multiplies by it in half floats.

    Rough products have one half float a number, and iterate. With two `parts` they are about as good as those
    of float32 and prove what was found, as rows in float64 check. Without such a form float64 tiles prove it.
    """

    width: int  # of float64 tiles
    parts: int

    dtype, share, packed = "float16", 0.0, False

    @property
    def proof(self) -> Proof:
        """The tiles that have the last word."""
        return Proof(self.width)

    def gram(self, engine: Engine[Any], kernel: Kernel, x: Rows, n_threads: int) -> Gram:  # noqa: ARG002
        """The operator K, less what its entries have in common, with a rough one of half floats."""
        minus = _mean(kernel, x)
        own: dict[str, Any] = {"dtype": "float64", "width": self.width}
        exact = Gram(engine, kernel, x, TileStore(minus), **own) if self.parts > 1 else None
        store = TileStore(minus, rounding=Rounding(halves=self.parts))
        return Gram(engine, kernel, x, store, exact=exact, **own)

    def text(self, _n_threads: int, *, compiled: bool) -> str:  # noqa: ARG002
        how = "checked by rows" if self.parts > 1 else f"proved by tiles ({self.width} wide)"
        return f"K in products of half floats, {how} in float64, none stored"


Recipe: TypeAlias = Given | Whole | Tiles | Halved


def _mean(kernel: Kernel, x: Rows) -> float:
    """The mean of K among a few rows: centring removes it, and what is left is rounded less."""
    few = probe_rows(x)
    return float(kernel.tile(few, few).mean())


def _constant(kernel: Kernel, x: Rows) -> float:
    """What the entries of K have in common, from those of a few rows."""
    few = probe_rows(x).astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):  # reported later, in words
        return _in_common(kernel.tile(few, few))


def _in_common(block: Array) -> float:
    """The mean of entries that hardly differ, as those of a wide kernel; else nothing."""
    # Entries within s of a mean of more than 16 s are more than 15 s in size, and s is at least half of
    # their range: mostly the first row is enough.
    first = block[0].tolist()
    low, high = min(first), max(first)
    if min(abs(low), abs(high)) <= 0.5 * (WIDE_KERNEL - 1.0) * (high - low):
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(block.sum(dtype=np.float64)) / block.size
        spread = max(float(block.max()) - mean, mean - float(block.min()))
    return mean if WIDE_KERNEL * spread < abs(mean) < np.inf else 0.0


# ── the plan ────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Plan:
    """Which problem is solved, how, in how many bytes, and why."""

    route: Route
    solver: Solver
    recipe: Recipe | None  # of K; None where it is never formed, not even a tile at a time
    n_bytes: int
    reasons: tuple[str, ...] = field(default=())
    n_threads: int = 1  # that make tiles or read blocks of rows, at most
    engine: str = NUMPY
    # A share of the variance may need more components than Krylov pays for, or than memory holds.
    lapack_fits: bool = field(default=True, repr=False)
    most_components: int = field(default=2**63, repr=False)
    approximation: Approximation | None = None
    # What a calibration adds (`mercer.planning.forecast`).
    n_products: int | None = None
    seconds: float | None = None
    # What follows the fit: the pre-image as one would write it, its bytes and those that the fit
    # keeps, its seconds. `n_bytes` and `seconds` are those of both.
    preimage: str | None = None
    preimage_bytes: int = 0
    preimage_seconds: float | None = None
    host_bytes: int = 0  # where `n_bytes` are those of a device: what this process holds beside it

    def because(self, *reasons: str) -> Plan:
        """The plan with more reasons."""
        return replace(self, reasons=(*self.reasons, *reasons))

    def __str__(self) -> str:
        how = brief(self.solver if self.approximation is None else self.approximation)
        # Of the host's engines the text says what differs: compiled tiles, or why there are none.
        where = "" if self.engine in HOST else f" by {self.engine}"
        matrix = f"{self._matrix_text()}{where}"
        size = format_bytes(self.n_bytes)
        if self.host_bytes:
            size += f" there and {format_bytes(self.host_bytes)} on the host"
        lines = [f"{self.route} route, {how}, {matrix}, at most {size}"]
        if self.n_products is not None and self.seconds is not None:
            work = many(self.n_products, "product")
            if self.route != "dual":
                work = f"{self.n_products} pass{'es' * (self.n_products != 1)} over the rows"
            lines.append(f"  about {work}, {format_seconds(self.seconds)} expected")
        if self.preimage is not None:
            size = format_bytes(self.preimage_bytes)
            text = f"  then the pre-image, {brief(self.preimage)}: at most {size}"
            if self.preimage_seconds is not None:
                text += f", {format_seconds(self.preimage_seconds)} of these expected"
            lines.append(text)
        return "\n".join([*lines, *(f"  - {reason}" for reason in self.reasons)])

    def _matrix_text(self) -> str:
        if self.route == "primal":
            return "explicit map"
        if self.recipe is None:
            return "K never formed"
        if not isinstance(self.recipe, Tiles | Halved):
            return "K as given" if isinstance(self.recipe, Given) else "K stored"
        if isinstance(self.solver, Lapack):
            return "K formed once"
        # Those of workers are in their own reason; a device has none.
        there = self.host_bytes > 0 or self.engine.partition(":")[0] in ELSEWHERE
        return self.recipe.text(1 if there else self.n_threads, compiled=self.engine == COMPILED)


def plan_of_flags(
    *,
    storage: str,
    width: int,
    sketch: bool,
    double: bool,
    hold_bytes: int,
    held: float,
    packed: bool,
    sliced: bool,
    n_threads: int = 1,
    **others: Any,
) -> Plan:
    """A plan from the flags that described its operator before there were recipes: of earlier model files."""
    recipe: Recipe | None = None
    if others["route"] == "dual":
        dtype = "float32" if sketch and not double else "float64"
        entry = PACKED if packed else SINGLE if dtype == "float32" else 8
        size = max(1, width * width * entry)
        n_held = max(0, hold_bytes) // size
        n_tiles = round(min(n_held / held, 2**53)) if held > 0 else 0
        store = TileCache(n_tiles, n_held, size, packed) if n_tiles else None
        proof = Proof(width, sliced) if sketch else None
        recipe = Whole(width, dtype) if storage == "full" else Tiles(width, dtype, store, proof)
    return Plan(recipe=recipe, n_threads=max(1, n_threads), **others)
