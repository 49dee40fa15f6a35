"""Folders of images: each is a row, its grey values from left to right and from top to bottom."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mercer._core.errors import DataError, refuse_data
from mercer._core.types import Array
from mercer.data.columns import listed
from mercer.data.files import Stamp, explained
from mercer.data.frames import need
from mercer.data.npy import ArrayTable
from mercer.data.rows import row_slices
from mercer.data.table import Reading, objects

# Pillow goes by content, and some formats run other programs: what a name promises is all that is tried.
FORMATS = {".png": "PNG", ".pgm": "PPM", ".jpg": "JPEG", ".jpeg": "JPEG"}
MAX_PIXELS = 50_000_000  # of one image; more is a trap, or no picture to compare with others
MAX_COLUMNS = 10**6
COLOURS = {"RGB", "RGBA", "P", "CMYK", "YCbCr", "LAB", "HSV", "PA"}


class ImageTable(ArrayTable):
    """Images of one size, in a folder and in those below it, in the order of their names.

    Ids are the names of the files, labels those of the folders below.
    """

    def __init__(self, folder: Path, reading: Reading, source: str) -> None:
        if not folder.is_dir():
            msg = f"{str(folder)!r} is a file; `format='images'` needs a folder of images."
            refuse_data(msg, "Give the folder.", parameter="format", value="images")
        need("PIL.Image", extra="images")
        self._folder, self.source, self.stamp = folder, source, Stamp.of(folder)
        self._files, others = _listed(folder)
        if not self._files:
            looked = f"files that end in {', '.join(FORMATS)} were looked for, also below"
            refuse_data(f"{source} has no image in it: {looked}.")
        sizes, colours = self._heads()
        height, width = self.image_shape = self._size(sizes, reading)
        if height * width > MAX_COLUMNS:
            pixels = f"{height}x{width} pixels, {height * width} columns"
            what = f"{source} has images of {pixels}; {MAX_COLUMNS} are the most."
            remedy = "Bring them to a smaller size, such as `image_size=(64, 64)`."
            refuse_data(what, remedy, parameter="image_size")
        labels = self._folders(reading)
        resized = sum(size != (height, width) for size in sizes)
        done = {
            f"{resized} of {len(sizes)} images brought to {height}x{width} pixels": resized,
            f"{colours} of {len(sizes)} images are coloured: their grey values are used": colours,
            f"files that are not images, left out: {listed(others)}": others,
        }
        beside: Any = {
            "names": [f"pixel_{r}_{c}" for r in range(height) for c in range(width)],
            "ids": (objects(map(_name, self._files)), reading.id or "file"),
            "labels": (labels, None if labels is None else reading.label or "folder"),
            "notes": [note for note, some in done.items() if some],
        }
        shape = (len(self._files), height * width)
        super().__init__(source, shape, np.dtype(np.float64), reading, **beside)

    def _folders(self, reading: Reading) -> Any:
        """The folder of each image; None where all lie in one, which labels nothing."""
        folders = [_name(file.parent) for file in self._files]
        if set(folders) != {"."}:
            return objects(folders)
        if reading.label is not None:
            msg = f"{self.source} has no folders below it to label images by, as `label` asks for."
            remedy = "Leave it out, or put the images of each label into a folder."
            refuse_data(msg, remedy, parameter="label", value=reading.label)
        return None

    # ── sizes ───────────────────────────────────────────────────────────────
    def _heads(self) -> tuple[list[tuple[int, int]], int]:
        """Height and width of each image, and how many are coloured; nothing is unpacked for it."""
        sizes, colours = [], 0
        for file in self._files:
            with self._opened(file) as image:
                # Cameras keep pictures lying on their side and say so beside them.
                turned = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
                width, height = image.size[::-1] if turned else image.size
                sizes.append((height, width))
                colours += image.mode in COLOURS
        return sizes, colours

    def _size(self, sizes: list[tuple[int, int]], reading: Reading) -> tuple[int, int]:
        if reading.image_size is not None:
            return reading.image_size
        counts = Counter(sizes)
        (common, _), *others = counts.most_common()
        if others:
            both = zip(self._files, sizes, strict=True)
            odd, size = next((file, size) for file, size in both if size != common)
            most = f"most are {common[0]}x{common[1]} pixels, but {_name(odd)!r} is {size[0]}x{size[1]}"
            what = f"{self.source} has images of {len(counts)} sizes: {most}."
            remedy = f"Bring all to one size with `image_size={common}`."
            refuse_data(what, remedy, parameter="image_size", value=size)
        return common

    # ── pixels ──────────────────────────────────────────────────────────────
    def _blocks(self, height: int, start: int) -> Iterator[Array]:
        for i in row_slices(len(self._files), height, start):
            yield np.stack([self._pixels(file) for file in self._files[i]])

    def _pixels(self, file: Path) -> Array:
        height, width = self.image_shape or (0, 0)
        with self._opened(file) as image:
            upright = need("PIL.ImageOps", extra="images").exif_transpose(image)
            # 16 bits are kept as they are; PIL would cut them off at 255.
            deep = upright.mode.startswith(("I", "F"))
            grey = upright.convert("F") if deep else upright.convert("L").convert("F")
            if grey.size != (width, height):
                bilinear = need("PIL.Image", extra="images").Resampling.BILINEAR
                grey = grey.resize((width, height), bilinear)
            return np.asarray(grey, dtype=np.float64).reshape(-1)

    @contextmanager
    def _opened(self, file: Path) -> Iterator[Any]:
        """An image; whatever is wrong with it names the file."""
        pillow = need("PIL.Image", extra="images")
        what, form = f"{self.source}: the image {_name(file)!r}", FORMATS[file.suffix.lower()]
        # Decoders raise what they like.
        explain = explained(what, Exception, remedy="Repair it, or take it out of the folder.")
        with explain, warnings.catch_warnings():
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            warnings.simplefilter("ignore", UserWarning)  # of EXIF data that is damaged
            try:
                with pillow.open(self._folder / file, formats=[form]) as image:
                    if image.size[0] * image.size[1] > MAX_PIXELS:
                        msg = f"{image.size[0]}x{image.size[1]} pixels are more than {MAX_PIXELS}"
                        raise ValueError(msg)
                    yield image
            except need("PIL", extra="images").UnidentifiedImageError as error:
                why = "which its name promises: it is of another format, or damaged"
                msg = f"{what} can't be read as {form}, {why}."
                remedy = "Give it its own ending, convert it, or take it out."
                raise DataError.saying(msg, remedy) from error


def _listed(folder: Path) -> tuple[list[Path], list[str]]:
    """Images below the folder, by their paths in it, and the names of other files."""
    found, others = [], []
    for place, folders, files in os.walk(folder):
        folders.sort()
        for file in sorted(files):
            inside = Path(place, file).relative_to(folder)
            if inside.suffix.lower() in FORMATS and not file.startswith("."):
                found.append(inside)
            elif not file.startswith("."):
                others.append(_name(inside))
    return sorted(found, key=lambda file: file.parts), others


def _name(file: Path) -> str:
    """As text that any file can hold: names of files may be anything."""
    return file.as_posix().encode("utf-8", "backslashreplace").decode()
