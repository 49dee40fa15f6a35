"""What one line is about: points, who fits them, and how."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

# As little memory as the exact route runs in: no tile is kept from one product to the next.
NOTHING_HELD = "nothing held"


@dataclass(frozen=True)
class Case:
    """n points of a data set in d features, k components of the RBF kernel."""

    dataset: str
    n: int
    d: int
    k: int
    dtype: str = "float32"

    kernel: ClassVar[str] = "rbf"

    @property
    def name(self) -> str:
        return f"{self.dataset} n={self.n} d={self.d} k={self.k} {self.dtype}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Options:
    """What may differ between two lines of a case; what does not apply to an entrant is not looked at."""

    memory: str | int = "auto"
    rank: int | None = None  # of an approximation
    seed: int = 0
    forecast: bool = False  # ask for the plan first: how long, and in how many bytes?
    ranks: tuple[int, ...] = ()  # of the errors that are compared
    n_seeds: int = 1

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Job:
    """One measurement, for a process of its own."""

    case: Case
    who: str
    task: str = "fit"
    options: Options = field(default_factory=Options)
    limited: bool = False  # skipped when a smaller n says: too long, or too much memory

    @property
    def name(self) -> str:
        """The case, and what tells this line from another of the same entrant."""
        memory = "" if self.options.memory == "auto" else f" memory={self.options.memory}"
        rank = "" if self.options.rank is None else f" rank={self.options.rank}"
        return f"{self.case.name}{memory}{rank}"


@dataclass(frozen=True)
class Setting:
    """What the run was asked for on the command line."""

    quick: bool = False
    folder: str | None = None  # with the real data
    limit: float = 300.0
    repeat: int = 3
    memory_bytes: int = 2**63  # of the machine
