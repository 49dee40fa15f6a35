"""Blocks of a fused pass: a table, and faster ones that trials found on a device, in the user's cache folder.

The table was measured on an H200; on another device other blocks may be some tenths faster. A trial compiles
each candidate, which takes ten seconds or more, longer than most fits: it runs only where it is asked for,
once for a class of passes, on a slice of a long product.

Blocks decide the order of sums, and so the last bits of a product. A choice by the clock must not come
between two fits of the same rows unasked: bits are those of a device *and* of what is stored for it. Short
products always have the blocks of the table, and a class is decided before its first long product.

One file holds the choice for one class. Writers replace it whole, and need not know of each other.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, replace
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from mercer._core.atomic import written_whole
from mercer.engine.halves import COLUMNS, PAD

if TYPE_CHECKING:
    from torch import Tensor

    from mercer.engine.torch.fused import Launch

LONG_ROWS = 256  # numbers a row
ASKED = "MERCER_TUNE"  # in the environment: "on"
FORMAT = 1  # of the files
FILE_BYTES = 4096  # a longer one is not ours
# A trial is a product of so many rows with as many: some milliseconds, and some blocks for every processor.
TRIAL_ROWS = 2**15
LONG_PAIRS = 16 * TRIAL_ROWS**2  # of rows of X and Z in a product that is worth a trial
TRIALS = 6  # blocks that are tried: the table's, and some of their neighbours
REPEATS = 3  # the median counts
BETTER = 0.95  # of the table's time, at most: less is noise
WARPS, STAGES = (4, 8), (1, 5)


@dataclass(frozen=True)
class Blocks:
    """How the pass is cut: rows of X, of Z and columns at a time; warps and stages of a pipeline."""

    BM: int = 128
    BN: int = 128
    BK: int = 64
    num_warps: int = 8
    num_stages: int = 3

    @classmethod
    def usual(cls, d: int, *, precise: bool = False) -> Blocks:
        """The fastest on an H200, by the length of rows; precise products hold twice the accumulators."""
        bk = max(16, min(64, 1 << (d - 1).bit_length()))
        if d < LONG_ROWS:
            return cls(BN=64, BK=bk) if precise else cls(BK=bk)
        return cls() if precise else cls(BN=256)

    @classmethod
    def mirrored(cls, columns: int, *, precise: bool = False) -> Blocks:
        """The blocks where each tile is used twice: a copy of it lies in shared memory, beside V."""
        if precise:
            return MIRRORED_PRECISE[min(columns, COLUMNS)]
        return cls(BN=256) if columns < COLUMNS else cls()

    @property
    def smaller(self) -> tuple[Blocks, ...]:
        """These, and others for devices with less shared memory, one after the other."""
        least = replace(self, BN=64, num_stages=2)
        return self, replace(self, BN=min(self.BN, 128), num_stages=2), least, replace(least, BM=64)

    def suits(self, d: int) -> bool:
        """Whether a pass over rows of d numbers, padded, can be cut so."""
        sides = self.BM, self.BN, self.BK
        return (
            all(type(each) is int for each in astuple(self))
            and all(16 <= side <= PAD and side & (side - 1) == 0 for side in sides)
            and d % self.BK == 0
            and self.num_warps in WARPS
            and STAGES[0] <= self.num_stages <= STAGES[1]
        )


FIELDS = set(Blocks.__dataclass_fields__)
MIRRORED_PRECISE = {
    **dict.fromkeys((16, 32), Blocks(BK=32, num_stages=4)),
    64: Blocks(num_stages=2),
    COLUMNS: Blocks(BN=64, BK=32),
}


# ── which passes ────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class PassClass:
    """Passes for which the same blocks are taken to be fastest."""

    device: str  # and its compute capability
    versions: str  # of torch and Triton, which compiles
    text: str  # of the pass
    d: int  # numbers a row, padded
    columns: int  # of V, padded
    precise: bool
    mirrored: bool
    alike: bool  # one scale for all rows

    @property
    def key(self) -> str:
        """The class in words. Widths of a kernel cost no time: the text is without its numbers."""
        without = re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "#", self.text)
        digest = hashlib.sha256(without.encode()).hexdigest()[:16]
        kind = "precise" if self.precise else "rough"
        sides = "both sides" if self.mirrored else "one side"
        scales = "one scale" if self.alike else "own scales"
        numbers = 1 << (self.d - 1).bit_length()  # the next power of two
        what = f"{kind}, {sides}, {scales}, rows of {numbers}, {self.columns} columns"
        return f"{self.device}, {self.versions}, {what}, pass {digest}"


def is_long(n: int, m: int) -> bool:
    """Whether a product of n rows with m is worth a trial, and as a trial is.

    >>> is_long(131_072, 131_072), is_long(2**24, 1000), is_long(50_000, 50_000)
    (True, False, False)
    """
    return min(n, m) >= TRIAL_ROWS and n * m >= LONG_PAIRS


# ── which blocks ────────────────────────────────────────────────────────────
def candidates(usual: Blocks, d: int) -> tuple[Blocks, ...]:
    """The table's, first, and neighbours that a pass over rows of d numbers can be cut by."""
    other = WARPS[0] if usual.num_warps == WARPS[1] else WARPS[1]
    near = (
        usual,
        replace(usual, BN=usual.BN // 2),
        replace(usual, BN=usual.BN * 2),
        replace(usual, num_stages=usual.num_stages - 1),
        replace(usual, BN=64, num_warps=other),
        replace(usual, num_stages=usual.num_stages + 1),
        replace(usual, BK=usual.BK // 2),
    )
    return tuple(dict.fromkeys(cut for cut in near if cut.suits(d)))[:TRIALS]


def fastest(usual: Blocks, d: int, seconds_of: Callable[[Blocks], float | None]) -> Blocks | None:
    """The fastest in a trial, if it is faster than the table's beyond noise; None where no trial succeeds.

    Blocks for which `seconds_of` gives None or raises are out: a reason that holds for all of them is raised
    by the product itself. Where the device has no room for the table's, smaller ones are tried as well.
    """
    took: dict[Blocks, float] = {}

    def tried(cuts: Iterable[Blocks]) -> None:
        for cut in cuts:
            with suppress(Exception):
                seconds = seconds_of(cut)
                if seconds is not None and math.isfinite(seconds):
                    took[cut] = seconds

    near = candidates(usual, d)
    tried(near)
    if usual not in took:
        tried(cut for cut in usual.smaller if cut not in near)
    if not took:
        return None
    best = min(took, key=took.__getitem__)  # of equal ones the first
    return best if took[best] <= BETTER * took.get(usual, math.inf) else usual


class Choices:
    """The blocks of an engine's passes: for each class decided once, so that a fit has one choice throughout.

    ``tune``: long products for which nothing is stored in the folder, by default `cache_folder`, try several.
    """

    def __init__(self, *, tune: bool, folder: Path | None = None) -> None:
        self.tune, self.folder = tune, cache_folder() if folder is None else folder
        self._decided: dict[str, Blocks | None] = {}
        self._lock = threading.Lock()  # a model may transform on several threads

    def blocks(
        self, own: PassClass, usual: Blocks, seconds_of: Callable[[Blocks], float | None]
    ) -> Blocks:
        key = own.key
        with self._lock:
            if key not in self._decided:
                found = read(self.folder, key)
                if found is None and self.tune:
                    found = fastest(usual, own.d, seconds_of)
                    if found is not None:
                        write(self.folder, key, found)
                self._decided[key] = found
            decided = self._decided[key]
        # A class has rows of several lengths, and not all of them can be cut by the same blocks.
        return decided if decided is not None and decided.suits(own.d) else usual


def is_asked(wanted: bool | None) -> bool:
    """Whether trials are wanted: as said or, where nothing is, as the environment has it.

    >>> is_asked(True), is_asked(False)
    (True, False)
    """
    if wanted is not None:
        return wanted
    return os.environ.get(ASKED, "").strip().lower() in ("on", "1", "true", "yes")


# ── where they are stored ───────────────────────────────────────────────────
def cache_folder() -> Path | None:
    """The folder of mercer in the user's cache; None where the user has no home."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):  # the standard ignores others
        return Path(given) / "mercer"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "mercer"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", "")
        return (Path(local) if local else home / "AppData" / "Local") / "mercer" / "Cache"
    return home / ".cache" / "mercer"


def path_of(folder: Path, key: str) -> Path:
    """The file of a class."""
    return folder / "blocks" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def read(folder: Path | None, key: str) -> Blocks | None:
    """The blocks stored for a class; None where the file is missing, spoilt or of another format."""
    if folder is None:
        return None
    try:
        with path_of(folder, key).open("rb") as file:
            found = json.loads(file.read(FILE_BYTES))
        if (found["format"], found["for"], set(found["blocks"])) != (FORMAT, key, FIELDS):
            return None
        cut = Blocks(**found["blocks"])
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
    return cut if cut.suits(PAD) else None


def write(folder: Path | None, key: str, cut: Blocks) -> None:
    """Replace what is stored for a class, where the folder can be written."""
    if folder is None:
        return
    path = path_of(folder, key)
    text = json.dumps({"format": FORMAT, "for": key, "blocks": asdict(cut)}, indent=1)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as file:  # a reader sees the old one or the new one
            file.write(text.encode())


# ── a slice of a product, timed on the device ───────────────────────────────
# Products by other blocks differ by the order of their sums, and by nothing else: of the largest, far less
# than this, unless what was compiled is wrong.
AGREES = {False: 2.0**-6, True: 2.0**-16}


def compiled_for(there: Tensor) -> tuple[str, str]:
    """The device of a tensor, and who compiles for it, in words."""
    import torch

    triton = getattr(import_module("triton"), "__version__", "of no version")
    versions = f"torch {torch.__version__}, triton {triton}"
    if there.device.type != "cuda":
        return str(there.device), versions
    major, minor = torch.cuda.get_device_capability(there.device)
    return f"{torch.cuda.get_device_name(there.device)} ({major}.{minor})", versions


def trials_of(launch: Launch) -> Callable[[Blocks], float | None]:
    """Seconds that a slice of a product takes with some blocks; None where these are not to be trusted."""
    x = launch.x.first(TRIAL_ROWS)
    some = replace(launch, x=x, z=x if launch.z is launch.x else launch.z.first(TRIAL_ROWS))
    first: list[Tensor] = []  # the product by the first blocks

    def seconds_of(cut: Blocks) -> float | None:
        found = some(cut)  # compiles
        if not first:
            first.append(found)
        off, most = (found - first[0]).abs().max(), first[0].abs().max()
        if not bool(off <= AGREES[launch.precise] * most):
            return None
        took = []
        for _ in range(REPEATS):
            _wait_for(found)
            started = time.perf_counter()
            again = some(cut)
            _wait_for(again)
            took.append(time.perf_counter() - started)
            if not again.equal(found):  # the order of its sums is not fixed
                return None
        return median(took)

    return seconds_of


def _wait_for(there: Tensor) -> None:
    import torch

    if there.device.type == "cuda":
        torch.cuda.synchronize(there.device)
