"""What an HDF5 file itself holds. Links, external storage and virtual data sets may lead to any other file.

A file from a stranger that is read with our rights could hand out, as rows or as scores of them, what we
can read and he can't. So each step of a path is looked at before it is taken, and each data set before it
is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._core.errors import DataError, quoted
from mercer._core.memory import format_bytes

MOST_LINKS = 16  # soft links in one path; more are a circle
RATIO, HARMLESS_BYTES = 1000, 2**30  # a file that promises a thousand times its bytes is a trap


class Inside:
    """The groups and data sets of an open file that are stored in it."""

    def __init__(self, h5py: Any, file: Any, *, source: str, n_bytes: int) -> None:
        self._h5py, self._file, self._source, self._n_bytes = h5py, file, source, n_bytes

    def at(self, path: str, start: Any = None) -> Any:
        """The group or data set at a path; None where there is none. What is in another file is refused."""
        return self._walked(self._file if start is None else start, path, MOST_LINKS)

    def _walked(self, here: Any, path: str, links: int) -> Any:
        parts = path.split("/")
        for place, part in enumerate(parts):
            if part in ("", "."):
                continue
            name = part.encode()
            if not isinstance(here, self._h5py.Group) or not here.id.links.exists(name):
                return None
            kind = here.id.links.get_info(name).type
            if kind == self._h5py.h5l.TYPE_HARD:
                here = here[part]
                continue
            if kind != self._h5py.h5l.TYPE_SOFT:
                self._refuse(f"{quoted(part)} is a link to another file")
            if links == 0:
                self._refuse(f"{quoted(part)} is a link that leads to itself")
            target = here.id.links.get_val(name).decode("utf-8", "replace")
            rest = "/".join([target, *parts[place + 1 :]])
            return self._walked(self._file if target.startswith("/") else here, rest, links - 1)
        if isinstance(here, self._h5py.Dataset):
            self.require_own(here)
        return here

    def require_own(self, stored: Any) -> None:
        """Raise unless the numbers of a data set are in this file, and about as many as it has bytes."""
        why = self.elsewhere(stored)
        if why is not None:
            self._refuse(f"{quoted(stored.name)} {why}")
        promised = float(np.prod([float(s) for s in stored.shape or ()])) * stored.dtype.itemsize
        if promised > HARMLESS_BYTES and promised > RATIO * self._n_bytes:
            msg = (
                f"{self._source} has {format_bytes(self._n_bytes)} and promises rows of "
                f"{format_bytes(promised)}: it is not read. Store the rows that there are."
            )
            raise DataError(msg)

    def elsewhere(self, stored: Any) -> str | None:
        """In words, why the numbers of a data set are not in this file; None where they are."""
        if (
            stored.is_virtual
        ):  # before its shape is asked for, for which HDF5 would open the other files
            return "is a virtual data set, made of other files"
        return "is stored in another file" if stored.external else None

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all data sets, by their paths; links are not followed."""
        found: dict[str, tuple[int, ...]] = {}
        others: list[Any] = []
        groups = [self._file]

        def look(name: str, thing: Any) -> None:
            if not isinstance(thing, self._h5py.Dataset):
                groups.append(thing)
                return
            if self.elsewhere(thing) is None:
                found[name] = thing.shape or ()
            else:
                others.append(thing)

        self._file.visititems(look)
        if others and not found:
            self.require_own(others[0])
        for group in groups if not found else ():
            for name in getattr(group, "keys", tuple)():  # a stored data type has none
                if group.id.links.get_info(name.encode()).type == self._h5py.h5l.TYPE_EXTERNAL:
                    self._refuse(f"{quoted(name)} is a link to another file, which is not followed")
        return found

    def _refuse(self, why: str) -> None:
        msg = (
            f"{self._source}: {why}. Only what is in the file itself is read: copy the rows into it "
            "(h5repack, or write the data set again)."
        )
        raise DataError(msg)
