"""Formatting of numbers, times and sizes. static/js/format.js does the same in the browser."""

import json
import re
from math import isfinite, isnan
from typing import Any

from workers.sizing.estimates import size_text

MINUS = "\N{MINUS SIGN}"
NONE = "\N{EN DASH}"
COUNTS = re.compile(
    r"(progress/.+|rollout/(failed|overlong|dropped|rejected|waiting|left_out)"
    r"|(eval|eval_sampled)/(failed|overlong|unscored)|rewards/(timeouts|unscored)"
    r"|((eval|eval_sampled)/)?judge/(requests|cached|failures|\w+_tokens)"
    r"|policy/[^/]+/(tokens|computed_tokens|micro_batch_tokens|trained_groups|skipped_steps|overflowed_steps)"
    r"|buffer/(current_size|max_size|total_\w+|open_groups|ready_groups|groups_\w+))(:\w+)?"
)
"""Metrics that count something, also with a measure (":max"); their means need not be whole numbers."""
AVERAGES = re.compile(r"(train|eval|eval_sampled)/(return|success|length|[^/]+/reward)(:\w+)?")
"""Metrics that Troupe averages over episodes: NaN if an iteration has no complete episode."""
LARGE = 1e12
"""Numbers of at least this size have an exponent, so that they fit their cell."""
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
        return _large(value) if abs(value) >= LARGE else f"{value:,}".replace("-", MINUS)
    if not isfinite(value):
        return WORDS["NaN"] if isnan(value) else WORDS["Infinity" if value > 0 else "-Infinity"]
    return _finite(value).replace("-", MINUS)


def _large(value: float) -> str:
    return f"{value:.2e}".replace("e+", "e").replace("-", MINUS)


def _finite(value: float) -> str:
    size = abs(value)
    if size >= LARGE:
        return _large(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.1f}"
    if size >= 0.01 or size == 0:
        return f"{value or 0.0:.2f}"  # 0.0 for -0.0
    return f"{value:.4f}" if size >= 0.001 else f"{value:.1e}".replace("e-0", "e-")


def figure(value: Any, key: str = "") -> str:
    """Format the value of the metric `key` as `number`: a count without decimals, and NaN of an average of episodes as missing."""
    if (value == "NaN" or value != value) and AVERAGES.fullmatch(key):
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
    if abs(value) >= LARGE:
        return _large(value)
    return f"{round(value, 2) or 0.0:.2f}".replace("-", MINUS)  # -0.00 is 0.00


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
