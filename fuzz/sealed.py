"""Model files whose content is spoilt but whose checksums are right: what a forger would write."""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any

from mercer._core.container import FORMAT, NO_SEAL, START, STARTS
from mercer.persistence.format_1 import MAGIC, PROLOGUE, SEALED

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
    tree, arrays = opened(data)
    donor, donated = opened(rng.choice(others))
    try:
        for _ in range(rng.choice((1, 1, 2, 5))):
            if arrays and rng.random() < 0.3:
                _spoil_array(tree, arrays, list(donated.values()), rng)
            else:
                _spoil_tree(tree, donor, rng)
        written = sealed(tree, arrays)
        return written if rng.random() < 0.9 else _misplaced(tree, arrays, rng)
    except RecursionError:  # one depth inside another: more than json can write
        return resealed(data, others, rng)


def opened(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Metadata and tensors of an honest file, and its raw arrays."""
    end = 8 + int.from_bytes(data[:8], "little")
    tensors = json.loads(data[8:end])
    texts = tensors.pop("__metadata__")
    told = {
        n: json.loads(text) for n, text in texts.items() if n not in ("mercer_format", "sha256")
    }
    spans = {name: entry["data_offsets"] for name, entry in tensors.items()}
    arrays = {name: data[end + a : end + b] for name, (a, b) in spans.items()}
    return {"metadata": told, "tensors": tensors}, arrays


def sealed(tree: dict[str, Any], arrays: dict[str, bytes]) -> bytes:
    """A file whose sizes, offsets and checksums agree with what is in it."""
    tensors, seals = tree.get("tensors"), _at(tree, "metadata", "arrays")
    body = b""
    for name, array in arrays.items():
        if (entry := _at(tensors, name)) is not None:
            entry["data_offsets"] = [len(body), len(body) + len(array)]
        if (told := _at(seals, name)) is not None:
            told["sha256"] = hashlib.sha256(array).hexdigest()
        body += array
    return written(tree) + body


def written(tree: dict[str, Any]) -> bytes:
    """Length and header of a file, sealed, whatever is in them."""
    told, tensors = (tree.get(name) for name in ("metadata", "tensors"))
    texts = told if isinstance(told, dict) else {"metadata": told}
    entries = tensors if isinstance(tensors, dict) else {"tensors": tensors}
    text = START % (FORMAT, NO_SEAL)
    text += "".join(f",{json.dumps(n)}:{json.dumps(json.dumps(v))}" for n, v in texts.items()) + "}"
    text += "".join(f",{json.dumps(n)}:{json.dumps(v)}" for n, v in entries.items()) + "}"
    return header_of(text.encode())


def header_of(text: bytes, length: int | None = None) -> bytes:
    """A length, right or not, and a text with its seal in the place of zeros."""
    start = (len(text) if length is None else length).to_bytes(8, "little")
    seal = hashlib.sha256(start + text).hexdigest().encode()
    return start + text.replace(NO_SEAL.encode(), seal, 1)


def _at(tree: Any, *names: str) -> dict[str, Any] | None:
    """The object of that path, where there still is one."""
    for name in names:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree if isinstance(tree, dict) else None


def _misplaced(tree: dict[str, Any], arrays: dict[str, bytes], rng: random.Random) -> bytes:
    """Offsets, shapes and dtypes that are not those of the arrays, under a right seal."""
    whole = sealed(tree, arrays)
    places = [entry for name in arrays if (entry := _at(tree, "tensors", name)) is not None]
    if not places:
        return whole
    entry = rng.choice(places)
    begin, end = entry["data_offsets"]
    wild = rng.choice((-1, 0, 1, 8, 2**31, 2**60, 2**63))
    entry |= rng.choice(
        (
            {"data_offsets": [begin + wild, end + wild]},
            {"data_offsets": [begin, end + wild]},
            {"data_offsets": [end, begin]},
            {"shape": [wild, 1]},
            {"dtype": rng.choice(("F16", "BF16", "F8_E4M3", "<f8", "C64", "f64"))},
        )
    )
    return written(tree) + b"".join(arrays.values())


@cache
def named_forgeries(honest: bytes) -> dict[str, bytes]:
    """What has to be refused of a header in good form."""
    found = {}
    first, second = list(opened(honest)[1])[:2]
    for name, change in {
        "overlapping offsets": lambda t: t[second].update(data_offsets=t[first]["data_offsets"]),
        "offsets outside": lambda t: t[first].update(data_offsets=[2**40, 2**40 + 8]),
        "an end before its beginning": lambda t: t[first].update(
            data_offsets=t[first]["data_offsets"][::-1]
        ),
        "an unknown dtype": lambda t: t[first].update(dtype="BF16"),
        "a shape that does not fit": lambda t: t[first].update(shape=[2**31, 2**31]),
    }.items():
        tree, arrays = opened(honest)
        sealed(tree, arrays)
        change(tree["tensors"])
        found[name] = written(tree) + b"".join(arrays.values())
    end = 8 + int.from_bytes(honest[:8], "little")
    text = honest[8:end].rstrip()
    text = text.replace(STARTS.match(text)[2], NO_SEAL.encode(), 1)
    twice = text[:-1] + b',"x":1,"x":1}'
    found["a name twice"] = header_of(twice) + honest[end:]
    found["a header of an exabyte"] = header_of(text, 2**60) + honest[end:]
    return found


# ── format 1 ────────────────────────────────────────────────────────────────
def resealed_1(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """The same of a file of format 1."""
    length = PROLOGUE.unpack(data[: PROLOGUE.size])[2]
    header = json.loads(data[PROLOGUE.size : PROLOGUE.size + length])
    del others
    try:
        for _ in range(rng.choice((1, 1, 2, 5))):
            _spoil_tree(header, header, rng)
        text = json.dumps(header, separators=(",", ":")).encode()
    except RecursionError:
        text = b"{}"
    if len(text) <= length:  # the arrays stay where they are
        text = text.ljust(length)
    start = PROLOGUE.pack(MAGIC, 1, len(text), bytes(32), bytes(12))[:SEALED]
    seal = hashlib.sha256(start + text).digest()
    return start + seal + bytes(12) + text + data[PROLOGUE.size + length :]


# ── spoiling ────────────────────────────────────────────────────────────────
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
        holder[key] = deepcopy(rng.choice(VALUES))  # a later round may change what is in it
    elif what < 0.6:
        other, name = rng.choice(_places(donor))
        holder[key] = json.loads(json.dumps(other[name]))
    elif what < 0.7 and isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
        holder[key] = rng.choice((-holder[key], holder[key] + 1, holder[key] * 1000))
    elif what < 0.8:
        del holder[key]
    elif what < 0.9 and isinstance(holder, dict):
        holder[rng.choice(("x", "__class__", "kernel", "shape", "$array"))] = deepcopy(
            rng.choice(VALUES)
        )  # a later round may change what is in it
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
    tree: dict[str, Any], arrays: dict[str, bytes], donated: list[bytes], rng: random.Random
) -> None:
    name = rng.choice(list(arrays))
    array = bytearray(arrays[name])
    what = rng.random()
    if what < 0.4 and array:
        at = rng.randrange(len(array) // 8 + 1) * 8
        array[at : at + 8] = rng.choice(NUMBERS)
        arrays[name] = bytes(array[: len(arrays[name])])
    elif what < 0.7:
        arrays[name] = rng.choice(donated or [b""])
    else:
        shape = (_at(tree, "tensors", name) or {}).get("shape")
        if isinstance(shape, list) and shape:
            shape[rng.randrange(len(shape))] = rng.choice((0, 1, 2, 10**12, -1))
