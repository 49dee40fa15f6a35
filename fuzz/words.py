"""Numbers in binary files: offsets, lengths and counts, set to what no honest writer would store."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from fuzz.mutate import mutated

if TYPE_CHECKING:
    import random

WILD = (0, 1, -1, 2, 7, 255, 2**15, 2**30, 2**31 - 1, -(2**31), 2**32 - 1, 2**40, 2**62, -(2**63))


def wild(rng: random.Random, *, most: int) -> int:
    """A number that an index of `most` entries should not hold, or one that it just might."""
    return rng.choice((*WILD, most - 1, most, most + 1, -most))


def words_altered(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """One to three aligned words of 4 or 8 bytes set to wild numbers; now and then plain spoiling."""
    if rng.random() < 0.25 or len(data) < 16:
        return mutated(data, others, rng)
    altered = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        size = rng.choice((4, 8))
        at = rng.randrange(len(altered) // size) * size
        value = wild(rng, most=len(data)) % 2 ** (8 * size)
        altered[at : at + size] = struct.pack("<I" if size == 4 else "<Q", value)
    return bytes(altered)
