"""The lineage as lanes over iterations: a row per run, from its fork point to its current iteration."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from webapp.checkpoints.lineage import Kin


@dataclass
class Lane:
    """One run. Positions are percent of the drawing's width."""

    kin: Kin
    start: float
    end: float
    forks: list[float] = field(default_factory=list)
    """Positions at which lines to its forks start downwards."""
    passing: list[float] = field(default_factory=list)
    """Positions at which lines from runs above to runs below pass."""


@dataclass(frozen=True)
class Drawing:
    """Lanes from top to bottom: a fork is below its parent."""

    lanes: list[Lane]
    iterations: int
    """Iteration at the end of the axis."""


def lineage_drawing(tree: Kin) -> Drawing:
    """Return the drawing in depth-first order, so that a run's forks are directly below it."""
    order = list(_walk(tree))
    last = max([1, *(max(kin.run.iteration, kin.iteration) for kin, _ in order)])
    lanes = [
        Lane(kin, _place(kin.iteration, last), _place(max(kin.run.iteration, kin.iteration), last))
        for kin, _ in order
    ]
    for row, (_, above) in enumerate(order):
        if above < 0:
            continue
        lanes[above].forks.append(lanes[row].start)
        for between in lanes[above + 1 : row]:
            between.passing.append(lanes[row].start)
    return Drawing(lanes, last)


def _walk(kin: Kin, above: int = -1, here: int = 0) -> Iterator[tuple[Kin, int]]:
    """Yield (run, row of its parent), from row `here` on."""
    yield kin, above
    row = here + 1
    for child in kin.children:
        for entry in _walk(child, here, row):
            yield entry
            row += 1


def _place(iteration: int, last: int) -> float:
    """Return the position with a margin at both ends for the dots."""
    return round(3 + 94 * iteration / last, 2)
