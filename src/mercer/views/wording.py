"""Numbers for people: as many digits as they are worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

THIN = "\u202f"  # a narrow space that does not break, between thousands


def number(value: float, digits: int = 4) -> str:
    """A number in a table.

    >>> number(0.000123456), number(1234.5), number(-2.0), number(3e-7)
    ('0.0001235', '1234', '−2', '3·10⁻⁷')
    """
    value = float(value)
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    text = f"{value:.{digits}g}"
    if "e" in text and 1e4 <= abs(value) < 1e7:
        text = count(round(value))
    elif "e" in text:
        mantissa, _, exponent = text.partition("e")
        text = f"{mantissa}·10{_raised(exponent)}"
    return text.replace("-", "−")


def count(n: int) -> str:
    """A whole number with thousands apart.

    >>> count(1234567).replace(THIN, " ")
    '1 234 567'
    """
    return f"{int(n):,}".replace(",", THIN)


def counted(n: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "row"), counted(3, "row")
    ('1 row', '3 rows')
    """
    return f"{count(n)} {noun}" if n == 1 else f"{count(n)} {noun}s"


def share(value: float, digits: int = 1) -> str:
    """A share as per cent; one that is nearly all is not called all.

    >>> share(0.5), share(0.99997), share(1.0), share(0.00001), share(0.0)
    ('50.0 %', 'over 99.9 %', '100.0 %', 'under 0.1 %', '0.0 %')
    """
    if not math.isfinite(value):
        return "unknown"
    edge = 0.5 * 10.0**-digits / 100
    least = 10.0**-digits
    if 0.0 < value < edge:
        return f"under {least:.{digits}f} %"
    if 1.0 - edge < value < 1.0 - 1e-12:
        return f"over {100 - least:.{digits}f} %"
    return f"{100 * value:.{digits}f} %"


def small_share(value: float) -> str:
    """A share whose size matters even when it is tiny.

    >>> small_share(0.024), small_share(3e-7)
    ('2.4 %', '3.0·10⁻⁷')
    """
    return share(value) if value == 0.0 or value >= 1e-3 else power_of_ten(value)


def few(names: Sequence[Any], most: int = 8) -> str:
    """The first names, and how many more there are.

    >>> few(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    listed = ", ".join(map(str, names[:most]))
    return listed if len(names) <= most else f"{listed} and {count(len(names) - most)} more"


def short(name: str, most: int = 22) -> str:
    """A name that fits beside an axis.

    >>> short("temperature of the reactor", 12)
    'temperature…'
    """
    return name if len(name) <= most else f"{name[: most - 1]}…"


def power_of_ten(value: float) -> str:
    """An error, of which only the size matters.

    >>> power_of_ten(3.2e-14), power_of_ten(0.0)
    ('3.2·10⁻¹⁴', '0')
    """
    if value == 0.0 or not math.isfinite(value):
        return number(value)
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}·10{_raised(exponent)}"


def _raised(exponent: str) -> str:
    return str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
