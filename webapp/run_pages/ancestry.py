"""A fork and its ancestors on the fork's pages: their curves before the fork, and the parent's values to compare with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from webapp.accounts.permissions import Person
from webapp.metrics.chunks import Points
from webapp.metrics.selectors import points_read
from webapp.runs.models import Run
from webapp.runs.selectors import parent_shown

MOST_ANCESTORS = 5
"""Number of ancestors whose curves are drawn."""


@dataclass(frozen=True)
class Lead:
    """An ancestor whose curves lead in to those of a fork, up to the iteration of the fork."""

    run: Run
    until: int
    relation: str
    """"parent" or "ancestor"."""

    @property
    def label(self) -> str:
        """Return the label of its curves."""
        return f"{self.relation}: {self.run.name} until iteration {self.until}"

    def json(self) -> dict[str, Any]:
        """Return the data from which the browser loads and draws its curves."""
        return {"id": self.run.pk, "until": self.until, "label": self.label}


@dataclass(frozen=True)
class Versus:
    """The parent's value of a metric at the step of the fork's latest value."""

    value: float
    change: float
    step: int
    ended: bool
    """Whether it is the parent's last value, because the parent has none at a later step."""

    @property
    def reference(self) -> str:
        """Return what the fork is compared with."""
        return f"parent's last, step {self.step:,}" if self.ended else f"parent at step {self.step:,}"


def leads_of(user: Person, run: Run) -> list[Lead]:
    """Return the readable ancestors, the parent first; the chain ends at an ancestor that the user may not read."""
    leads: list[Lead] = []
    child, until = run, run.parent_iteration
    while len(leads) < MOST_ANCESTORS and (parent := parent_shown(user, child)):
        until = min(until, child.parent_iteration)
        leads.append(Lead(parent, until, "ancestor" if leads else "parent"))
        child = parent
    return leads


def versus_parent(
    parent: Run, series: Mapping[str, Mapping[str, Any]], keys: Sequence[str]
) -> dict[str, Versus]:
    """Return the comparisons of a fork's latest finite values with its parent's; without an entry if either has none."""
    matches = {}
    for key in keys:
        latest = _latest(series.get(key, {}))
        points = _current(points_read(parent, key)) if latest else None
        if latest and points is not None and (match := _versus(points, *latest)):
            matches[key] = match
    return matches


def _latest(columns: Mapping[str, Any]) -> tuple[int, float] | None:
    """Return step and value of the last point that is finite."""
    pairs = zip(columns.get("steps", []), columns.get("values", []), strict=True)
    return next((pair for pair in reversed(list(pairs)) if not isinstance(pair[1], str)), None)


def _versus(points: Points, step: int, value: float) -> Versus | None:
    before = np.flatnonzero(points.steps <= step)
    if not len(before):
        return None
    at = before[-1]
    theirs, their_step = float(points.values[at]), int(points.steps[at])
    return Versus(theirs, value - theirs, their_step, int(points.steps[-1]) < step)


def _current(points: Points) -> Points:
    """Return the finite points that no later attempt has replaced."""
    current = np.isfinite(points.values)
    for attempt in np.unique(points.attempts):
        first = points.steps[points.attempts == attempt].min()
        current &= ~((points.attempts < attempt) & (points.steps >= first))
    return Points(
        points.steps[current], points.values[current], points.times[current], points.attempts[current]
    )
