"""The timeline page of a run."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from webapp.common.tones import policy_tones
from webapp.runs.frame import run_context
from webapp.runs.models import Run
from webapp.runs.selectors import run_get
from webapp.timeline.anatomy import anatomy_read
from webapp.timeline.batch_drawing import batch_show, sort_of
from webapp.timeline.drawing import iterations_show, lanes_draw, waits_show
from webapp.timeline.forms import BatchQuery, Window
from webapp.timeline.selectors import Timeline, timeline_between, timeline_read


@require_GET
def timeline_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the lanes of the URL's window, with shares and waits."""
    run = run_get(request.user, run_id)
    if "iteration" in request.GET:
        return _batch_page(request, run)
    asked = Window(request.GET)
    moments = asked.moments()
    timeline = timeline_between(run, *moments) if moments else timeline_read(run, *asked.bounds())
    context = run_context(request.user, run, "timeline")
    if timeline is not None:
        context |= _shown(run, timeline) | {"by_moments": moments is not None}
    return render(request, "timeline/page.html", context)


def _batch_page(request: HttpRequest, run: Run) -> HttpResponse:
    """Show the anatomy of one iteration's batch; the latest if the URL has no valid iteration."""
    asked = BatchQuery(request.GET)
    sort = sort_of(request.GET.get("sort", ""))
    anatomy = anatomy_read(run, asked.iteration(), sort)
    context = run_context(request.user, run, "timeline")
    if anatomy is not None:
        address = reverse("api:run-batch", args=[run.pk, anatomy.iteration])
        window = {
            "url": f"{address}?{urlencode({'sort': sort})}",
            "transcript": reverse("transcripts:detail", args=[run.pk, 0]),
            "tones": policy_tones(run.config),
            "role": request.GET.get("role", ""),
            "returned": context["return_heading"],
        }
        context |= {"batch": anatomy, "window": window} | batch_show(anatomy, sort)
    return render(request, "timeline/batch.html", context)


def _shown(run: Run, timeline: Timeline) -> dict[str, Any]:
    size = timeline.last - timeline.first + 1
    before, after = timeline.first > timeline.lowest, timeline.last < timeline.highest
    return {
        "timeline": timeline,
        "lanes": lanes_draw(timeline),
        "waits": waits_show(timeline),
        "iterations": iterations_show(timeline),
        "phases": sorted({span.phase for lane in timeline.lanes for span in lane.spans}),
        "earlier": (timeline.first - size, timeline.first - 1) if before else None,
        "later": (timeline.last + 1, timeline.last + size) if after else None,
        "closer": (timeline.last - size // 2 + 1, timeline.last) if size > 1 else None,
        "wider": (timeline.last - 2 * size + 1, timeline.last) if before else None,
        "window": {
            "url": reverse("api:run-timeline", args=[run.pk]),
            "start": timeline.start,
            "end": timeline.end,
            "whole": [timeline.run_start, timeline.run_end],
        },
    }
