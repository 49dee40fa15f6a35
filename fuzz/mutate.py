"""Seeded mutations of bytes: flips, cuts, copies, splices, and tokens that parsers dislike."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

TOKENS = (
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b'"',
    b"'",
    b"\n",
    b"\r",
    b"\r\n",
    b",",
    b";",
    b"\t",
    b"NaN",
    b"-inf",
    b"1e999",
    b"-1",
    b"0",
    b"18446744073709551616",
    b"9" * 400,
    b"0x1p-3",
    b"(",
    b")",
    b"[",
    b"{",
    b"}",
    b"**",
    b"*",
    b"+",
    b"-",
    b".",
    b"=",
    b"__class__",
    b"import os",
    b"lambda: 0",
    b"null",
    b"true",
    b"\\u0000",
    "π".encode(),
    "１".encode(),
)
NUMBER = re.compile(rb"\d+(?:\.\d+)?")


def mutated(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """A few mutations of `data`, one after the other."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        data = rng.choice(MUTATIONS)(data, others, rng)
    return data


def _at(data: bytes, rng: random.Random) -> int:
    # Half of the time near the beginning: headers are there.
    top = len(data) if rng.random() < 0.5 else min(len(data), 256)
    return rng.randrange(top + 1)


def _flip(data: bytes, _others: list[bytes], rng: random.Random) -> bytes:
    if not data:
        return data
    at = min(_at(data, rng), len(data) - 1)
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _overwrite(data: bytes, _others: list[bytes], rng: random.Random) -> bytes:
    at, token = _at(data, rng), rng.choice(TOKENS)
    return data[:at] + token + data[at + len(token) :]


def _insert(data: bytes, _others: list[bytes], rng: random.Random) -> bytes:
    at, token = _at(data, rng), rng.choice(TOKENS) * rng.choice((1, 1, 1, 5, 3000))
    return data[:at] + token + data[at:]


def _delete(data: bytes, _others: list[bytes], rng: random.Random) -> bytes:
    at = _at(data, rng)
    return data[:at] + data[at + rng.choice((1, 2, 7, 64, 1000)) :]


def _cut(data: bytes, _others: list[bytes], rng: random.Random) -> bytes:
    return data[: _at(data, rng)]


def _repeat(data: bytes, _others: list[bytes], rng: random.Random) -> bytes:
    at = _at(data, rng)
    piece = data[at : at + rng.choice((1, 10, 100, 1000))]
    return data[:at] + piece * rng.choice((2, 3, 50)) + data[at:]


def _splice(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    other = rng.choice(others)
    return data[: _at(data, rng)] + other[_at(other, rng) :]


def _number(data: bytes, _others: list[bytes], rng: random.Random) -> bytes:
    found = list(NUMBER.finditer(data[:100_000]))
    if not found:
        return data
    place = rng.choice(found)
    new = rng.choice((b"0", b"-1", b"1e308", b"1e-320", b"nan", b"99999999999999999999", b"", b"2"))
    return data[: place.start()] + new + data[place.end() :]


def _noise(data: bytes, _others: list[bytes], rng: random.Random) -> bytes:
    del data
    return rng.randbytes(rng.choice((0, 1, 10, 300, 5000)))


MUTATIONS = (
    _flip,
    _flip,
    _overwrite,
    _insert,
    _delete,
    _cut,
    _repeat,
    _splice,
    _number,
    _number,
    _noise,
)
