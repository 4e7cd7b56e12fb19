"""The compact timeline on a run's overview."""

from typing import Any

from django import template

from webapp.runs.models import Run
from webapp.timeline.services import timeline_latest
from webapp.timeline.views import iterations_shown, lanes_shown, waits_shown

register = template.Library()
ITERATIONS = 2
"""Number of lanes drawn."""
LANES = 8
"""Lanes beyond this are only counted."""


@register.inclusion_tag("timeline/_overview.html")
def timeline_overview(run: Run) -> dict[str, Any]:
    """Return the latest iterations' lanes, the longest wait and each iteration's waiting time."""
    timeline = timeline_latest(run, ITERATIONS)
    if timeline is None:
        return {"run": run, "lanes": []}
    lanes = lanes_shown(timeline)
    return {
        "run": run,
        "timeline": timeline,
        "lanes": lanes[:LANES],
        "more": len(lanes) - LANES,
        "wait": next((wait for wait, _ in waits_shown(timeline) if wait.awaited), None),
        "latest": next(iter(iterations_shown(timeline)), None),
    }
