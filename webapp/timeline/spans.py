"""Spans of work and the lanes they lie in."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Span(NamedTuple):
    """A stretch of one worker's time; seconds since the epoch."""

    phase: str
    iteration: int
    start: float
    end: float
    flops: float | None = None
    """Model FLOPs, where they are counted."""
    peak: float | None = None
    """FLOP/s of the worker's device at its peak, where it is known."""

    def document(self) -> dict[str, Any]:
        """JSON; what is not known is left out."""
        return {name: value for name, value in self._asdict().items() if value is not None}


@dataclass
class Lane:
    """What one worker did for one policy (none: the driver), in order of time."""

    worker: str
    policy: str
    spans: list[Span] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Worker and policy; the policy is left out where the worker's name says it."""
        said = not self.policy or f"-{self.policy}-" in f"-{self.worker}-"
        return self.worker if said else f"{self.worker} {self.policy}"

    def busy(self) -> dict[str, float]:
        """Seconds by phase."""
        spent: dict[str, float] = {}
        for span in self.spans:
            spent[span.phase] = spent.get(span.phase, 0.0) + span.end - span.start
        return spent

    def covered(self, start: float, end: float) -> list[tuple[float, float]]:
        """Stretches of the window in which the lane worked, in order and apart; spans may overlap."""
        return union(((span.start, span.end) for span in self.spans), start, end)

    def waited(self, start: float, end: float) -> float:
        """Seconds of the window in which no span of the lane was open."""
        return max(0.0, end - start - sum(last - first for first, last in self.covered(start, end)))


def union(stretches: Iterable[tuple[float, float]], start: float, end: float) -> list[tuple[float, float]]:
    """What the stretches cover of the window, in order and without overlaps."""
    found: list[tuple[float, float]] = []
    for first, last in sorted(stretches):
        first, last = max(first, start), min(last, end)
        if last <= first:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def lanes_make(rows: Iterable[tuple[str, str, Span]]) -> list[Lane]:
    """(worker, policy, span) in order of time -> lanes; the driver's first, numbers in names in their own order."""
    lanes: dict[tuple[str, str], Lane] = {}
    for worker, policy, span in rows:
        lanes.setdefault((worker, policy), Lane(worker, policy)).spans.append(span)
    return [
        lanes[key] for key in sorted(lanes, key=lambda key: (key[0] != "driver", _natural(key[0]), key[1]))
    ]


def lanes_thin(lanes: Sequence[Lane], most: int, seconds: float) -> bool:
    """Join neighbours of a lane and phase until at most about `most` spans are left; whether any were joined.

    What is joined is closer together than can be drawn: at first 1/2000 of the window, then twice as far, and so on.
    """
    gap, joined = seconds / 2000, False
    while sum(len(lane.spans) for lane in lanes) > most and gap <= seconds:
        for lane in lanes:
            lane.spans = _joined(lane.spans, gap)
        gap, joined = gap * 2, True
    return joined


def _joined(spans: Sequence[Span], gap: float) -> list[Span]:
    kept: list[Span] = []
    last: dict[str, int] = {}
    for span in spans:
        place = last.get(span.phase)
        if place is not None and span.start - kept[place].end < gap:
            before = kept[place]
            flops = None if before.flops is None or span.flops is None else before.flops + span.flops
            kept[place] = before._replace(end=max(before.end, span.end), flops=flops)
        else:
            last[span.phase] = len(kept)
            kept.append(span)
    return kept


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts worker-2 before worker-10."""
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
