"""Model files whose content is spoilt but whose checksums are right: what a forger would write."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from mercer.io.container import MAGIC, PROLOGUE, SEALED, aligned

if TYPE_CHECKING:
    import random

VALUES = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2**63,
    10**30,
    0.5,
    1e308,
    -0.0,
    "",
    "x",
    "KernelPCA",
    "os.system",
    "builtins.eval",
    [],
    [[]],
    {},
    {"$": "Fit"},
    {"$type": "KernelPCA"},
    {"$array": 0},
)
DEPTHS = (100, 900)  # lists in lists; json itself writes about a thousand
# As float64: NaN, 0, infinity, -0.
NUMBERS = (b"\xff" * 8, bytes(8), bytes(6) + b"\xf0\x7f", bytes(7) + b"\x80")


def resealed(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """The file with a header, or an array, that was changed, and everything sealed anew."""
    header, arrays = opened(data)
    donor, donated = opened(rng.choice(others))
    try:
        for _ in range(rng.choice((1, 1, 2, 5))):
            if arrays and rng.random() < 0.3:
                _spoil_array(header, arrays, donated, rng)
            else:
                _spoil_tree(header, donor, rng)
        return sealed(header, arrays)
    except RecursionError:  # one depth inside another: more than json can write
        return resealed(data, others, rng)


def opened(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Header and raw arrays of an honest file."""
    length = PROLOGUE.unpack(data[: PROLOGUE.size])[2]
    header = json.loads(data[PROLOGUE.size : PROLOGUE.size + length])
    spans = [(a["offset"], a["offset"] + a["bytes"]) for a in header["arrays"]]
    return header, [data[start:stop] for start, stop in spans]


def sealed(header: dict[str, Any], arrays: list[bytes]) -> bytes:
    """A file whose sizes, offsets and checksums agree with what is in it."""
    entries = header.get("arrays")
    if isinstance(entries, list) and len(entries) == len(arrays):
        for entry, array in zip(entries, arrays, strict=True):
            if isinstance(entry, dict):
                entry["sha256"], entry["bytes"] = hashlib.sha256(array).hexdigest(), len(array)
    room = len(json.dumps(header)) + 200 * (len(arrays) + 1)
    body, end = b"", PROLOGUE.size + room
    for number, array in enumerate(arrays):
        start = aligned(end + len(body)) - end
        body = body.ljust(start, b"\0") + array
        if (
            isinstance(entries, list)
            and number < len(entries)
            and isinstance(entries[number], dict)
        ):
            entries[number]["offset"] = end + start
    text = json.dumps(header).encode().ljust(room)
    begin = PROLOGUE.pack(MAGIC, 1, len(text), bytes(32), bytes(12))[:SEALED]
    return begin + hashlib.sha256(begin + text).digest() + bytes(12) + text + body


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of the tree, however deep an earlier spoiling made it."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        holder = waiting.pop()
        keys = holder if isinstance(holder, dict) else range(len(holder))
        found.extend((holder, key) for key in keys)
        waiting.extend(v for key in keys if isinstance(v := holder[key], (dict, list)))
    return found


def _spoil_tree(header: dict[str, Any], donor: dict[str, Any], rng: random.Random) -> None:
    places = _places(header)
    if not places:
        return
    holder, key = rng.choice(places)
    what = rng.random()
    if what < 0.4:
        holder[key] = rng.choice(VALUES)
    elif what < 0.6:
        other, name = rng.choice(_places(donor))
        holder[key] = json.loads(json.dumps(other[name]))
    elif what < 0.7 and isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
        holder[key] = rng.choice((-holder[key], holder[key] + 1, holder[key] * 1000))
    elif what < 0.8:
        del holder[key]
    elif what < 0.9 and isinstance(holder, dict):
        holder[rng.choice(("x", "__class__", "kernel", "shape", "$array"))] = rng.choice(VALUES)
    elif what < 0.93:
        deep: Any = 0
        for _ in range(rng.choice(DEPTHS)):
            deep = [deep]
        holder[key] = deep
    else:
        one, other = rng.choice(places), rng.choice(places)
        one[0][one[1]] = json.loads(
            json.dumps(other[0].get(other[1]) if isinstance(other[0], dict) else 0)
        )


def _spoil_array(
    header: dict[str, Any], arrays: list[bytes], donated: list[bytes], rng: random.Random
) -> None:
    number = rng.randrange(len(arrays))
    array = bytearray(arrays[number])
    what = rng.random()
    if what < 0.4 and array:
        at = rng.randrange(len(array) // 8 + 1) * 8
        array[at : at + 8] = rng.choice(NUMBERS)
        arrays[number] = bytes(array[: len(arrays[number])])
    elif what < 0.7:
        arrays[number] = rng.choice(donated or [b""])
    else:
        entries = header.get("arrays")
        if (
            isinstance(entries, list)
            and len(entries) > number
            and isinstance(entries[number], dict)
        ):
            shape = entries[number].get("shape")
            if isinstance(shape, list) and shape:
                shape[rng.randrange(len(shape))] = rng.choice((0, 1, 2, 10**12, -1))
