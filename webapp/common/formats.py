"""Formatting of numbers, times and sizes. static/js/format.js does the same in the browser."""

import json
import re
from math import isfinite, isnan
from typing import Any

from workers.sizing.size_text import size_text

MINUS = "\N{MINUS SIGN}"
NONE = "\N{EN DASH}"
COUNTS = re.compile(
    r"(progress/.+|rollout/(failed|overlong|dropped|rejected|waiting|left_out)"
    r"|(eval|eval_sampled)/(failed|overlong|unscored)|rewards/(timeouts|unscored)"
    r"|policy/[^/]+/(tokens|computed_tokens|trained_groups|skipped_steps|overflowed_steps)"
    r"|buffer/(current_size|max_size|total_\w+|open_groups|ready_groups|groups_\w+))(:\w+)?"
)
"""Metrics that count something, also with a measure (":max"); their means need not be whole numbers."""
WORDS = {"NaN": "NaN", "Infinity": "\N{INFINITY}", "-Infinity": f"{MINUS}\N{INFINITY}"}


def number(value: Any) -> str:
    """Format a number with two decimals where they matter, so that columns align: 0.91, 12.40, 8,412, 0.0012; a true minus sign.

    A value that is not a number, such as another config value, is written as JSON.
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
    return f"{value:.4f}" if size >= 0.001 else f"{value:.1e}".replace("e-0", "e-")


def figure(value: Any, key: str = "") -> str:
    """Format the value of the metric `key` as `number`: a count without decimals, and NaN as a missing value."""
    if (
        value == "NaN" or value != value
    ):  # an average of nothing, as the return of an iteration without a complete episode
        return NONE
    if isinstance(value, float) and value.is_integer() and COUNTS.fullmatch(key):
        return number(int(value))
    return number(value)


def change(value: Any, key: str = "") -> str:
    """Format the change of the metric `key` as `figure`, with a plus sign for positive values."""
    text = figure(value, key)
    return f"+{text}" if isinstance(value, int | float) and value > 0 else text


def hours(value: float | None) -> str:
    """Format hours as `number`; a small amount as "< 0.01"."""
    return "< 0.01" if value is not None and 0 < value < 0.01 else number(value)


def signed(value: float | str | None) -> str:
    """Format as `number`, with a plus sign for positive values."""
    text = number(value)
    return f"+{text}" if isinstance(value, int | float) and value > 0 else text


def fixed(value: float | str | None) -> str:
    """Format with two decimals, for aligned columns of numbers."""
    if not isinstance(value, int | float) or not isfinite(value):
        return number(value)
    return f"{value:.2f}".replace("-", MINUS)


def reward(value: float | str | None) -> str:
    """Format as `fixed`, with a plus sign for positive values."""
    text = fixed(value)
    return f"+{text}" if isinstance(value, int | float) and value > 0 else text


def duration(seconds: float | None) -> str:
    """Format with the two largest units: 27 s, 1 min 24 s, 3 h 5 min, 2 d 4 h."""
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
    """Format bytes in powers of 1,000: 512 B, 1.4 MB."""
    return NONE if count is None else size_text(count)
