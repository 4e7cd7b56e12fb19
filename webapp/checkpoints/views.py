"""The checkpoints tab of a run."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from webapp.checkpoints.lineage import lineage_shown
from webapp.checkpoints.selectors import checkpoint_latest
from webapp.runs.pages import checkpoint_context, run_context
from webapp.runs.selectors import run_get


@login_required
@require_GET
def checkpoints_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """All checkpoints, the removed ones too, and where the run stands among its forks."""
    run = run_get(request.user, run_id)
    context = run_context(request.user, run, "checkpoints") | checkpoint_context(run)
    context |= {"lineage": lineage_shown(request.user, run), "last": checkpoint_latest(run)}
    return render(request, "checkpoints/page.html", context)
