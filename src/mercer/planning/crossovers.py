"""Where one way of solving stops paying and another begins."""

from __future__ import annotations

# Measured on two cores; where each rule stops paying is flat, so round numbers do.
LAPACK_ROWS = 500  # below, one LAPACK call beats any iteration
SMALL_ROWS = 3000  # products so cheap that iterating to rounding costs nothing
SMALL_SHARE, SHARE = 25, 12  # k above this part of n: the Krylov basis would grow towards K itself


def lapack_share(n: int) -> int:
    """The s of the n/s components up to which iterating is quicker than LAPACK.

    LAPACK's n³ is the dearer the larger n, and up to `SMALL_ROWS` iterating goes on to more digits.
    """
    return SMALL_SHARE if n <= SMALL_ROWS else SHARE
