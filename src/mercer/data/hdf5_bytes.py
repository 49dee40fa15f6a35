"""HDF5 files as bytes: what has to be known of one before the library reads what it may hang or die over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from mmap import mmap
from struct import Struct
from typing import NamedTuple

SMALLEST_HEAP = 4096  # bytes; HDF5 refuses a smaller collection itself
MOST_MESSAGES = 2**16  # of one object's header; damaged, it may promise any number
LAYOUT, CONTINUATION = 0x08, 0x10  # types of messages in a header
VIRTUAL = 3  # the class of a layout


class Bytes(NamedTuple):
    """A file that is mapped: nothing of it is loaded that is not looked at."""

    data: mmap
    base: int  # where addresses are counted from
    address_width: int  # bytes of an address
    length_width: int  # and of a length

    def is_virtual(self, address: int) -> bool:
        """Whether the object at an address is a virtual data set.

        HDF5 2.0 reads the layout of one when it opens it, before it can be asked what it is, and trusts the
        numbers in it: damaged, they overwrite the stack.
        """
        return any(
            kind == LAYOUT and body[:1] > b"\x02" and body[1:2] == bytes([VIRTUAL])
            for kind, body in islice(self._messages(self.base + address), MOST_MESSAGES)
        )

    def _messages(self, place: int) -> Iterator[tuple[int, bytes]]:
        """Types and bodies of the messages in the header of an object, in both forms that it may have."""
        data, is_new = self.data, self.data[place : place + 4] == b"OHDR"
        if is_new:
            flags = int.from_bytes(data[place + 5 : place + 6], "little")
            place += 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
            start = place + (1 << (flags & 3))
            size = int.from_bytes(data[place:start], "little")
            kind_width, ends, head = 1, 4, 6 if flags & 4 else 4
        else:
            start, size = place + 16, int.from_bytes(data[place + 8 : place + 12], "little")
            kind_width, ends, head = 2, 0, 8
        blocks = [(start, start + size)]
        for start, end in blocks:  # which grow
            at = start
            while at + head <= min(end, len(data)):
                kind = int.from_bytes(data[at : at + kind_width], "little")
                length = int.from_bytes(data[at + kind_width : at + kind_width + 2], "little")
                body = data[at + head : at + head + length]
                yield kind, body
                if kind == CONTINUATION:
                    there = self.base + int.from_bytes(body[: self.address_width], "little")
                    size = int.from_bytes(body[self.address_width :][: self.length_width], "little")
                    blocks.append((there + ends, there + size - ends))  # signature, checksum
                at += head + length

    def has_endless_heap(self) -> bool:
        """Whether a collection of the global heap has no end to HDF5's walk over its objects.

        HDF5 2.0 goes on by the size of each object, and stays for ever at one of no size, where no signal
        reaches it. This is its walk; what leaves the collection is left to it, since it refuses that.

        Bytes of plain data may look like a collection, and are refused only if their walk stands still, too.
        Good collections lie apart and their objects have 16 bytes or more, so that all walks together take
        no more steps than the file has room for; where spoilt ones overlap, that ends the walks.
        """
        length = {2: "H", 4: "I", 8: "Q"}.get(self.length_width)
        if length is None:  # HDF5 reads none other
            return False
        # Signature, version, 3 bytes, size; index, references, 4 bytes, size. Both are padded to 16 bytes.
        heap, thing, head, data = Struct(f"<8x{length}"), Struct(f"<H6x{length}"), 16, self.data
        steps = len(data) // head
        for start in (found.start() for found in re.finditer(rb"(?s)GCOL\x01(?=.{11})", data)):
            (size,) = heap.unpack_from(data, start)
            if not SMALLEST_HEAP <= size <= len(data) - start:  # HDF5 refuses it
                continue
            place, end = start + head, start + size
            while place + head <= end:
                index, size = thing.unpack_from(data, place)
                # Free space (0) has its header in its size; HDF5 computes modulo 2**64.
                step = (size if index == 0 else head + (size + 7) % 2**64 // 8 * 8) % 2**64
                place, steps = place + step, steps - 1
                if step == 0 or steps < 0:
                    return True
        return False
