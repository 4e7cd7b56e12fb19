"""The lineage as lanes over iterations: a row per run, from where it was forked to where it is."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from webapp.checkpoints.lineage import Kin


@dataclass
class Lane:
    """One run. Places are percent of the drawing's width."""

    kin: Kin
    start: float
    end: float
    forks: list[float] = field(default_factory=list)
    """Where lines to its forks leave downwards."""
    passing: list[float] = field(default_factory=list)
    """Where lines from runs above to runs below pass."""


@dataclass(frozen=True)
class Drawing:
    """Lanes from top to bottom: a fork somewhere below the run that it was forked from."""

    lanes: list[Lane]
    iterations: int
    """Where the axis ends."""


def lineage_drawing(tree: Kin) -> Drawing:
    """Depth first, so that a run's forks stand right below it."""
    order = list(_walk(tree))
    last = max([1, *(max(kin.run.iteration, kin.iteration) for kin, _ in order)])
    lanes = [
        Lane(kin, _place(kin.iteration, last), _place(max(kin.run.iteration, kin.iteration), last))
        for kin, _ in order
    ]
    for place, (_, above) in enumerate(order):
        if above < 0:
            continue
        lanes[above].forks.append(lanes[place].start)
        for between in lanes[above + 1 : place]:
            between.passing.append(lanes[place].start)
    return Drawing(lanes, last)


def _walk(kin: Kin, above: int = -1, here: int = 0) -> Iterator[tuple[Kin, int]]:
    """(run, row of the run that it was forked from), from row `here` on."""
    yield kin, above
    row = here + 1
    for child in kin.children:
        for found in _walk(child, here, row):
            yield found
            row += 1


def _place(iteration: int, last: int) -> float:
    """A margin at both ends is left for the dots."""
    return round(3 + 94 * iteration / last, 2)
