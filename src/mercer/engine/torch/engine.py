"""The engine of a device: rows are sent there once, tiles are made and multiplied there, vectors come back.

Passes over rows whose steps are code of the host are the host's, but for the kinds of `steps`. So is what the
device can't do: values beyond the range of its arithmetic, which NumPy knows how to reach or to refuse in
words, and float64 where it has none. Kernels without a formula are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self, TypeVar, Unpack, cast

import numpy as np

from mercer._core.errors import EngineWarning, InputError
from mercer._core.findings import warn
from mercer._core.observer import SILENT
from mercer._core.types import Array, Rows
from mercer.data.frames import need
from mercer.data.rows import row_blocks, row_slices
from mercer.engine.base import (
    FLOAT32,
    FLOAT64,
    Engine,
    Facts,
    FoldOptions,
    MapOptions,
    RowStep,
    S,
    Step,
    TileKernel,
)
from mercer.engine.halves import CROSS_ROWS, is_cross_worthwhile
from mercer.engine.native.engine import out_of_range, program_of, why_not
from mercer.engine.numpy import HostCutting, HostRows, NumpyEngine
from mercer.engine.resolve import AUTO, host_engine, resolve_engine
from mercer.engine.threads import lanes, n_blas_threads
from mercer.engine.tiles import WHOLE
from mercer.engine.torch.evaluate import values
from mercer.engine.torch.fused import fused_product, halves_for, is_fused, sections_times
from mercer.engine.torch.place import IEEE_PRODUCTS, LEAST, Place, out_of_memory, reason_of
from mercer.engine.torch.rows import TorchRows
from mercer.engine.torch.sending import staging_bytes
from mercer.engine.torch.source import why_not_sections
from mercer.engine.torch.steps import folded, mapped
from mercer.engine.torch.tiles import matrix, symmetric_times
from mercer.engine.torch.tuned import Choices, is_asked
from mercer.engine.torch.vectors import DeviceVectors, like

T = TypeVar("T")


@dataclass(frozen=True)
class TorchEngine(Engine[TorchRows]):
    """Tiles by torch, on one device.

    Parameters
    ----------
    device : str, default="cuda"
        ``"cuda"``, ``"cuda:1"``, ``"mps"``, or ``"torch:cpu"`` for trials without a device.
    fused : bool, optional
        Whether iterations are made of products of half floats, K @ V without K in one Triton kernel, for
        kernels that have such a form; by default on NVIDIA GPUs, if Triton is installed.
    tune : bool, optional
        Whether long products of half floats try several blocks first, where nothing is known of such a pass
        on this device, and the fastest are remembered in the user's cache folder; by default where the
        environment has ``MERCER_TUNE=on``. It takes some ten seconds a pass, once, and changes last bits.
    """

    device: str = "cuda"
    fused: bool | None = None
    tune: bool | None = None

    def __post_init__(self) -> None:
        _ = self.place  # raises where there is none
        if self.fused:
            need("triton", extra="gpu")

    @cached_property
    def place(self) -> Place:
        return Place.named(self.device)

    @cached_property
    def choices(self) -> Choices:
        """How passes of half floats are cut, here and for as long as there is this engine."""
        return Choices(tune=is_asked(self.tune))

    @cached_property
    def here(self) -> NumpyEngine:
        return host_engine()

    def __getstate__(self) -> dict[str, Any]:
        # The device itself is looked for where it is unpickled.
        return {"device": self.device, "fused": self.fused, "tune": self.tune}

    @property
    def tile_bytes(self) -> int:
        """The size of a tile, far larger than a processor's: launches take the time, not numbers."""
        return self.place.width(FLOAT64) ** 2 * 8

    def facts(self) -> Facts:
        """The device's memory and tiles; its lanes are threads of the host, for passes over rows."""
        with lanes(0):  # not the width that a forecast times: no tile is made on them
            wide = n_blas_threads()
        own = self.place.name, wide, self.place.free_bytes, why_not, self.tile_bytes
        staging = staging_bytes if self.place.kind == "cuda" else None
        elsewhere = self.place.kind != "cpu"
        halves = halves_for if self._fuses else None
        return Facts(*own, halves=halves, staging=staging, elsewhere=elsewhere)

    @property
    def _fuses(self) -> bool:
        return self.place.has_tensor_cores if self.fused is None else self.fused

    def why_not_rows(self, kernel: TileKernel, x: Rows) -> str | None:
        """Why the host computes on these rows, in words; None where the device does."""
        return why_not_rows(kernel, x, self.place.name)

    def load(
        self, x: Rows, kernel: TileKernel, dtype: Any, **cutting: Unpack[HostCutting]
    ) -> TorchRows:
        """The rows; they are sent when a product needs them, once if there is room on the device."""
        program = program_of(kernel)
        if isinstance(program, str):
            msg = f"engine={self.place.name!r} can't run {kernel!r}: {program}. Use engine='numpy'."
            raise InputError(msg)
        rows = TorchRows(x, dtype, program, self.place, **cutting)
        beyond = rows.dtype == FLOAT64 and not self.place.has_double
        rows.on_host = beyond or self.why_not_rows(kernel, x) is not None
        return rows

    # ── products ────────────────────────────────────────────────────────────
    def placed(self, x: TorchRows, v: Array) -> Array:
        """The vectors on the device, in whose memory a plan counts them; on the host where that computes."""
        if x.on_host or x.part != WHOLE or not self.place.has_double:
            return v
        return cast("Array", DeviceVectors(self.place.tensor(v, FLOAT64), self.place))

    def times(self, kernel: TileKernel, x: TorchRows, z: TorchRows, v: Array) -> Array:
        """k(X, Z) @ V: slices of X meet all of Z, which stays on the device where it fits."""
        if not (x.on_host or z.on_host) and x.dtype == z.dtype:
            if self._is_of_sections(x, z, v):
                product = self._sections_times(kernel, x, z, v)
            else:
                rough = x.store.halves and z.store.halves
                found = self._fused(x, v, precise=False, z=z) if rough else None
                product = self._tiles_times(x, z, v) if found is None else found
            if np.isfinite(product).all():
                return like(product, v)
        rows, points = self._here(kernel, x), self._here(kernel, z)
        return like(self.here.times(kernel, rows, points, np.asarray(v)), v)

    def _is_of_sections(self, x: TorchRows, z: TorchRows, v: Array) -> bool:
        """Whether this is a long product of new rows with a model's points, which no fit has planned."""
        return (
            self._fuses
            and x.dtype == FLOAT32
            and x.width is None
            and z.width is None
            and isinstance(v, np.ndarray)
            and not z.plain
            and is_cross_worthwhile(x.n, z.n, x.d, v.shape[1])
            and why_not_sections(z.program) is None
        )

    def _sections_times(
        self, kernel: TileKernel, x: TorchRows, z: TorchRows, v: Array
    ) -> Array:  # (n, k)
        """A product by half floats, a slice of the rows at a time; by tiles where these keep more digits."""
        product = np.empty((x.n, v.shape[1]), dtype=np.result_type(x.dtype, v.dtype))
        for i, rows in row_blocks(x.rows, CROSS_ROWS):
            work = partial(sections_times, rows, z, v, choices=self.choices)
            found = None if z.plain else self._of_halves(z, work)
            if found is None:
                found = self._tiles_times(self.load(rows, kernel, x.dtype), z, v)
            product[i] = found
        return product

    def _tiles_times(self, x: TorchRows, z: TorchRows, v: Array) -> Array:
        return self._within_memory(z, lambda: self._times(x, z, v))

    def _times(self, x: TorchRows, z: TorchRows, v: Array) -> Array:
        # Rows that stay have an origin of their own; those that meet them join.
        stays = z.width is None and x.width is not None
        z = z.about(x.origin) if stays else z
        z.settle()
        if stays:
            x.settle()
        width = z.narrowed or self.place.width(x.dtype, x.program.depth)
        right = self.place.tensor(v, x.dtype)
        product = np.empty((x.n, v.shape[1]), dtype=np.result_type(x.dtype, v.dtype))
        if stays:
            sides = ((i, x.side(i)) for i in row_slices(x.n, width))
        else:
            sides = ((i, side) for i, _, side in z.sent_blocks(x.rows, width))
        for i, side in sides:
            sums = self.place.zeros((side.n, v.shape[1]), self.place.sums)
            for j in row_slices(z.n, width):
                sums += values(x.program, side, z.side(j)) @ right[j]
            product[i] = sums.cpu().numpy()
        x.forget()
        z.forget()
        return product

    def gram_times(
        self, kernel: TileKernel, x: TorchRows, v: Array, *, rough: bool = False
    ) -> Array:
        rounded = rough and not x.store.halves
        if not x.on_host:
            product = self._fused(x, v, precise=not rough)
            if product is None:
                product = self._within_memory(x, lambda: symmetric_times(x, v, rough=rounded))
            # The host's tiles are others: where there are parts, all of them have to be the host's.
            if x.part != WHOLE or np.isfinite(product).all():
                return product
            self._give_up(x)
        here = self._here(kernel, x)
        return like(self.here.gram_times(kernel, here, np.asarray(v), rough=rounded), v)

    def gram(self, kernel: TileKernel, x: TorchRows) -> Array:
        if not x.on_host:
            found = self._within_memory(x, lambda: matrix(x))
            if np.isfinite(found).all():
                return found
            self._give_up(x)
        return self.here.gram(kernel, self._here(kernel, x))

    def tile(self, kernel: TileKernel, x: Rows, z: Rows) -> Array:
        rows, points = (self.load(each, kernel, x.dtype) for each in (x, z))
        if not (rows.on_host or points.on_host):
            side_of, program = points.side_of, points.program
            found = self.tried(lambda: values(program, side_of(x), side_of(z)).cpu().numpy())
            if found is not None and np.isfinite(found).all():
                return found
        return self.here.tile(kernel, x, z)

    # ── passes ──────────────────────────────────────────────────────────────
    def fold(self, x: Rows | TorchRows, step: Step[S], **options: Unpack[FoldOptions]) -> S:
        """Steps whose kind is known on the device; all others are the host's."""
        rows = x.rows if isinstance(x, TorchRows) else x
        found = folded(self, rows, step, options.get("observer", SILENT))
        if found is not None:
            return cast("S", found)
        return self.here.fold(rows, step, **options)

    def map(
        self,
        x: Rows | TorchRows,
        step: RowStep,
        *beside: Array | None,
        **options: Unpack[MapOptions],
    ) -> Array:
        """Steps whose kind is known on the device; all others by the host, whose code they are."""
        if isinstance(x, TorchRows):
            options["dtype"] = options.get("dtype") or x.dtype
            x = x.rows
        dtype = np.dtype(options.get("dtype") or x.dtype)
        found = mapped(self, x, step, *beside, dtype=dtype)
        if found is not None:
            return found
        return self.here.map(x, step, *beside, **options)

    # ── what the device can't do ────────────────────────────────────────────
    def _fused(
        self, x: TorchRows, v: Array, *, precise: bool, z: TorchRows | None = None
    ) -> Array | None:
        """A product of half floats; None where tiles are multiplied instead."""
        if x.plain or x.part != WHOLE or not is_fused(x, precise=precise):
            return None
        work = partial(fused_product, x, v, z, precise=precise, choices=self.choices)
        return self._of_halves(x, work)

    def _of_halves(self, x: TorchRows, work: Callable[[], Array | None]) -> Array | None:
        """The product, if there is one; where it fails, tiles make those of these rows from then on."""
        found = self.halved(work)
        if not isinstance(found, str):
            return found
        x.plain, x.halves = True, None
        msg = f"{self.place.name} makes no products of half floats here, but slower tiles instead: {found}."
        warn(msg, EngineWarning)
        return None

    def halved(self, work: Callable[[], Array | None]) -> Array | str | None:
        """What `work` makes of half floats, or why it can't: Triton may find no compiler, or no room."""
        try:
            done = self.tried(lambda: (work(),))
            sound = done is None or done[0] is None or np.isfinite(done[0]).all()
        except Exception as error:
            return f"{type(error).__name__}: {reason_of(error)}"
        if done is None:
            return "there is not enough memory"
        return done[0] if sound else "their values overflow"

    def _give_up(self, x: TorchRows) -> None:
        """Values are out of range: from now on products with k(X, X) are the host's."""
        x.on_host, x.kept, x.halves = True, None, None

    def _here(self, kernel: TileKernel, x: TorchRows) -> HostRows:
        if x.here is None:
            own: dict[str, Any] = {"width": x.width, "sliced": x.sliced, "store": x.store.of_tiles}
            x.here = self.here.load(x.rows, kernel, x.dtype, part=x.part, **own)
        return x.here

    def tried(self, work: Callable[[], T]) -> T | None:
        """The result; None where the device has less memory than it said, and the caller needs a fallback."""
        try:
            with IEEE_PRODUCTS:
                return work()
        except Exception as error:
            if not out_of_memory(error):
                raise
        self.place.let_go()
        return None

    def _within_memory(self, x: TorchRows, work: Callable[[], T]) -> T:
        """The result, with narrower tiles and nothing kept where the device has less memory than it said."""
        while (found := self.tried(work)) is None:
            held = x.width if x.kept is None else x.kept.width
            usual = x.narrowed or held or self.place.width(x.dtype)
            # A part of narrower tiles would not be the rest of the other parts.
            if usual <= LEAST or x.part != WHOLE:
                raise self.place.too_little(usual)
            x.narrow(max(LEAST, usual // 2))
        return found


def why_not_rows(kernel: TileKernel, x: Rows, name: str) -> str | None:
    """Why tiles of the device of this name can't be made of these rows, in words, or None."""
    program = program_of(kernel)
    numbers = getattr(x, "data", None) if hasattr(x, "nnz") else x
    if isinstance(program, str) or not isinstance(numbers, np.ndarray):
        return None  # not looked at
    why = out_of_range(numbers, program, f"tiles of {name}")
    return why if why is None or numbers.any() else None  # zeros lose nothing


@dataclass(frozen=True)
class ChosenEngine(TorchEngine):
    """A device that "auto" has chosen: what is pickled with it is computed by "auto" where it is read."""

    def let_go(self) -> None:
        """Give back what a trial has left on the device, where the fit goes on without it."""
        with suppress(Exception):  # a device that has failed a trial fails here too
            self.place.let_go()

    def __reduce__(self) -> tuple[Any, ...]:
        return resolve_engine, (AUTO,)

    def __deepcopy__(self, memo: Any) -> Self:
        return self
