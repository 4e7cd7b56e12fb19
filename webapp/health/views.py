"""The health page of a run."""

from collections import Counter
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import Min
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from training_core.config.health import RunHealth
from training_core.errors import TroupeError
from troupe_client.documents.health import Finding, HealthRule
from webapp.accounts.permissions import require_edit
from webapp.health import services
from webapp.health.answers import verdict_read
from webapp.health.measures import MOST, rules_read
from webapp.health.services import checkpoint_for, finding_document, finding_fork, finding_get
from webapp.notifications.services import destination_status
from webapp.runs.frame import run_context
from webapp.runs.selectors import run_get
from webapp.scheduling.forking import run_start

MOST_PERCENT = 10.0
"""Excess from which a multiple is shown, instead of a percentage."""
ACTS = {"dismiss": services.finding_dismiss, "reopen": services.finding_reopen}


@require_GET
def health_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show findings, and where they are sent."""
    run = run_get(request.user, run_id)
    settings = services.settings_of(run)
    first = run.checkpoints.aggregate(first=Min("iteration"))["first"]
    findings = [_shown(finding_document(row), settings, first) for row in services.findings_read(run)]
    rules = [_measured(row, settings) for row in rules_read(run, settings)] if settings.enabled else []
    context = run_context(request.user, run, "health") | {
        "open_findings": [finding for finding in findings if finding["state"] == "open"],
        "past_findings": [finding for finding in findings if finding["state"] != "open"],
        "rules": rules,
        "verdict": verdict_read(run),
        "rules_note": ", ".join(
            f"{count} {state}" for state, count in Counter(row["state"] for row in rules).items()
        ),
        "nearest": next((row for row in rules if row["state"] == "healthy" and row["nearest"]), None),
        "enabled": settings.enabled,
        "channels": [
            (row, destination_status(row)) for row in run.project.destinations.filter(kind="channel")
        ],
    }
    return render(request, "health/page.html", context)


def _measured(row: HealthRule, settings: RunHealth) -> dict[str, Any]:
    """Return a row of the table of rules: with how near it came, as a percentage and as the part of a bar."""
    nearest = row.nearest or 0.0
    return {
        **dict(row),
        "title": row.rule.replace("_", " "),
        "percent": f"{nearest:.0%}"
        if nearest < MOST_PERCENT
        else f"{nearest:,.0f} times"
        if nearest < MOST
        else "above",
        "filled": min(nearest, 1.0),
        "edits": settings.rules()[row.rule].fork_edits,
    }


def _shown(finding: Finding, settings: RunHealth, first: int | None) -> dict[str, Any]:
    """Return the finding with what a fork for it would change, and start from. `first`: iteration of the first checkpoint."""
    best = settings.fork.checkpoint == "best" and first is not None
    last = "the best checkpoint" if best else f"the last checkpoint before step {finding.first_step}"
    again = not best and (first is None or first >= finding.first_step)
    return {
        **dict(finding),
        "fork_edits": [f"{path}={value}" for path, value in finding.edits.items()],
        "transcripts": f"?{urlencode({'query': finding.episodes})}" if finding.episodes else "",
        "fork_from": "the start, as there is no checkpoint before the finding" if again else last,
        "fork_act": "Launch again" if again else "Fork",
    }


@require_POST
def finding_move(request: HttpRequest, run_id: str, pk: int, act: str) -> HttpResponse:
    """Dismiss or reopen a finding."""
    if act not in ACTS:
        raise Http404(f"unknown act {act}")
    ACTS[act](request.user, finding_get(request.user, run_id, pk))
    return redirect("health:page", run_id)


@require_POST
def finding_fork_act(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """Fork with the edits of the finding's rule, or those to try first; the form asks for them if there are none, or on request."""
    finding = finding_get(request.user, run_id, pk)
    settings = services.settings_of(finding.run)
    try:
        if finding_document(finding).edits and "form" not in request.POST:
            return redirect("runs:detail", finding_fork(request.user, finding, settings).pk)
        require_edit(request.user, finding.run.project)
        origin, again = checkpoint_for(finding, settings.fork.checkpoint), {}
        if origin is None:
            origin, again = run_start(finding.run), {"from": finding.run_id}
        query = again | ({"fork": origin.pk} if origin else {})
        return redirect(f"{reverse('experiments:new')}?{urlencode(query)}")
    except TroupeError as error:
        messages.error(request, str(error))
    return redirect("health:page", run_id)
