"""Pictures in the page: charts as SVG, whose colours are the style sheet's, and pixels as PNG."""

from __future__ import annotations

import base64
import math
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._core.types import Array
from mercer.report.markup import Html, tag
from mercer.views.classes import BANDS, PALETTE, SHAPES, Classes
from mercer.views.wording import number


@dataclass(frozen=True)
class Scale:
    """A range of numbers, laid along a range of pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, values: Any) -> Any:
        """Pixels."""
        numbers, low, high = np.asarray(values, dtype=np.float64), self.low, self.high
        if self.log:
            numbers, low, high = np.log10(numbers), math.log10(low), math.log10(high)
        return self.start + (numbers - low) / (high - low) * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers within the range, powers of ten on a long logarithmic scale."""
        if self.log:
            first = math.ceil(math.log10(self.low) - 1e-9)
            last = math.floor(math.log10(self.high) + 1e-9)
            if last > first:
                every = max(1, math.ceil((last - first + 1) / most))
                return [10.0**i for i in range(first, last + 1, every)]
        return nice(self.low, self.high, most)


def nice(low: float, high: float, most: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, at most so many.

    >>> nice(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = power * next(s for s in (1, 2, 5, 10) if s * power >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


# Steps between dates on an axis in seconds, up to a week; months follow.
STEPS = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800)
MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 600, 1200)


def date_ticks(first: Any, last: Any, most: int) -> list[tuple[float, str]]:
    """Round dates between two, as seconds from the first, with what they are called.

    >>> date_ticks(np.datetime64("2026-01-05T22:10"), np.datetime64("2026-01-06T03:00"), 3)
    [(6600.0, '2026-01-06 00:00'), (17400.0, '03:00')]
    """
    begin, end = first.astype("M8[s]"), last.astype("M8[s]")
    span = int((end - begin).astype(int))
    step = next((s for s in STEPS if span // s < most), None)
    grid = "M8[s]" if step is not None else "M8[M]"
    low, high = (int(t.astype(grid).astype(int)) for t in (begin, end))
    if step is not None:
        unit: Any = "D" if step >= 86400 else ("m" if step >= 60 else "s")
    else:
        step = next(s for s in MONTHS if (high - low) // s < most or s == MONTHS[-1])
        unit = "M" if step % 12 else "Y"
    dates = np.arange(-(-low // step) * step, high + 1, step).astype(grid).astype("M8[s]")
    dates = dates[dates >= begin]
    ticks, day = [], ""
    for date in dates:
        text = str(np.datetime_as_string(date, unit=unit)).replace("T", " ")
        # The day once, and then the time of day.
        shown = text.partition(" ")[2] if " " in text and text[:10] == day else text
        ticks.append((float((date - begin).astype(int)), shown))
        day = text[:10]
    return ticks


@dataclass(frozen=True)
class Frame:
    """Where a chart is drawn: its size in pixels, and the room around for axes."""

    width: int = 720
    height: int = 320
    left: int = 64
    right: int = 16
    top: int = 14
    bottom: int = 46

    def across(self, low: float, high: float) -> Scale:
        """A scale from left to right."""
        return Scale(low, high, self.left, self.width - self.right)

    def up(self, low: float, high: float, *, log: bool = False) -> Scale:
        """A scale from the bottom to the top."""
        return Scale(low, high, self.height - self.bottom, self.top, log)

    def scales(self, across: Array, up: Array) -> tuple[Scale, Scale]:
        """Scales that reach from the first to the last of either numbers."""
        x, y = ((float(side[0]), float(side[-1])) for side in (across, up))
        return self.across(*x), self.up(*y)

    def axes(
        self,
        x: Scale,
        y: Scale,
        *,
        x_label: str,
        y_label: str,
        x_ticks: Sequence[tuple[float, str]] | None = None,
        y_ticks: Sequence[tuple[float, str]] | None = None,
    ) -> Html:
        """Grid lines, tick labels and the names of the axes."""
        across = [(t, number(t)) for t in x.ticks(7)] if x_ticks is None else x_ticks
        up = [(t, number(t)) for t in y.ticks()] if y_ticks is None else y_ticks
        right, bottom, parts = self.width - self.right, self.height - self.bottom, []
        for t, text in across:
            place = f"{float(x(t)):.1f}"
            parts.append(tag("path", d=f"M{place} {self.top}V{bottom}", class_="rule"))
            parts.append(tag("text", text, x=place, y=bottom + 17, text_anchor="middle"))
        for t, text in up:
            height = float(y(t))
            parts.append(tag("path", d=f"M{self.left} {height:.1f}H{right}", class_="rule"))
            parts.append(
                tag("text", text, x=self.left - 7, y=f"{height + 4:.1f}", text_anchor="end")
            )
        name = {"class_": "axis", "text_anchor": "middle"}
        parts.append(tag("text", x_label, x=0.5 * (self.left + right), y=self.height - 8, **name))
        turned = f"translate(14 {0.5 * (self.top + bottom):g}) rotate(-90)"
        parts.append(tag("text", y_label, transform=turned, **name))
        return tag("g", *parts, class_="axes")

    def drawing(self, *parts: Any, label: str, id_: str, **more: Any) -> Html:
        """The picture of a figure, whose words are for those who don't see it."""
        return tag(
            "svg",
            *parts,
            viewBox=f"0 0 {self.width} {self.height}",
            role="img",
            aria_label=label,
            aria_describedby=f"{id_}-words",
            **more,
        )


def line(x: Array, y: Array, **attributes: Any) -> Html:
    """A line through points in pixels."""
    points = "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    return tag("path", d=f"M{points}", **attributes)


def _pieces(each: str, *columns: Array, **attributes: Any) -> Html:
    """One path of many pieces, each a format of its numbers."""
    lots = zip(*(column.tolist() for column in columns), strict=True)
    return tag("path", d="".join(each.format(*lot) for lot in lots), **attributes)


def strokes(x: Array, low: Array, high: Array, **attributes: Any) -> Html:
    """Upright strokes, one for each place, between two heights in pixels."""
    return _pieces("M{:.1f} {:.1f}V{:.1f}", x, low, high, **attributes)


def bars(left: Array, right: Array, top: Array, bottom: float, **attributes: Any) -> Html:
    """Bars that stand on a line, as one path."""
    each = f"M{{:.2f}} {bottom:.1f}V{{:.1f}}H{{:.2f}}V{bottom:.1f}z"
    return _pieces(each, left, top, right, **attributes)


# ── points ──────────────────────────────────────────────────────────────────
# A point is a subpath, here in units of its radius, so that one path is a whole class. The first shape is a
# stroke of no length with round ends; the others are filled, all in the same sense, so that overlapping ones
# leave no hole.
OUTLINES = {
    "dot": "h0",
    "square": "m-1-1h2v2h-2z",
    "triangle": "m0-1.15l1.2 2h-2.4z",
    "diamond": "m0-1.3l1.3 1.3l-1.3 1.3l-1.3-1.3z",
    "plus": "m-.4-1.3h.8v.9h.9v.8h-.9v.9h-.8v-.9h-.9v-.8h.9z",
}


def points(x: Array, y: Array, code: int, r: float, *, class_: str, **attributes: Any) -> Html:
    """Points in pixels, one path; classes have different shapes, for colour alone is lost on some eyes."""
    name = SHAPES[code % len(SHAPES)]
    outline = re.sub(r"[\d.]+", lambda length: f"{r * float(length[0]):.3g}", OUTLINES[name])
    attributes = {"stroke_width": f"{2 * r:.3g}" if name == "dot" else None, **attributes}
    return _pieces(f"M{{:.1f}} {{:.1f}}{outline}", x, y, class_=f"{class_} {name}", **attributes)


def class_colour(looks: Classes, code: int) -> str:
    """The style of a class: one of seven colours, or of the bands of a number."""
    return f"b{code}" if looks.ordered and code < BANDS else f"c{code % len(PALETTE)}"


# ── pixels ──────────────────────────────────────────────────────────────────
def encoded(pixels: NDArray[np.uint8]) -> bytes:  # (h, w) or (h, w, 4)
    """A PNG file of grey or of red, green, blue and opacity."""
    height, width = pixels.shape[:2]
    kind = 0 if pixels.ndim == 2 else 6  # colour types of the standard (ISO/IEC 15948)
    # Each line begins with the number of its filter: 0, none.
    lines = np.zeros((height, 1 + pixels[0].size), dtype=np.uint8)
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def address(pixels: NDArray[np.uint8]) -> str:
    """The picture as a data: address."""
    return "data:image/png;base64," + base64.b64encode(encoded(pixels)).decode("ascii")


def greys(image: Array, low: float, high: float) -> NDArray[np.uint8]:
    """Numbers as greys, `low` black and `high` white."""
    width = high - low if high > low else 1.0
    return np.clip(np.rint(255 * (image - low) / width), 0, 255).astype(np.uint8)
