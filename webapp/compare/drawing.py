"""Curves of groups as an SVG picture without scripts: for exports and papers."""

from collections.abc import Mapping, Sequence
from math import log10
from typing import Any

from webapp.compare.parallel import tick_text

WIDE, HIGH, LEFT, BOTTOM, TOP, RIGHT = 760, 280, 56, 26, 10, 10
TICKS = 5


def curves_drawn(curves: Mapping[str, Any], log: bool) -> dict[str, Any] | None:
    """Return {"width", "height", "left", "right", "bottom", "groups": [{"label", "tone", "n", "bands", "lines"}], "rows":
    [(y, text)], "columns": [(x, text)]} of `curves_read`; None if there is nothing to draw.

    Bands and lines are points of SVG polygons and polylines, one per segment without a gap.
    """
    groups = curves["groups"]
    values = [
        value
        for group in groups
        for name in ("mean", "low", "high")
        for value in group[name] or []
        if value is not None and (value > 0 or not log)
    ]
    if not values:
        return None
    across = _Scale(min(curves["axis"]), max(curves["axis"]), LEFT, WIDE - RIGHT)
    upward = _Scale(min(values), max(values), HIGH - BOTTOM, TOP, log)
    return {
        "width": WIDE,
        "height": HIGH,
        "left": LEFT,
        "right": WIDE - RIGHT,
        "bottom": HIGH - BOTTOM,
        "groups": [_group(group, curves["axis"], across, upward) for group in groups],
        "rows": [(upward.at(value), tick_text(value)) for value in upward.ticks()],
        "columns": [(across.at(value), tick_text(value)) for value in across.ticks()],
    }


class _Scale:
    """Maps values to coordinates of the picture."""

    def __init__(self, low: float, high: float, first: float, last: float, log: bool = False) -> None:
        self.log, self.first, self.last = log, first, last
        self.low, self.high = (log10(low), log10(high)) if log else (float(low), float(high))

    def at(self, value: float) -> float:
        here = log10(value) if self.log else value
        share = (here - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(self.first + share * (self.last - self.first), 1)

    def ticks(self) -> list[float]:
        places = [self.low + step * (self.high - self.low) / (TICKS - 1) for step in range(TICKS)]
        return [10**position if self.log else position for position in dict.fromkeys(places)]


def _group(group: Mapping[str, Any], axis: Sequence[float], across: _Scale, upward: _Scale) -> dict[str, Any]:
    def stretches(values: Sequence[float | None]) -> list[list[tuple[float, float]]]:
        segments: list[list[tuple[float, float]]] = [[]]
        for x, value in zip(axis, values, strict=True):
            if value is None or (upward.log and value <= 0):
                segments.append([])
            else:
                segments[-1].append((across.at(x), upward.at(value)))
        return [points for points in segments if points]

    bands = []
    if group["low"]:
        # No band where only one of its bounds can be drawn (zero on a logarithmic axis).
        both = [
            (low, high) if not (upward.log and min(low or 1, high or 1) <= 0) else (None, None)
            for low, high in zip(group["low"], group["high"], strict=True)
        ]
        lows, highs = stretches([low for low, _ in both]), stretches([high for _, high in both])
        bands = [_points([*high, *reversed(low)]) for low, high in zip(lows, highs, strict=True)]
    return {
        "label": group["label"],
        "tone": group["tone"],
        "n": group["n"],
        "bands": bands,
        "lines": [_points(points) for points in stretches(group["mean"])],
    }


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)
