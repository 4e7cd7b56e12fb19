"""Live charts of a run in a notebook: inline SVG without scripts, updated in place while the program logs.

IPython is imported on use; it is not a dependency.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import isfinite
from threading import Lock
from typing import Any

from training_core.errors import TroupeError

Show = Callable[[str], Callable[[str], Any]]
"""Displays HTML in the current cell, and returns a function that replaces it."""
Point = tuple[float, float]
"""Step and value."""
EVERY = 1.0
"""Seconds between two updates, at least."""
MOST_CHARTS = 6
"""Number of charts if no metric is named."""
BUCKETS = 200
WIDTH, HEIGHT = 220, 72


@dataclass
class Curve:
    """The curve of one metric: the smallest and the largest point of each of at most BUCKETS buckets of successive points."""

    buckets: list[tuple[Point, Point]] = field(default_factory=list)
    last: Point = (0.0, 0.0)
    _size: int = 1
    """Points of a full bucket."""
    _filled: int = 0
    """Points of the last bucket."""

    def add(self, step: float, value: float) -> None:
        """Add a finite value."""
        self.last = point = (step, value)
        if self.buckets and self._filled < self._size:
            self.buckets[-1] = _merged(self.buckets[-1], (point, point))
            self._filled += 1
            return
        if len(self.buckets) == BUCKETS:
            pairs = zip(self.buckets[::2], self.buckets[1::2], strict=True)
            self.buckets = [_merged(*pair) for pair in pairs]
            self._size *= 2
        self.buckets.append((point, point))
        self._filled = 1

    def extend(self, points: Iterable[Point]) -> None:
        """Add the points whose values are finite."""
        for step, value in points:
            if isfinite(value):
                self.add(float(step), float(value))

    def points(self) -> list[Point]:
        """Return the points in the order of their steps."""
        return sorted({self.last, *(point for bucket in self.buckets for point in bucket)})


class LiveCharts:
    """Charts of metrics in the output of a cell. `names`: those shown; empty: the first ones that are logged."""

    def __init__(
        self, head: str, names: Sequence[str], show: Show, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._head, self._clock = head, clock
        self._named = bool(names)
        self._curves = {name: Curve() for name in names}
        self._lock = Lock()
        self._update = show(self._html())
        self._due = clock()

    def note(self, step: int, values: Mapping[str, float]) -> None:
        """Add the values of a step; NaN and infinities are left out. Updates the charts if the last update is old enough."""
        with self._lock:
            for name, value in values.items():
                if not isfinite(value):
                    continue
                if name not in self._curves and not self._named and len(self._curves) < MOST_CHARTS:
                    self._curves[name] = Curve()
                if name in self._curves:
                    self._curves[name].add(float(step), float(value))
            if self._clock() < self._due:
                return
            self._due = self._clock() + EVERY
        self.draw()

    def draw(self) -> None:
        """Update the charts."""
        with self._lock:
            page = self._html()
        self._update(page)

    def _html(self) -> str:
        return charts_html(self._head, self._curves)


def charts_html(head: str, curves: Mapping[str, Curve]) -> str:
    """Return the charts of curves that have points, below a head in HTML."""
    charts = [_chart(name, curve) for name, curve in curves.items() if curve.buckets]
    body = "".join(charts) or "The charts appear with the first values."
    return f'<div>{head}</div><div style="display:flex;flex-wrap:wrap;gap:16px;margin-top:8px">{body}</div>'


def notebook_show(page: str) -> Show:
    """Return the function that displays HTML in the current cell. Raises TroupeError outside a notebook; `page`: what to open instead."""
    try:
        from IPython import display, get_ipython
    except ImportError:
        shell = None
    else:
        shell = get_ipython()
    if getattr(shell, "kernel", None) is None:
        raise TroupeError(f"live charts need a notebook (Jupyter, Colab); elsewhere, see {page}")

    def show(html: str) -> Callable[[str], Any]:
        handle = display.display(display.HTML(html), display_id=True)
        return lambda later: handle.update(display.HTML(later))

    return show


def _merged(one: tuple[Point, Point], two: tuple[Point, Point]) -> tuple[Point, Point]:
    """Return the smallest and the largest point of two buckets."""
    return min(one[0], two[0], key=lambda point: point[1]), max(one[1], two[1], key=lambda point: point[1])


def _chart(name: str, curve: Curve) -> str:
    """Return the name, the last value, and the curve in the colour of the text, with its smallest and largest value."""
    points = curve.points()
    steps, values = [step for step, _ in points], [value for _, value in points]
    low, high, first, end = min(values), max(values), steps[0], steps[-1]
    wide, tall = (end - first) or 1.0, (high - low) or 1.0
    line = " ".join(
        f"{WIDTH * (step - first) / wide:.1f},{HEIGHT - HEIGHT * (value - low) / tall:.1f}"
        for step, value in points
    )
    title, small = escape(name), 'style="font-size:11px;opacity:.7"'
    return (
        f'<div style="width:{WIDTH}px;color:inherit"><div style="overflow-wrap:anywhere">{title} <b>{curve.last[1]:.4g}</b></div>'
        f'<svg width="{WIDTH}" height="{HEIGHT + 4}" viewBox="0 -2 {WIDTH} {HEIGHT + 4}" role="img" aria-label="{title}">'
        f'<polyline points="{line}" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round"/></svg>'
        f"<div {small}>step {first:.0f} to {end:.0f}, {low:.4g} to {high:.4g}</div></div>"
    )
