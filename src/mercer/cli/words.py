"""Words for people: counts, and texts that a terminal only shows. Light to import."""

from __future__ import annotations


def count(n: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def printable(text: str) -> str:
    """The text without control characters, which a terminal would obey: names in files are anybody's."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
