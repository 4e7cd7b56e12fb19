"""Spans of work and their lanes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class LaneSpan(NamedTuple):
    """An interval of one worker's time; seconds since the epoch."""

    phase: str
    iteration: int
    start: float
    end: float
    flops: float | None = None
    """Model FLOPs, if they are counted."""
    peak: float | None = None
    """Peak FLOP/s of the worker's device, if known."""

    def document(self) -> dict[str, Any]:
        """Return JSON; unknown values are omitted."""
        return {name: value for name, value in self._asdict().items() if value is not None}


@dataclass
class Lane:
    """The work of one worker for one policy (none: the driver), in order of time."""

    worker: str
    policy: str
    spans: list[LaneSpan] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Worker and policy; the policy is omitted if it is part of the worker's name."""
        policy_named = not self.policy or f"-{self.policy}-" in f"-{self.worker}-"
        return self.worker if policy_named else f"{self.worker} {self.policy}"

    def busy(self) -> dict[str, float]:
        """Seconds by phase."""
        spent: dict[str, float] = {}
        for span in self.spans:
            spent[span.phase] = spent.get(span.phase, 0.0) + span.end - span.start
        return spent

    def covered(self, start: float, end: float) -> list[tuple[float, float]]:
        """Return disjoint intervals of the window in which the lane worked, in order; spans may overlap."""
        return union(((span.start, span.end) for span in self.spans), start, end)

    def waited(self, start: float, end: float) -> float:
        """Return the seconds of the window without a span of the lane."""
        return max(0.0, end - start - sum(last - first for first, last in self.covered(start, end)))


def union(stretches: Iterable[tuple[float, float]], start: float, end: float) -> list[tuple[float, float]]:
    """Return the intersection of the intervals with the window, in order and without overlaps."""
    covered: list[tuple[float, float]] = []
    for first, last in sorted(stretches):
        first, last = max(first, start), min(last, end)
        if last <= first:
            continue
        if covered and first <= covered[-1][1]:
            covered[-1] = (covered[-1][0], max(covered[-1][1], last))
        else:
            covered.append((first, last))
    return covered


def lanes_make(rows: Iterable[tuple[str, str, LaneSpan]]) -> list[Lane]:
    """Group (worker, policy, span) in order of time into lanes; the driver's first, names in natural order."""
    lanes: dict[tuple[str, str], Lane] = {}
    for worker, policy, span in rows:
        lanes.setdefault((worker, policy), Lane(worker, policy)).spans.append(span)
    return [
        lanes[key] for key in sorted(lanes, key=lambda key: (key[0] != "driver", _natural(key[0]), key[1]))
    ]


def lanes_thin(lanes: Sequence[Lane], most: int, seconds: float) -> bool:
    """Merge neighbours of a lane and phase until about `most` spans are left; returns whether any were merged.

    Merged spans are closer than the picture's resolution: first 1/2000 of the window, then twice as far, and so on.
    """
    gap, joined = seconds / 2000, False
    while sum(len(lane.spans) for lane in lanes) > most and gap <= seconds:
        for lane in lanes:
            lane.spans = _joined(lane.spans, gap)
        gap, joined = gap * 2, True
    return joined


def _joined(spans: Sequence[LaneSpan], gap: float) -> list[LaneSpan]:
    merged: list[LaneSpan] = []
    last: dict[str, int] = {}
    for span in spans:
        index = last.get(span.phase)
        if index is not None and span.start - merged[index].end < gap:
            before = merged[index]
            flops = None if before.flops is None or span.flops is None else before.flops + span.flops
            merged[index] = before._replace(end=max(before.end, span.end), flops=flops)
        else:
            last[span.phase] = len(merged)
            merged.append(span)
    return merged


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key that orders worker-2 before worker-10."""
    parts: list[tuple[int, str]] = []
    digits = ""
    for letter in name:
        if letter.isdecimal():
            digits += letter
            continue
        if digits:
            parts.append((int(digits), ""))
            digits = ""
        parts.append((-1, letter))
    return [*parts, (int(digits), "")] if digits else parts
