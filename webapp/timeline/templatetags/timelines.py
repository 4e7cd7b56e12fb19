"""The compact timeline on a run's overview."""

from typing import Any

from django import template

from webapp.runs.models import Run
from webapp.timeline.drawing import iterations_show, lanes_draw, waits_show
from webapp.timeline.selectors import timeline_latest

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
    lanes = lanes_draw(timeline)
    return {
        "run": run,
        "timeline": timeline,
        "lanes": lanes[:LANES],
        "more": len(lanes) - LANES,
        "wait": next((wait for wait in waits_show(timeline) if wait["awaited"]), None),
        "latest": next(iter(iterations_show(timeline)), None),
    }
