"""A parallel coordinates plot: a vertical axis per field or metric, a line per run."""

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
