"""What learning a pre-image costs, before it is learned: bytes and steps by arithmetic, seconds by timing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mercer.data.rows import take_rows
from mercer.engine.passes import SLICE_BYTES
from mercer.planning.bytes import FLOAT, SMALL
from mercer.planning.forecast import least_seconds

if TYPE_CHECKING:
    from mercer._core.types import Rows
    from mercer.kernels.base import Kernel

CALLS = 3e-3  # seconds that the calls take, whatever the rows
TIMED_ROWS, SIZE = 64, 256
SPENT = 0.05  # seconds for each question
ROUNDS = 25  # steps of a search, usually


@dataclass(frozen=True)
class Cost:
    """What learning does, counted."""

    entries: float = 0.0  # of the model's kernel
    exponentials: float = 0.0  # of a latent one
    flops: float = 0.0  # of products and factors

    def seconds(self, kernel: Kernel, rows: Rows) -> float:
        """How long that takes here."""
        total = CALLS + self.flops * _flop_seconds()
        if self.exponentials:
            some = np.linspace(-5.0, 0.0, SIZE**2)
            total += self.exponentials * 3.0 * least_seconds(lambda: np.exp(some), SPENT) / SIZE**2
        if self.entries:
            few = take_rows(rows, np.arange(min(TIMED_ROWS, int(rows.shape[0]))))
            total += (
                self.entries
                * least_seconds(lambda: kernel.tile(few, few), SPENT)
                / len_squared(few)
            )
        return total


def len_squared(rows: Rows) -> int:
    """The entries of a tile of these rows."""
    return int(rows.shape[0]) ** 2


def kept_bytes(*, n: int, k: int, width: int, rows_bytes: int) -> int:
    """What a fit has beside its pre-image: vectors, products, coefficients, its rows, and slices of sections.

    width : of the sections, n of an exact fit.
    """
    # Scores of the examples and distances in feature space come from slices of sections, with a temporary.
    slices = 3 * min(SLICE_BYTES, FLOAT * n * width)
    return FLOAT * (3 * n * k + 2 * width * k + 8 * n) + rows_bytes + slices + SMALL


def _flop_seconds() -> float:
    # A product of this size runs about as fast as a Cholesky factor of a few hundred rows does twice over.
    a = np.ones((SIZE, SIZE))
    return 2.0 * least_seconds(lambda: a @ a, SPENT) / (2.0 * SIZE**3)
