"""Lanes of the lineage: who stands where, and which lines pass whom."""

from webapp.checkpoints.drawing import lineage_drawing
from webapp.checkpoints.lineage import Kin
from webapp.runs.models import Run


def kin(name: str, at: int, now: int, *children: Kin) -> Kin:
    return Kin(Run(pk=name, name=name, iteration=now), at, children=list(children))


def test_forks_stand_below_and_lines_pass_between() -> None:
    grandchild = kin("c", 60, 100)
    drawing = lineage_drawing(kin("a", 0, 50, kin("b", 50, 80, grandchild), kin("d", 25, 40)))
    assert [lane.kin.run.pk for lane in drawing.lanes] == ["a", "b", "c", "d"]
    assert drawing.iterations == 100
    a, b, c, d = drawing.lanes
    assert (a.start, a.end) == (3.0, 50.0)
    assert (b.start, b.end, c.start, c.end) == (50.0, 78.2, 59.4, 97.0)
    assert (a.forks, b.forks, d.forks) == ([50.0, 26.5], [59.4], [])
    assert (b.passing, c.passing, d.passing) == ([26.5], [26.5], [])


def test_a_fork_that_has_not_begun_stands_where_it_was_forked() -> None:
    (_, fork) = lineage_drawing(kin("a", 0, 10, kin("b", 10, 0))).lanes
    assert fork.start == fork.end == 97.0
