"""Pages of short jobs."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from training_core.config.files import parse_value
from training_core.errors import ConfigError
from webapp.agents.rewards import shaped_label
from webapp.common.redirects import back
from webapp.experiments.forms import draft_from_post
from webapp.jobs.pages import job_context
from webapp.jobs.selectors import job_get, jobs_visible
from webapp.jobs.services import job_cancel, job_follow, job_say
from webapp.jobs.starting import OF_A_CONFIG, job_start
from webapp.runs.states import TransitionRefused

SHOWN = 200
SUBJECT = ("run", "checkpoint", "other_run", "other")


@require_GET
def jobs_page(request: HttpRequest) -> HttpResponse:
    """List the latest jobs."""
    jobs = list(jobs_visible(request.user)[:SHOWN])
    returned = shaped_label("return", [job.config for job in jobs])
    return render(request, "jobs/list.html", {"place": "jobs", "jobs": jobs, "return_heading": returned})


@require_GET
def job_page(request: HttpRequest, pk: str) -> HttpResponse:
    """Show one job; ?episode=N shows that episode."""
    return render(request, "jobs/page.html", _context(request, pk))


@require_GET
def job_fragment(request: HttpRequest, pk: str) -> HttpResponse:
    """Return the changing part of the page; it polls while the job runs."""
    return render(request, "jobs/_job.html", _context(request, pk))


@require_POST
def job_new(request: HttpRequest, kind: str) -> HttpResponse:
    """Start a job from a form; redirects back to the form's page on an error."""
    try:
        job = job_start(request.user, kind, _wanted(request, kind))
    except (ConfigError, TransitionRefused) as error:
        messages.error(request, str(error))
        return back(request, reverse("jobs:list"))
    return redirect("jobs:page", job.pk)


@require_POST
def job_end(request: HttpRequest, pk: str) -> HttpResponse:
    """Cancel."""
    job_cancel(request.user, job_get(request.user, pk))
    return redirect("jobs:page", pk)


@require_POST
def job_speak(request: HttpRequest, pk: str) -> HttpResponse:
    """Send the user's message; returns the fragment."""
    turn = request.POST.get("turn", "")
    try:
        number = int(turn) if turn.isascii() and turn.isdigit() and len(turn) < 6 else -1
        job_say(request.user, job_get(request.user, pk), number, request.POST.get("text", ""))
    except (ConfigError, TransitionRefused) as error:
        messages.error(request, str(error))
    if request.headers.get("HX-Request"):
        return render(request, "jobs/_job.html", _context(request, pk))
    return redirect("jobs:page", pk)


def _context(request: HttpRequest, pk: str) -> dict[str, Any]:
    return job_context(request.user, job_follow(job_get(request.user, pk)), request.GET.get("episode", ""))


def _wanted(request: HttpRequest, kind: str) -> dict[str, Any]:
    """Return the fields of a form in the format of the API. Raises ConfigError."""
    post = request.POST
    parameters: dict[str, Any] = {
        name: parse_value(post[name])
        for name in ("episodes", "kind", "first", "task", "swapped")
        if post.get(name)
    }
    if post.getlist("roles"):
        parameters["roles"] = post.getlist("roles")
    wanted: dict[str, Any] = {name: post.get(name, "") for name in SUBJECT} | {"parameters": parameters}
    of_a_form = kind in OF_A_CONFIG
    if of_a_form:
        draft = draft_from_post(post.dict())
        if draft.config is None:
            raise ConfigError(draft.errors)
        wanted |= {"config": draft.tree, "project": post.get("project", ""), "parameters": {}}
    wanted["overrides"] = {} if of_a_form else _overrides(post.get("overrides", ""))
    return wanted


def _overrides(text: str) -> dict[str, Any]:
    """Parse lines of path=value. Raises ConfigError."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wrong = [line for line in lines if "=" not in line]
    if wrong:
        raise ConfigError({"overrides": f"{wrong[0]!r}: use path=value, one per line"})
    pairs = [line.partition("=") for line in lines]
    return {path.strip(): parse_value(value.strip()) for path, _, value in pairs}
