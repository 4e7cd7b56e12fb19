"""Timelines of runs: storage of spans, batches and utilisation; the spans of a window, lane by lane, and how long each lane waited.

The utilisation of the workers' devices is a curve with a limited number of points.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import orjson
import zstandard
from django.db.models import Max, Min, QuerySet, Subquery

from troupe_client.documents.timeline import PhaseCompute, RunTimeline, TimelineLane, TimelineSpan
from webapp.runs.models import Phase, Run
from webapp.timeline.models import Batch, Utilisation
from webapp.timeline.spans import (
    Lane,
    LaneSpan,
    compute_by_phase,
    lanes_make,
    lanes_thin,
    waits_by_iteration,
    who_waits,
)
from webapp.transcripts.services import staleness_store
from workers.telemetry.events import BatchEvent, PhaseEvent, UtilisationEvent

MOST = 600
"""Maximum number of points of one worker's curve."""
Sample = tuple[float, float]
"""Time (seconds since the epoch) and utilisation in percent."""
WINDOW = 10
"""Default number of iterations."""
MOST_WINDOW = 200
MOST_READ = 100_000
"""Maximum number of spans read; later ones are omitted."""
MOST_SPANS = 8000
"""Approximate maximum number of returned spans: beyond it, spans are merged."""
Row = tuple[str, str, LaneSpan]
"""Worker, policy and span."""


def phases_store(run: Run, cursor: int, events: list[PhaseEvent]) -> None:
    """Store spans of work."""
    names = ("attempt", "worker", "phase", "policy", "iteration", "start", "end", "flops", "peak")
    Phase.objects.bulk_create(
        Phase(run=run, cursor=cursor, **{name: getattr(event, name) for name in names}) for event in events
    )


def batches_store(run: Run, cursor: int, events: list[BatchEvent]) -> None:
    """One row per event."""
    Batch.objects.bulk_create(
        Batch(
            run=run, attempt=event.attempt, cursor=cursor, iteration=event.iteration,
            consumed=event.consumed, learnt=event.learnt,
            data=_packed([episode.model_dump(mode="json", exclude_defaults=True) for episode in event.episodes]),
        )
        for event in events
    )  # fmt: skip
    staleness_store(
        run, {episode.episode: episode.staleness for event in events for episode in event.episodes}
    )


def utilisation_store(run: Run, cursor: int, events: list[UtilisationEvent]) -> None:
    """One row per event."""
    Utilisation.objects.bulk_create(
        Utilisation(
            run=run, attempt=event.attempt, cursor=cursor, worker=event.worker, device=event.device,
            start=min(moment for moment, _ in event.samples), end=max(moment for moment, _ in event.samples),
            data=_packed(event.samples),
        )
        for event in events
    )  # fmt: skip


def _packed(data: Any) -> bytes:
    return zstandard.compress(orjson.dumps(data))


@dataclass
class Device:
    """A worker's device over a window."""

    name: str
    """Host and device; workers on the same device have the same."""
    samples: list[Sample] = field(default_factory=list)
    """In order of time."""


def utilisation_read(run: Run, start: float, end: float, most: int = MOST) -> dict[str, Device]:
    """Return by worker its (latest) device and at most `most` points from start to end, each the mean of its interval."""
    devices: dict[str, Device] = {}
    rows = Utilisation.objects.filter(run=run, start__lte=end, end__gte=start).order_by("start", "pk")
    for worker, name, data in rows.values_list("worker", "device", "data"):
        device = devices.setdefault(worker, Device(name))
        device.name = name
        samples = orjson.loads(zstandard.decompress(data))
        device.samples += [(moment, percent) for moment, percent in samples if start <= moment <= end]
    for device in devices.values():
        device.samples = thinned(sorted(device.samples), start, end, most)
    return devices


def thinned(samples: Sequence[Sample], start: float, end: float, most: int) -> list[Sample]:
    """Return the samples, or if there are more than `most`, the means of that many equal intervals, at their start times."""
    if len(samples) <= most or end <= start:
        return list(samples)
    stretches: dict[int, list[Sample]] = {}
    for moment, percent in samples:
        index = min(most - 1, int(most * (moment - start) / (end - start)))
        stretches.setdefault(index, []).append((moment, percent))
    return [(some[0][0], fmean(percent for _, percent in some)) for _, some in sorted(stretches.items())]


def timeline_read(
    run: Run, first: int | None = None, last: int | None = None, *, window: int = WINDOW
) -> RunTimeline | None:
    """Return the spans of the iterations first ... last (default: the latest `window`); None if the run has no spans."""
    bounds = _bounds(run)
    if bounds is None:
        return None
    last = bounds["high"] if last is None else last
    first = last - window + 1 if first is None else first
    first = max(first, last - MOST_WINDOW + 1, bounds["low"])
    rows = _rows(Phase.objects.filter(run=run, iteration__gte=first, iteration__lte=last))
    return _timeline(rows, bounds, (first, last), None, utilisation_read(run, *_times(rows)))


def timeline_latest(run: Run, window: int) -> RunTimeline | None:
    """Return the spans of the latest `window` iterations by one query: without devices, and with the bounds of these spans as
    those of the run. None if the run has no spans.
    """
    spans = Phase.objects.filter(run=run)
    latest = spans.order_by("-iteration").values("iteration")[:1]
    rows = _rows(spans.filter(iteration__gt=Subquery(latest) - window))
    if not rows:
        return None
    numbers = [span.iteration for _, _, span in rows]
    low, high = min(numbers), max(numbers)
    start, end = _times(rows)
    bounds = {"low": low, "high": high, "start": start, "end": end}
    return _timeline(rows, bounds, (low, high), None, {})


def timeline_between(run: Run, start: float, end: float) -> RunTimeline | None:
    """Return the spans that overlap start ... end; None if the run has no spans."""
    bounds = _bounds(run)
    if bounds is None:
        return None
    rows = _rows(Phase.objects.filter(run=run, start__lte=end, end__gte=start))
    return _timeline(rows, bounds, None, (start, end), utilisation_read(run, start, end))


def _bounds(run: Run) -> dict[str, Any] | None:
    bounds = Phase.objects.filter(run=run).aggregate(
        low=Min("iteration"), high=Max("iteration"), start=Min("start"), end=Max("end")
    )
    return bounds if bounds["high"] is not None else None


def _rows(phases: QuerySet[Phase]) -> list[Row]:
    """Return the spans in order of time, at most one more than MOST_READ."""
    names = ("worker", "policy", "phase", "iteration", "start", "end", "flops", "peak")
    rows = phases.order_by("start", "pk").values_list(*names)[: MOST_READ + 1]
    return [(worker, policy, LaneSpan(*facts)) for worker, policy, *facts in rows]


def _times(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the start and the end of the first MOST_READ spans."""
    spans = [span for _, _, span in rows[:MOST_READ]]
    start = min((span.start for span in spans), default=0.0)
    return start, max((span.end for span in spans), default=0.0)


def _timeline(
    rows: Sequence[Row],
    bounds: dict[str, Any],
    iterations: tuple[int, int] | None,
    moments: tuple[float, float] | None,
    devices: dict[str, Device],
) -> RunTimeline:
    """Return a window by iterations (its times are then those of its spans) or by times (then the reverse)."""
    shown = rows[:MOST_READ]
    start, end = moments or _times(rows)
    numbers = [span.iteration for _, _, span in shown] or [bounds["high"]]
    first, last = iterations or (min(numbers), max(numbers))
    lanes = lanes_make(shown)
    waits, by_iteration = who_waits(lanes, start, end), waits_by_iteration(lanes)
    compute = {lane.label: compute_by_phase(lane.spans) for lane in lanes}
    joined = lanes_thin(lanes, MOST_SPANS, end - start)
    return RunTimeline(
        first=first, last=last, start=start, end=end, cut=len(rows) > MOST_READ, joined=joined,
        lowest=bounds["low"], highest=bounds["high"], run_start=bounds["start"], run_end=bounds["end"],
        waits=waits, iterations=by_iteration,
        lanes=[_lane(lane, start, end, compute[lane.label], devices.get(lane.worker)) for lane in lanes],
    )  # fmt: skip


def _lane(
    lane: Lane, start: float, end: float, compute: dict[str, PhaseCompute], device: Device | None
) -> TimelineLane:
    return TimelineLane.model_construct(
        worker=lane.worker,
        policy=lane.policy,
        label=lane.label,
        busy=lane.busy(),
        waited=lane.waited(start, end),
        device=device.name if device else None,
        utilisation=device.samples if device else [],
        compute=compute,
        spans=[TimelineSpan.model_construct(**span._asdict()) for span in lane.spans],
    )
