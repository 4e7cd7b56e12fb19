"""Who worked when: the spans of a window of iterations, lane by lane, and how long each lane waited."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Max, Min

from webapp.runs.models import Phase, Run

WINDOW = 10
"""Iterations that are shown unless others are asked for."""
MOST_WINDOW = 200
MOST_SPANS = 5000


@dataclass
class Lane:
    """What one worker did for one policy (none: the driver), in order of time."""

    worker: str
    policy: str
    spans: list[Phase] = field(default_factory=list)

    def busy(self) -> dict[str, float]:
        """Seconds by phase."""
        spent: dict[str, float] = {}
        for span in self.spans:
            spent[span.phase] = spent.get(span.phase, 0.0) + span.end - span.start
        return spent

    def waited(self, start: float, end: float) -> float:
        """Seconds of the window in which no span of the lane was open; spans may overlap."""
        covered, reached = 0.0, start
        for span in sorted(self.spans, key=lambda span: span.start):
            covered += max(0.0, min(span.end, end) - max(span.start, reached))
            reached = max(reached, span.end)
        return max(0.0, end - start - covered)


@dataclass(frozen=True)
class Timeline:
    """A window of iterations; start and end in seconds since the epoch."""

    first: int
    last: int
    start: float
    end: float
    lanes: list[Lane]
    cut: bool
    """More than MOST_SPANS spans: the later ones are left out."""
    lowest: int
    highest: int
    """Iterations that the run has spans of."""

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return self.end - self.start


def timeline_read(run: Run, first: int | None = None, last: int | None = None) -> Timeline | None:
    """The spans of the iterations first ... last (default: the latest WINDOW); None where there are none at all."""
    bounds = Phase.objects.filter(run=run).aggregate(low=Min("iteration"), high=Max("iteration"))
    if bounds["high"] is None:
        return None
    last = bounds["high"] if last is None else last
    first = last - WINDOW + 1 if first is None else first
    first = max(first, last - MOST_WINDOW + 1, bounds["low"])
    found = Phase.objects.filter(run=run, iteration__gte=first, iteration__lte=last).order_by("start", "pk")
    spans = list(found[: MOST_SPANS + 1])
    shown = spans[:MOST_SPANS]
    return Timeline(
        first=first,
        last=last,
        start=min((span.start for span in shown), default=0.0),
        end=max((span.end for span in shown), default=0.0),
        lanes=_lanes(shown),
        cut=len(spans) > MOST_SPANS,
        lowest=bounds["low"],
        highest=bounds["high"],
    )


def _lanes(spans: Iterable[Phase]) -> list[Lane]:
    lanes: dict[tuple[str, str], Lane] = {}
    for span in spans:
        lanes.setdefault((span.worker, span.policy), Lane(span.worker, span.policy)).spans.append(span)
    return [lanes[key] for key in sorted(lanes, key=lambda key: (key[0] != "driver", key))]


def timeline_document(timeline: Timeline | None) -> dict[str, Any]:
    """JSON for the API: {"first", "last", "start", "end", "cut", "lanes": [{"worker", "policy", "busy", "waited", "spans"}]}."""
    if timeline is None:
        return {"first": None, "last": None, "start": None, "end": None, "cut": False, "lanes": []}
    lanes = [
        {
            "worker": lane.worker,
            "policy": lane.policy,
            "busy": lane.busy(),
            "waited": lane.waited(timeline.start, timeline.end),
            "spans": [
                {"phase": span.phase, "iteration": span.iteration, "start": span.start, "end": span.end}
                for span in lane.spans
            ],
        }
        for lane in timeline.lanes
    ]
    facts = {name: getattr(timeline, name) for name in ("first", "last", "start", "end", "cut")}
    return {**facts, "lanes": lanes}
