"""The timeline page of a run."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from webapp.runs.pages import run_context
from webapp.runs.selectors import run_get
from webapp.timeline.drawing import lanes_draw
from webapp.timeline.forms import Window
from webapp.timeline.selectors import timeline_read


@login_required
@require_GET
def timeline_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Lanes of the window that the address asks for, with shares and waits."""
    run = run_get(request.user, run_id)
    first, last = Window(request.GET).bounds()
    timeline = timeline_read(run, first, last)
    context = run_context(request.user, run, "timeline")
    if timeline is not None:
        size = timeline.last - timeline.first + 1
        context |= {
            "timeline": timeline,
            "lanes": lanes_draw(timeline),
            "phases": sorted({span.phase for lane in timeline.lanes for span in lane.spans}),
            "earlier": (timeline.first - size, timeline.first - 1)
            if timeline.first > timeline.lowest
            else None,
            "later": (timeline.last + 1, timeline.last + size) if timeline.last < timeline.highest else None,
            "closer": (timeline.last - size // 2 + 1, timeline.last) if size > 1 else None,
            "wider": (timeline.last - 2 * size + 1, timeline.last)
            if timeline.first > timeline.lowest
            else None,
        }
    return render(request, "timeline/page.html", context)
