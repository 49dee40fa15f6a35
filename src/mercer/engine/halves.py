"""How a pass of half floats is cut, and what it holds: arithmetic that its engine and a planner share."""

from __future__ import annotations

PAD = 256  # rows are padded to a multiple of it, that of every block
PAD_COLUMNS = 64  # likewise, at most
COLUMNS = 128  # of V that are multiplied at a time
PART_ROWS = 2**16  # of Z whose products are summed in float32
PROGRAMS = 2**10  # that a device is given at least, where there are enough rows
# Tiles are used for both sides of the diagonal of k(X, X) where products of rows are most of the work. It
# gains time from some 30 000 rows on, and loses none for fewer, for which one more pass would be compiled.
MIRRORED_FEATURES, MIRRORED_ROWS = 256, 2**12
# What the programs of such a pass may add to, each to its own sums; and how many there are, to count with.
MIRROR_BYTES, PROCESSORS = 2**30, 192
# k(X, Z) V of new rows: so many of them are sent at a time. Multiply-adds from which on half floats pay, an
# entry's formula counted as FORMULA of them: float32 tiles take an H200 about a second for so many, a pass a
# tenth of it, and a second or two to compile for a new kernel.
CROSS_ROWS, CROSS_WORK, FORMULA = 2**18, 2**45, 512
SPLIT = 2**24  # numbers that are split into halves at a time: in float64, and in several copies
SPLIT_BYTES = 64  # of each of them


def padded_columns(columns: int) -> int:
    """A power of two that tensor cores take."""
    return max(16, 1 << (columns - 1).bit_length())


def block_columns(wanted: int) -> int:
    """Vectors of a block, at least as many: with the column of means of a first product, a power of two.

    Tensor cores multiply such a number at a time, and more vectors need fewer products.

    >>> [block_columns(wanted) for wanted in (14, 17, 32, 48)]
    [15, 31, 63, 63]
    """
    return padded_columns(wanted + 1) - 1


def grid(n: int, m: int, bm: int, bn: int) -> tuple[int, int, int]:
    """Blocks of rows of X, parts of Z, and rows of a part.

    Parts are short enough for float32 sums, and enough to keep a device busy with few rows of X.

    >>> grid(1_000_000, 1_000_000, 128, 128), grid(300, 100_000, 128, 128)
    ((7813, 16, 62592), (3, 98, 1024))
    """
    tall = -(-n // bm)
    parts = max(-(-m // PART_ROWS), min(-(-PROGRAMS // tall), -(-m // (8 * bn))))
    part_rows = -(-m // (parts * bn)) * bn
    return tall, -(-m // part_rows), part_rows


def is_mirrored(n: int, d: int) -> bool:
    """Whether a pass over k(X, X) uses each tile for both sides of the diagonal."""
    return d >= MIRRORED_FEATURES and n >= MIRRORED_ROWS


def is_cross_worthwhile(n: int, m: int, d: int, columns: int) -> bool:
    """Whether a product of n new rows with m points is long enough for a pass to be compiled for it.

    By its size alone: what has been compiled before must not decide about the bits of a result.

    >>> [is_cross_worthwhile(n, 100_000, 50, 20) for n in (10_000, 1_000_000)]
    [False, True]
    """
    return n * m * (d + columns + FORMULA) >= CROSS_WORK


def band_rows(programs: int, columns: int) -> int:
    """Rows that the programs of such a pass add to at a time: few enough for float32 sums, and for memory.

    >>> band_rows(132, 32), band_rows(132, 128)
    (63488, 15872)
    """
    return min(PART_ROWS, max(PAD, MIRROR_BYTES // (4 * programs * columns) // PAD * PAD))


def halves_bytes(n: int, d: int, parts: int) -> int:
    """Rows as so many half floats a number, what a formula needs beside them, and some on their way there."""
    tall, wide = n + PAD, d + PAD_COLUMNS
    return tall * (2 * parts * wide + 8 * 4) + SPLIT_BYTES * min(tall * wide, SPLIT + wide * PAD)


def product_bytes(n: int, columns: int) -> int:
    """Sums of a product with so many columns, float32 over each part and float64 over these, and V itself."""
    wide, (_, parts, _) = padded_columns(min(columns, COLUMNS)), grid(n, n, 64, 64)
    sums = (n + PAD) * (4 * wide * parts + (2 * 8 + 4 + 8) * wide + 8 * columns)
    return sums + (min(MIRROR_BYTES, 4 * PROCESSORS * wide * n) if n >= MIRRORED_ROWS else 0)
