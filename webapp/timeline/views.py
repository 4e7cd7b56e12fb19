"""The timeline page of a run."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from webapp.runs.pages import run_context
from webapp.runs.selectors import run_get


@login_required
@require_GET
def timeline_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """See webapp/timeline."""
    run = run_get(request.user, run_id)
    return render(request, "timeline/page.html", run_context(request.user, run, "timeline"))
