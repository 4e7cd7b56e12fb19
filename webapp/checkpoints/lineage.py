"""The tree of forked runs, and its drawing: a lane per run over the iterations."""

from dataclasses import dataclass, field

from django.urls import reverse

from troupe_client.documents.checkpoints import Lineage
from webapp.accounts.permissions import Person
from webapp.runs.models import Run
from webapp.runs.selectors import runs_visible

DEEPEST = 50
"""Maximum number of generations, in both directions."""
MOST = 200
"""Maximum number of descendants."""


@dataclass
class Kin:
    """A run in the lineage, with its forks."""

    run: Run
    iteration: int
    """Iteration of the fork; 0 for a run that started from the base model."""
    here: bool = False
    children: list["Kin"] = field(default_factory=list)

    @property
    def finding(self) -> str | None:
        """The health rule that suggested the fork, if any."""
        return next((finding.rule for finding in self.run.findings_answered.all()), None)

    @property
    def end(self) -> int:
        """The current iteration; that of the fork before the first one."""
        return max(self.run.iteration, self.iteration)


def lineage_document(kin: Kin) -> Lineage:
    """Return the document of a run and its forks."""
    run = kin.run
    return Lineage(
        id=run.pk,
        name=run.name,
        state=run.state,
        forked_at=kin.iteration if run.parent_id else None,
        finding=kin.finding,
        success=run.headline.get("eval/success"),
        return_=run.headline.get("eval/return"),
        here=kin.here,
        page=reverse("runs:detail", args=[run.pk]),
        forks=[lineage_document(child) for child in kin.children],
    )


def lineage_read(user: Person, run: Run, forks: bool = True) -> Kin:
    """Return the tree from the run's oldest ancestor to all its descendants; only runs visible to the user.

    Side branches of ancestors are omitted. forks: whether it may have descendants.
    """
    top = _with_forks(user, run) if forks else Kin(run, run.parent_iteration, here=True)
    for _ in range(DEEPEST):
        parent = top.run.parent_id and runs_visible(user).filter(pk=top.run.parent_id).first()
        if not parent:
            return top
        top = Kin(parent, parent.parent_iteration, children=[top])
    return top


def lineage_shown(user: Person, run: Run, forks: bool = True) -> Kin | None:
    """Return the tree for a page; None for a run without relatives. forks: whether it may have descendants."""
    tree = lineage_read(user, run, forks)
    return tree if tree.children or tree.run != run else None


def _with_forks(user: Person, run: Run) -> Kin:
    root = Kin(run, run.parent_iteration, here=True)
    level, count = {run.pk: root}, 0
    for _ in range(DEEPEST):
        forks = runs_visible(user).filter(parent__in=list(level)).order_by("created_at")
        forks = forks.prefetch_related("findings_answered")[: MOST - count]
        below = {fork.pk: Kin(fork, fork.parent_iteration) for fork in forks}
        for kin in below.values():
            level[str(kin.run.parent_id)].children.append(kin)
        level, count = below, count + len(below)
        if not below or count >= MOST:
            break
    return root


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


@dataclass
class Drawing:
    """Lanes in depth-first order: a run's forks are directly below it."""

    iterations: int
    """Iteration at the end of the axis."""
    lanes: list[Lane] = field(default_factory=list)

    def add(self, kin: Kin, above: int | None = None) -> None:
        """Add the lanes of a run and its forks; above: row of its parent."""
        row, start = len(self.lanes), self._place(kin.iteration)
        if above is not None:
            self.lanes[above].forks.append(start)
            for between in self.lanes[above + 1 :]:
                between.passing.append(start)
        self.lanes.append(Lane(kin, start, self._place(kin.end)))
        for child in kin.children:
            self.add(child, row)

    def _place(self, iteration: int) -> float:
        """Return the position with a margin at both ends for the dots."""
        return round(3 + 94 * iteration / self.iterations, 2)


def lineage_drawing(tree: Kin) -> Drawing:
    """Return the drawing of a tree."""
    drawing = Drawing(max(1, _last(tree)))
    drawing.add(tree)
    return drawing


def _last(kin: Kin) -> int:
    return max(kin.end, *map(_last, kin.children), 0)
