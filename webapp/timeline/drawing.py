"""The lanes as a picture: bars in a coordinate system of width 1000."""

from typing import Any

from webapp.common.formats import duration
from webapp.timeline.selectors import Timeline
from webapp.timeline.spans import Lane, LaneSpan

WIDTH = 1000.0
LEAST = 0.6
"""Width of the shortest bar, so that all bars are visible."""
MOST_ROWS = 12
"""Number of listed waits."""


def lanes_draw(timeline: Timeline) -> list[dict[str, Any]]:
    """Return one row per lane: {"worker", "policy", "bars", "shares", "waited", "device", "compute"}; shares and waited in percent
    of the window.
    """
    return [_row(lane, timeline) for lane in timeline.lanes]


def waits_show(timeline: Timeline) -> list[dict[str, Any]]:
    """Return the longest waits: {"waiter", "awaited", "seconds", "percent" of the window}."""
    whole = timeline.seconds or 1.0
    return [
        {
            "waiter": wait.waiter,
            "awaited": wait.awaited,
            "seconds": wait.seconds,
            "percent": 100 * wait.seconds / whole,
        }
        for wait in timeline.waits[:MOST_ROWS]
    ]


def iterations_show(timeline: Timeline) -> list[dict[str, Any]]:
    """Return the latest iterations of the window: number, seconds, mean wait in percent, and the lane that waited most."""
    rows = []
    for iteration in reversed(timeline.iterations[-MOST_ROWS:]):
        most = max(iteration.shares, key=lambda label: iteration.shares[label], default="")
        rows.append(
            {
                "iteration": iteration.iteration,
                "seconds": iteration.end - iteration.start,
                "mean": 100 * iteration.mean,
                "most": most,
                "percent": 100 * iteration.shares.get(most, 0.0),
            }
        )
    return rows


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
        "bars": [_bar(span, timeline, whole) for span in lane.spans],
        "shares": shares,
        "waited": 100 * waited / whole,
        "device": timeline.devices.get(lane.worker),
        "compute": [
            {"phase": phase, "said": total.said} for phase, total in timeline.compute[lane.label].items()
        ],
    }


def _bar(span: LaneSpan, timeline: Timeline, whole: float) -> dict[str, str]:
    start, end = max(span.start, timeline.start), min(span.end, timeline.end)
    return {
        "phase": span.phase,
        "x": f"{WIDTH * (start - timeline.start) / whole:.2f}",
        "width": f"{max(LEAST, WIDTH * (end - start) / whole):.2f}",
        "title": f"{span.phase}, iteration {span.iteration}: {duration(span.end - span.start)}",
    }
