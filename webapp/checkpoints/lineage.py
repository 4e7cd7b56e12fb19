"""The tree of forked runs."""

from dataclasses import dataclass, field
from typing import Any

from django.urls import reverse

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

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "id": self.run.pk,
            "name": self.run.name,
            "state": self.run.state,
            "forked_at": self.iteration if self.run.parent_id else None,
            "finding": self.finding,
            "success": self.run.headline.get("eval/success"),
            "return": self.run.headline.get("eval/return"),
            "here": self.here,
            "page": reverse("runs:detail", args=[self.run.pk]),
            "forks": [child.document() for child in self.children],
        }


def lineage(user: Person, run: Run, forks: bool = True) -> Kin:
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
    tree = lineage(user, run, forks)
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
