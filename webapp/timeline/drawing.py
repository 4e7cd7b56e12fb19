"""The lanes as a picture: bars in a coordinate system 1000 wide."""

from typing import Any

from webapp.common.formats import duration
from webapp.timeline.selectors import Lane, Timeline

WIDTH = 1000.0
LEAST = 0.6
"""Width of the shortest bar, so that none is invisible."""


def lanes_draw(timeline: Timeline) -> list[dict[str, Any]]:
    """One row per lane: {"worker", "policy", "bars", "shares", "waited"}; shares and waited in percent of the window."""
    return [_row(lane, timeline) for lane in timeline.lanes]


def _row(lane: Lane, timeline: Timeline) -> dict[str, Any]:
    whole = timeline.seconds or 1.0
    shares = [
        {"phase": phase, "seconds": seconds, "percent": 100 * seconds / whole}
        for phase, seconds in sorted(lane.busy().items(), key=lambda item: -item[1])
    ]
    waited = lane.waited(timeline.start, timeline.end)
    return {
        "worker": lane.worker,
        "policy": lane.policy,
        "bars": [
            {
                "phase": span.phase,
                "x": f"{WIDTH * (span.start - timeline.start) / whole:.2f}",
                "width": f"{max(LEAST, WIDTH * (span.end - span.start) / whole):.2f}",
                "title": f"{span.phase}, iteration {span.iteration}: {duration(span.end - span.start)}",
            }
            for span in lane.spans
        ],
        "shares": shares,
        "waited": 100 * waited / whole,
    }
