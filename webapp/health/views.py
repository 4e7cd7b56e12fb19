"""The health page of a run."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from training_core.errors import TroupeError
from webapp.accounts.permissions import can_edit, is_owner
from webapp.health import notifying, services
from webapp.health.channel_kinds import ChannelRefused
from webapp.health.forking import checkpoint_for, finding_fork, fork_edits
from webapp.health.selectors import channel_get, finding_get, findings_list
from webapp.runs.frame import run_context
from webapp.runs.selectors import run_get

ACTS = {"dismiss": services.finding_dismiss, "reopen": services.finding_reopen}


@login_required
@require_GET
def health_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show findings, and the notification channels."""
    run = run_get(request.user, run_id)
    findings = findings_list(run)
    settings = services.settings_of(run)
    for each in findings:
        each["fork_edits"] = fork_edits(settings, each["rule"])
    context = run_context(request.user, run, "health") | {
        "open_findings": [each for each in findings if each["state"] == "open"],
        "past_findings": [each for each in findings if each["state"] != "open"],
        "rules": [(name.replace("_", " "), rule) for name, rule in settings.rules().items()],
        "enabled": settings.enabled,
        "fork_from": settings.fork.checkpoint,
        "channels": [(each, notifying.channel_said(each)) for each in run.project.channels.order_by("name")],
        "owner": is_owner(request.user, run.project),
    }
    return render(request, "health/page.html", context)


@login_required
@require_POST
def finding_move(request: HttpRequest, run_id: str, pk: int, act: str) -> HttpResponse:
    """Dismiss or reopen a finding."""
    if act not in ACTS:
        raise Http404(f"unknown act {act}")
    ACTS[act](request.user, finding_get(request.user, run_id, pk))
    return redirect("health:page", run_id)


@login_required
@require_POST
def finding_fork_act(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """Fork with the edits of the finding's rule; if it has none, the form asks for them."""
    finding = finding_get(request.user, run_id, pk)
    settings = services.settings_of(finding.run)
    try:
        if fork_edits(settings, finding.rule):
            return redirect("runs:detail", finding_fork(request.user, finding, settings).pk)
        if not can_edit(request.user, finding.run.project):
            raise PermissionDenied("you may only read this project; ask an owner for the editor level")
        origin = checkpoint_for(finding, settings.fork.checkpoint)
        return redirect(f"{reverse('experiments:new')}?fork={origin.pk}")
    except TroupeError as error:
        messages.error(request, str(error))
    return redirect("health:page", run_id)


@login_required
@require_POST
def channel_add(request: HttpRequest, run_id: str) -> HttpResponse:
    """Add a channel to the run's project."""
    project = run_get(request.user, run_id).project
    name, address = request.POST.get("name", ""), request.POST.get("address", "")
    try:
        notifying.channel_make(request.user, project, name, address)
    except ChannelRefused as error:
        messages.error(request, str(error))
    return redirect("health:page", run_id)


@login_required
@require_POST
def channel_change(request: HttpRequest, run_id: str, pk: int, act: str) -> HttpResponse:
    """Try or remove a channel."""
    channel = channel_get(request.user, run_get(request.user, run_id).project.slug, pk)
    if act == "remove":
        notifying.channel_remove(request.user, channel)
    elif act == "try":
        taken = notifying.channel_try(request.user, channel)
        say = messages.success if taken else messages.error
        say(
            request,
            f"The channel {channel.name} {'accepted the message' if taken else 'did not accept the message; check its address'}.",
        )
    else:
        raise Http404(f"unknown act {act}")
    return redirect("health:page", run_id)
