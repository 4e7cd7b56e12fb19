"""Pictures of comparisons as SVG: curves of groups without scripts, for exports and papers, and parallel coordinates."""

from collections.abc import Mapping, Sequence
from math import log10
from typing import Any

from webapp.common.formats import number
from webapp.compare.table import Axis

WIDE, HIGH, TOP, BOTTOM, SIDE = 1100, 360, 44, 16, 70
NARROWEST = 130
"""Distance between two axes."""


def parallel_drawn(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"width", "height", "top", "bottom", "axes": [{"x", "axis", "ticks": [(y, text)], "brush": (y, height)}], "lines"}.

    A line is a list of points of SVG polylines, one per sequence of axes on which the run has values.
    """
    axes = table["axes"]
    width = max(WIDE, NARROWEST * len(axes))
    xs = [SIDE + index * (width - 2 * SIDE) / max(1, len(axes) - 1) for index in range(len(axes))]
    return {
        "width": width,
        "height": HIGH,
        "top": TOP,
        "bottom": HIGH - BOTTOM,
        "span": HIGH - BOTTOM - TOP,
        "axes": [_axis_drawn(axis, x) for axis, x in zip(axes, xs, strict=True)],
        "lines": [
            {"row": row, "stretches": _stretches(xs, row["places"])}
            for row in sorted(table["rows"], key=lambda row: bool(row["kept"]))
        ],
    }


def height_of(position: float) -> float:
    """Convert a position from 0 to 1 to a y coordinate."""
    return round(HIGH - BOTTOM - position * (HIGH - BOTTOM - TOP), 1)


def tick_text(value: float) -> str:
    """Format an axis tick; integers without decimals."""
    return number(int(value) if value == int(value) else value)


def _axis_drawn(facts: Mapping[str, Any], x: float) -> dict[str, Any]:
    axis = Axis(**{name: value for name, value in facts.items() if name != "brush"})
    values: Sequence[Any] = axis.categories if axis.kind == "category" else _ticks(axis)
    ticks = [
        (height_of(axis.place(value) or 0.0), value if axis.kind == "category" else tick_text(value))
        for value in values
    ]
    brush = _brush(axis, facts["brush"])
    x = round(x, 1)
    return {"x": x, "brush_x": x - 8, "grip_x": x - 14, "axis": facts, "ticks": ticks, "brush": brush}


def _ticks(axis: Axis) -> list[float]:
    """Return the bounds and three values between them."""
    if axis.low == axis.high:
        return [axis.low]
    shares = (0, 0.25, 0.5, 0.75, 1)
    if axis.log:
        low, high = log10(axis.low), log10(axis.high)
        inner = [10 ** (low + share * (high - low)) for share in shares[1:-1]]
    else:
        inner = [axis.low * (1 - share) + axis.high * share for share in shares[1:-1]]
    return [axis.low, *inner, axis.high]


def _brush(axis: Axis, brush: Sequence[Any] | None) -> tuple[float, float] | None:
    """Return top and height of the selected range."""
    if not brush or axis.low == axis.high:
        return None
    if axis.kind == "category":
        places = [axis.place(value) or 0.0 for value in brush if value in axis.categories]
        if not places:
            return None
        low, high = max(0.0, min(places) - 0.03), min(1.0, max(places) + 0.03)
    else:
        low, high = (axis.place(min(max(value, axis.low), axis.high)) or 0.0 for value in brush)
    return height_of(high), round(height_of(low) - height_of(high), 1)


def _stretches(xs: Sequence[float], places: Sequence[float | None]) -> list[str]:
    segments: list[list[str]] = [[]]
    for x, position in zip(xs, places, strict=True):
        if position is None:
            segments.append([])
        else:
            segments[-1].append(f"{x:.1f},{height_of(position)}")
    return [" ".join(points) for points in segments if points]


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
