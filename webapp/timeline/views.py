"""The timeline page of a run: lanes, shares and waits of a window, or the batch of an iteration."""

from statistics import fmean
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET
from pydantic import BaseModel, Field

from troupe_client.documents.timeline import (
    LARGEST,
    BatchEpisode,
    LaneWait,
    PhaseCompute,
    RunBatch,
    RunTimeline,
    Sort,
    TimelineLane,
    TimelineSpan,
    TimelineWindow,
)
from webapp.api.routes import lenient
from webapp.common.formats import duration
from webapp.common.tones import policy_tones
from webapp.runs.frame import run_context
from webapp.runs.models import Run
from webapp.runs.selectors import run_get
from webapp.timeline.batches import batch_read
from webapp.timeline.services import timeline_between, timeline_read
from webapp.timeline.spans import compute_shown, rate_show

WIDTH = 1000.0
"""Of a lane, in the units of its drawing."""
LEAST = 0.6
"""Width of the shortest bar, so that all bars are visible."""
MOST_WAITS = 12
"""Number of listed waits."""
MOST_EPISODES = 300
"""Number of episodes in the table; the picture shows all."""
COMPUTED = ("rollout", "update")
"""Phases with model FLOPs."""
HEADS = {
    "start": "started",
    "time": "took",
    "length": "length",
    "reward": "return",
    "turns": "turns",
    "staleness": "staleness",
}
"""Sort order -> label of its column."""


class BatchQuery(BaseModel):
    """An iteration, and the order of its batch."""

    iteration: int | None = Field(None, ge=0, le=LARGEST)
    sort: Sort = "start"


@require_GET
def timeline_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the lanes of the URL's window, with shares and waits."""
    run = run_get(request.user, run_id)
    if "iteration" in request.GET:
        return _batch_page(request, run)
    asked = lenient(TimelineWindow, request.GET)
    moments = asked.moments
    timeline = timeline_between(run, *moments) if moments else timeline_read(run, asked.first, asked.last)
    context = run_context(request.user, run, "timeline")
    if timeline is not None:
        context |= _neighbours(timeline) | {
            "timeline": timeline,
            "seconds": _seconds(timeline),
            "lanes": lanes_shown(timeline),
            "waits": waits_shown(timeline),
            "iterations": iterations_shown(timeline),
            "phases": sorted({span.phase for lane in timeline.lanes for span in lane.spans}),
            "window": {
                "url": reverse("api:run-timeline", args=[run.pk]),
                "start": timeline.start,
                "end": timeline.end,
                "whole": [timeline.run_start, timeline.run_end],
            },
            "by_moments": moments is not None,
        }
    return render(request, "timeline/page.html", context)


def _neighbours(timeline: RunTimeline) -> dict[str, tuple[int, int] | None]:
    """Return the first and last iterations of other windows."""
    first, last, size = (
        timeline.first or 0,
        timeline.last or 0,
        (timeline.last or 0) - (timeline.first or 0) + 1,
    )
    before, after = first > (timeline.lowest or 0), last < (timeline.highest or 0)
    return {
        "earlier": (first - size, first - 1) if before else None,
        "later": (last + 1, last + size) if after else None,
        "closer": (last - size // 2 + 1, last) if size > 1 else None,
        "wider": (last - 2 * size + 1, last) if before else None,
    }


def _seconds(timeline: RunTimeline) -> float:
    return (timeline.end or 0.0) - (timeline.start or 0.0)


def lanes_shown(timeline: RunTimeline) -> list[dict[str, Any]]:
    """Return one row per lane; shares and waited in percent of the window."""
    start, whole = timeline.start or 0.0, _seconds(timeline) or 1.0
    end = start + _seconds(timeline)

    def bar(span: TimelineSpan) -> dict[str, str]:
        left, right = max(span.start, start), min(span.end, end)
        return {
            "phase": span.phase,
            "x": f"{WIDTH * (left - start) / whole:.2f}",
            "width": f"{max(LEAST, WIDTH * (right - left) / whole):.2f}",
            "title": f"{span.phase}, iteration {span.iteration}: {duration(span.end - span.start)}",
        }

    def row(lane: TimelineLane) -> dict[str, Any]:
        return {
            "worker": lane.worker,
            "policy": lane.policy,
            "bars": [bar(span) for span in lane.spans],
            "shares": [
                {"phase": phase, "seconds": seconds, "percent": 100 * seconds / whole}
                for phase, seconds in sorted(lane.busy.items(), key=lambda item: -item[1])
            ],
            "waited": 100 * lane.waited / whole,
            "device": lane.device,
            "in_use": fmean(percent for _, percent in lane.utilisation) if lane.utilisation else None,
            "compute": [(phase, compute_shown(compute)) for phase, compute in lane.compute.items()],
        }

    return [row(lane) for lane in timeline.lanes]


def waits_shown(timeline: RunTimeline) -> list[tuple[LaneWait, float]]:
    """Return the longest waits, with percent of the window."""
    whole = _seconds(timeline) or 1.0
    return [(wait, 100 * wait.seconds / whole) for wait in timeline.waits[:MOST_WAITS]]


def iterations_shown(timeline: RunTimeline) -> list[dict[str, Any]]:
    """Return the latest iterations of the window: number, seconds, mean wait in percent, and the lane that waited most."""
    return [
        {
            "iteration": iteration.iteration,
            "seconds": iteration.end - iteration.start,
            "mean": 100 * iteration.mean,
            "most": most,
            "percent": 100 * iteration.shares.get(most, 0.0),
        }
        for iteration in reversed(timeline.iterations[-MOST_WAITS:])
        for most in [max(iteration.shares, key=lambda label: iteration.shares[label], default="")]
    ]


def _batch_page(request: HttpRequest, run: Run) -> HttpResponse:
    """Show one iteration's batch; the latest if the URL has no valid iteration."""
    asked = lenient(BatchQuery, request.GET)
    batch = batch_read(run, asked.iteration, asked.sort)
    context = run_context(request.user, run, "timeline")
    if batch is not None:
        address = reverse("api:run-batch", args=[run.pk, batch.iteration])
        context |= {
            "batch": batch,
            "rows": [
                (member, member.started - batch.start, member.ended - member.started)
                for member in batch.episodes[:MOST_EPISODES]
            ],
            "sums": sums(batch),
            "heads": heads(asked.sort),
            "earlier": batch.iteration - 1 if batch.iteration > batch.lowest else None,
            "later": batch.iteration + 1 if batch.iteration < batch.highest else None,
            "most": MOST_EPISODES,
            "sort": asked.sort,
            "window": {
                "url": f"{address}?{urlencode({'sort': asked.sort})}",
                "transcript": reverse("transcripts:detail", args=[run.pk, 0]),
                "tones": policy_tones(run.config),
                "role": request.GET.get("role", ""),
                "returned": context["return_heading"],
            },
        }
    return render(request, "timeline/batch.html", context)


def sums(batch: RunBatch) -> list[dict[str, str]]:
    """Return totals of the batch: {"label", "value", "under"}; model FLOPs if they were counted."""
    members = batch.episodes
    count = len(members) or 1
    spent = {
        name: sum(member.seconds[name] for member in members)
        for name in ("queued", "generate", "environment", "update")
    }
    whole = sum(spent.values()) or 1.0
    stale = [member.staleness for member in members if member.staleness is not None]
    played = [member for member in members if not member.failed]
    successes = [member.success for member in played if member.success is not None]
    solved = _percent(sum(successes), len(successes)) if successes else "–"
    cut = _percent(sum(member.truncated for member in members), count)
    share = {name: _percent(seconds, whole) for name, seconds in spent.items()}
    tiles = [
        ("episodes", str(len(members)), f"{sum(member.failed for member in members)} failed"),
        ("solved", solved, f"{cut} truncated"),
        ("generating", share["generate"], "of the episodes' time"),
        ("environment", share["environment"], "waiting for the environment or a tool"),
        ("before the update", share["update"], f"queued at the start: {share['queued']}"),
        (
            "staleness",
            f"{fmean(stale):.2f}" if stale else "–",
            f"{sum(map(_mixed, members))} of mixed versions",
        ),
        *(_compute_tile(phase, batch.compute[phase]) for phase in COMPUTED if phase in batch.compute),
    ]
    return [dict(zip(("label", "value", "under"), tile, strict=True)) for tile in tiles]


def _compute_tile(phase: str, compute: PhaseCompute) -> tuple[str, str, str]:
    rate = rate_show(compute.flops_per_second)
    if compute.mfu is None:
        return f"{phase}, model FLOPs", rate, "the device's peak is unknown"
    return f"{phase}, MFU", f"{100 * compute.mfu:.1f}%", rate


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}%"


def _mixed(member: BatchEpisode) -> bool:
    """Whether its responses were generated by several versions of a policy."""
    return any(len(set(stage.get("versions") or ())) > 1 for stage in member.stages)


def heads(sort: str) -> list[dict[str, str]]:
    """Return the headers of the sortable columns: link, and current sort direction."""
    rows = []
    for name, label in HEADS.items():
        now = "descending" if sort == f"-{name}" else "ascending" if sort == name else "none"
        first = name if name == "start" else f"-{name}"
        leads = {"descending": name, "ascending": f"-{name}", "none": first}[now]
        rows.append({"label": label, "sort": name, "term": f"timeline--{name}", "leads": leads, "now": now})
    return rows
