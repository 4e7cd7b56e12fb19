"""Curves of small networks side by side: `python -m tests.benchmarks.marl_curves FOLDER [--svg FILE] [--bars -45 -30]`.

Reads the CSV files that `python -m tests.benchmarks.marl_learning PRESET ... --out FOLDER` wrote and prints two tables in Markdown, the
return of an episode after so many environment steps and after so many CPU seconds, as mean ± standard deviation over seeds, with
sampled returns behind a slash, and when each seed first passed the bars. `--svg` draws the same, steps to the left and time to the right:
a line is the mean over seeds of greedy returns, its band goes from the worst seed to the best one.
"""

import argparse
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean

from tests.benchmarks.marl_learning import Curve, Point, over_seeds, passed, read

STEPS = (200_000, 500_000, 1_000_000, 2_000_000, 3_000_000, 4_800_000)
SECONDS = (15, 30, 60, 120, 180)
COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea")
WIDTH, HEIGHT, LEFT, TOP, ROOM = 420, 260, 56, 30, 470
"""Of a panel, its place, and what the next one is further to the right: pixels."""

Clock = Callable[[Point], float]


def steps(point: Point) -> float:
    """Millions of environment steps."""
    return point.steps / 1e6


def seconds(point: Point) -> float:
    """CPU seconds."""
    return point.cpu


def value(curve: Curve, clock: Clock, at: float, kind: str = "greedy") -> float | None:
    """The first role's return at a time between two evaluations, on the straight line between them; None outside of the curve."""
    times = [clock(point) for point in curve.points]
    place = bisect_left(times, at)
    if place == len(times) or (place == 0 and times[0] != at):
        return None
    after = first(curve.points[place], kind)
    if times[place] == at:
        return after
    share = (at - times[place - 1]) / (times[place] - times[place - 1])
    return first(curve.points[place - 1], kind) * (1 - share) + after * share


def first(point: Point, kind: str) -> float:
    """The first role's return."""
    found: dict[str, float] = getattr(point, kind)
    return next(iter(found.values()))


def table(groups: dict[str, list[Curve]], clock: Clock, marks: Sequence[float], unit: str) -> str:
    """One line per preset; a cell needs all of its seeds."""
    lines = [f"| preset | seeds | {' | '.join(f'{mark:g} {unit}' for mark in marks)} |"]
    lines.append("|---|---:|" + "---:|" * len(marks))
    for preset, curves in groups.items():
        cells = [cell(curves, clock, mark) for mark in marks]
        lines.append(f"| `{preset}` | {len(curves)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(curves: list[Curve], clock: Clock, mark: float) -> str:
    """Greedy mean ± deviation over seeds, and the sampled mean."""
    greedy = [value(curve, clock, mark) for curve in curves]
    sampled = [value(curve, clock, mark, "sampled") for curve in curves]
    known = [number for number in greedy if number is not None]
    if len(known) < len(curves):
        return ""
    return f"{over_seeds(known)} / {mean(number for number in sampled if number is not None):.2f}"


def picture(groups: dict[str, list[Curve]], bars: Sequence[float]) -> str:
    """Both panels as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + ROOM + WIDTH + 20} {TOP + HEIGHT + 60}" '
        'font-family="sans-serif" font-size="12" fill="#444">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for place, (clock, name) in enumerate([(steps, "million environment steps"), (seconds, "CPU seconds")]):
        parts += panel(groups, clock, name, LEFT + place * ROOM, bars)
    for place, preset in enumerate(groups):
        x = LEFT + 10 + place * 130
        parts.append(f'<path d="M{x} 14h20" stroke="{COLOURS[place]}" stroke-width="2"/>')
        parts.append(f'<text x="{x + 26}" y="18">{preset}</text>')
    return "\n".join([*parts, "</svg>\n"])


def panel(
    groups: dict[str, list[Curve]], clock: Clock, name: str, left: float, bars: Sequence[float]
) -> list[str]:
    """One panel: axes, bars, bands, lines."""
    every = [curve for curves in groups.values() for curve in curves]
    end = max(clock(curve.points[-1]) for curve in every)
    returns = [first(point, "greedy") for curve in every for point in curve.points] + list(bars)
    low, high = min(returns) - 1, max(returns) + 1

    def x(at: float) -> float:
        return left + WIDTH * at / end

    def y(at: float) -> float:
        return TOP + HEIGHT * (high - at) / (high - low)

    def path(points: list[tuple[float, float]]) -> str:
        return "M" + " L".join(f"{x(at):.1f} {y(number):.1f}" for at, number in points)

    parts = [
        f'<rect x="{left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#ccc"/>',
        f'<text x="{left + WIDTH / 2}" y="{TOP + HEIGHT + 38}" text-anchor="middle">{name}</text>',
    ]
    for at in ticks(0.0, end):
        parts.append(f'<text x="{x(at):.0f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{at:g}</text>')
    for at in ticks(low, high):
        parts.append(f'<text x="{left - 6}" y="{y(at) + 4:.1f}" text-anchor="end">{at:g}</text>')
        parts.append(f'<path d="M{left} {y(at):.1f}h{WIDTH}" stroke="#eee"/>')
    for bar in bars:
        parts.append(f'<path d="M{left} {y(bar):.1f}h{WIDTH}" stroke="#b91c1c" stroke-dasharray="4 4"/>')
        parts.append(f'<text x="{left + WIDTH - 6}" y="{y(bar) - 4:.1f}" text-anchor="end">{bar:g}</text>')
    for colour, curves in zip(COLOURS, groups.values(), strict=False):
        rows = spread(curves, clock, end)
        band = [(at, best) for at, _, _, best in rows] + [(at, worst) for at, worst, _, _ in reversed(rows)]
        parts.append(f'<path d="{path(band)}Z" fill="{colour}" fill-opacity="0.15"/>')
        middle = path([(at, centre) for at, _, centre, _ in rows])
        parts.append(f'<path d="{middle}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return parts


def ticks(low: float, high: float) -> list[float]:
    """At most seven round numbers between both."""
    scale = 10.0 ** math.floor(math.log10(high - low) - 1)
    step = next(scale * times for times in (1, 2, 5, 10, 20, 50) if (high - low) / (scale * times) <= 6)
    return [step * place for place in range(math.ceil(low / step), math.floor(high / step) + 1)]


def spread(curves: list[Curve], clock: Clock, end: float) -> list[tuple[float, float, float, float]]:
    """Time, worst seed, mean, best seed, wherever all seeds have a value."""
    rows = []
    for at in [end * part / 200 for part in range(201)]:
        found = [number for curve in curves if (number := value(curve, clock, at)) is not None]
        if len(found) == len(curves):
            rows.append((at, min(found), mean(found), max(found)))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--svg", type=Path, help="file of the picture")
    parser.add_argument("--bars", type=float, nargs="*", default=[-45.0, -30.0], help="dashed lines")
    options = parser.parse_args(arguments)
    groups: dict[str, list[Curve]] = {}
    for file in sorted(options.folder.glob("*.csv")):
        curve = read(file)
        groups.setdefault(curve.preset, []).append(curve)
    print(table(groups, steps, [mark / 1e6 for mark in STEPS], "M steps"))
    print()
    print(table(groups, seconds, SECONDS, "s"))
    for preset, curves in groups.items():
        print(f"\n{preset}: {'; '.join(passed(curves, bar) for bar in options.bars)}")
    if options.svg:
        options.svg.write_text(picture(groups, options.bars))


if __name__ == "__main__":
    main()
