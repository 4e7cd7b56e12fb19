"""Numbers, times and sizes as people read them. static/js/format.js says the same in the browser."""

import json
from math import isfinite, isnan
from typing import Any

MINUS = "\N{MINUS SIGN}"
NONE = "\N{EN DASH}"
WORDS = {"NaN": "NaN", "Infinity": "\N{INFINITY}", "-Infinity": f"{MINUS}\N{INFINITY}"}


def number(value: Any) -> str:
    """Two decimals where they matter, so that columns align: 0.91, 12.40, 8,412, 0.0012; a true minus.

    A value that is no number, which a field of a config may have, is written as JSON.
    """
    if value is None or value == "":
        return NONE
    if isinstance(value, bool | list | tuple | dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        return WORDS.get(value, value)
    if isinstance(value, int):
        return f"{value:,}".replace("-", MINUS)
    if not isfinite(value):
        return WORDS["NaN"] if isnan(value) else WORDS["Infinity" if value > 0 else "-Infinity"]
    return _finite(value).replace("-", MINUS)


def _finite(value: float) -> str:
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.1f}"
    if size >= 0.01 or size == 0:
        return f"{value:.2f}"
    return f"{value:.4f}" if size >= 0.001 else f"{value:.1e}"


def signed(value: float | str | None) -> str:
    """As `number`, with a plus where it is positive."""
    text = number(value)
    return f"+{text}" if isinstance(value, int | float) and value > 0 else text


def fixed(value: float | str | None) -> str:
    """Always two decimals, for columns of numbers that belong together."""
    if not isinstance(value, int | float) or not isfinite(value):
        return number(value)
    return f"{value:.2f}".replace("-", MINUS)


def reward(value: float | str | None) -> str:
    """As `fixed`, with a plus where it is positive."""
    text = fixed(value)
    return f"+{text}" if isinstance(value, int | float) and value > 0 else text


def duration(seconds: float | None) -> str:
    """The two largest units: 27 s, 1 min 24 s, 3 h 5 min, 2 d 4 h."""
    if seconds is None:
        return NONE
    whole = max(0, round(seconds))
    for size, name, below, below_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {name} {rest} {below_name}" if rest else f"{whole // size} {name}"
    return f"{whole} s"


def size(count: int | None) -> str:
    """Bytes in powers of 1,000: 512 B, 1.4 MB."""
    if count is None:
        return NONE
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
