"""What a plan depends on, and what it says: two frozen, printable values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from mercer._core.memory import format_bytes, format_seconds

if TYPE_CHECKING:
    from mercer.approximations import Approximation
    from mercer.solvers import Solver

Route: TypeAlias = Literal["primal", "dual", "low-rank"]
# How K is held: not at all (LAPACK overwrites it, a map replaces it), whole, or in tiles, of which as
# many are held as memory allows.
Storage: TypeAlias = Literal["none", "full", "tiles"]


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
    in_memory: bool = True  # whether the dual side has its rows in memory, from a source or not
    dense: bool = True  # False: a sparse matrix
    numbers_a_row: int | None = None  # that a row takes in memory; None: d
    map_dimension: int | None = None  # of the kernel's explicit map, where there is one
    shift_invariant: bool = False
    precomputed: bool = False
    linear: bool = False  # PCA itself: there is no kernel to approximate
    costly: bool = False  # a user's Python function: no entry is computed twice
    fits_single: bool = True  # float32 holds the kernel's values on these rows

    @property
    def d_held(self) -> int:
        """Numbers that a row takes in memory."""
        return self.d if self.numbers_a_row is None else self.numbers_a_row

    @property
    def k(self) -> int | None:
        """Components asked for, where that is a number."""
        return self.n_components if isinstance(self.n_components, int) else None

    @property
    def is_share(self) -> bool:
        """Whether a share of the variance was asked for: the number of components is found on the way."""
        return self.n_components is not None and self.k is None


@dataclass(frozen=True)
class Plan:
    """Which problem is solved, how, in how many bytes, and why."""

    route: Route
    solver: Solver
    storage: Storage
    n_bytes: int
    reasons: tuple[str, ...] = field(default=())
    # A share of the variance may need more components than Krylov pays for, or than memory holds.
    lapack_fits: bool = True
    most_components: int = 2**63
    # Of the tile loop: precision of its tiles, whether products iterate on float32 tiles that float64
    # ones prove, and the bytes of tiles that are kept between products.
    width: int = 0
    sketch: bool = False
    double: bool = False  # entries in float64, though the rows are float32
    hold_bytes: int = 0
    held: float = 0.0  # the share of all tiles that hold_bytes are
    packed: bool = False  # tiles are held in sixteen bits
    sliced: bool = False  # the proof makes its rows ready slice by slice
    n_threads: int = 0  # that make tiles; 0: not decided here
    approximation: Approximation | None = None
    # What a calibration adds (`mercer.planning.forecast`).
    n_products: int | None = None
    seconds: float | None = None
    # What follows the fit: the pre-image as one would write it, its bytes and those that the fit
    # keeps, its seconds. `n_bytes` and `seconds` are those of both.
    preimage: str | None = None
    preimage_bytes: int = 0
    preimage_seconds: float | None = None

    def __str__(self) -> str:
        how = repr(self.solver if self.approximation is None else self.approximation)
        lines = [
            f"{self.route} route, {how}, {self._held_text()}, at most {format_bytes(self.n_bytes)}"
        ]
        if self.n_products is not None and self.seconds is not None:
            many = self.n_products != 1
            what = f"product{'s' if many else ''}"
            if self.route != "dual":
                what = f"pass{'es' if many else ''} over the rows"
            lines.append(
                f"  about {self.n_products} {what}, {format_seconds(self.seconds)} expected"
            )
        if self.preimage is not None:
            text = f"  then the pre-image, {self.preimage}: at most {format_bytes(self.preimage_bytes)}"
            if self.preimage_seconds is not None:
                text += f", {format_seconds(self.preimage_seconds)} of these expected"
            lines.append(text)
        return "\n".join([*lines, *(f"  - {reason}" for reason in self.reasons)])

    def _threads_text(self) -> str:
        return f", {self.n_threads} threads" if self.n_threads > 1 else ""

    def _held_text(self) -> str:
        if self.route != "dual":
            return "explicit map" if self.route == "primal" else "K never formed"
        if self.storage != "tiles":
            return "K stored" if self.storage == "full" else "K formed once"
        kind = "tiles"
        if self.sketch:
            how = "checked" if self.held >= 1.0 else "proved"
            kind = f"{'16-bit' if self.packed else 'float32'} tiles, {how} in float64"
        where = f"{kind} ({self.width} wide{self._threads_text()})"
        if self.held >= 1.0:
            return f"half of K held as {where}"
        if self.held > 0.0:
            return f"K in {where}, {self.held:.0%} of them held"
        return f"K in {where}, none stored"
