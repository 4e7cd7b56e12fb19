"""Pages of short jobs."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from training_core.config.files import parse_value
from training_core.errors import ConfigError
from troupe_client.documents.jobs import JobBody
from webapp.accounts.permissions import Person, can_edit
from webapp.agents.registry import agent_pages
from webapp.agents.rewards import return_label, shaped_label
from webapp.api.routes import parsed
from webapp.common.redirects import back
from webapp.common.tones import role_tones
from webapp.experiments.forms import draft_from_post, lines_overrides
from webapp.jobs.models import Job
from webapp.jobs.replays import strips
from webapp.jobs.services import (
    job_cancel,
    job_episodes,
    job_follow,
    job_get,
    job_say,
    jobs_visible,
    moment,
    poll_delay,
)
from webapp.jobs.starting import OF_A_CONFIG, job_start
from webapp.runs.states import TransitionRefused

FIGURES = (
    ("success", "success"),
    ("return", "return"),
    ("length", "{step}s"),
    ("tokens", "tokens"),
    ("tokens_per_second", "tokens per second"),
    ("failed", "failed"),
)
FORM_PARAMETERS = (
    "episodes", "kind", "first", "task", "swapped", "episode", "turn", "alternatives", "continuations", "outcome", "max_tokens"
)  # fmt: skip
"""Parameters that a form gives as values; roles and texts are read as they are."""
SHOWN = 200
SUBJECT = ("run", "checkpoint", "other_run", "other")
"""Fields of a form that are fields of the body of a job."""


def job_context(user: Person, job: Job, episode: str = "") -> dict[str, Any]:
    """Return the context of the page and its fragment."""
    tones = role_tones(job.config)
    episodes = job_episodes(job)
    what_if = job.kind == Job.Kind.WHAT_IF
    index = int(episode) if episode.isascii() and episode.isdigit() and len(episode) < 6 else int(what_if)
    now = moment(job) if job.live and job.kind == Job.Kind.TALK else None
    shown = episodes[index] if index < len(episodes) and not now else None
    if shown:
        worths = {number: turn["worth"] for number, turn in enumerate(shown["turns"], 1) if "worth" in turn}
        for number, worth in strips(worths).items():
            shown["turns"][number - 1]["worth"] = worth
    listed = episodes[: job.result["episodes"]] if "worth" in job.result else episodes
    agents, roles = agent_pages(job.config), list(job.config["team"]["roles"])
    return {
        "place": "jobs",
        "job": job,
        "poll": poll_delay(job),
        "agents": agents,
        "title": job_title(job),
        "can_edit": can_edit(user, job.project),
        "tones": tones,
        "figures": [
            (shaped_label(label.format(step=agents.step), [job.config]), job.result[name])
            for name, label in FIGURES
            if name in job.result and "worth" not in job.result
        ],
        "job_return": return_label(job.config),
        "seatings": [
            {
                **line,
                "figures": _match_figures(
                    line, roles if agents.matched_by_role else (), return_label(job.config)
                ),
            }
            for line in job.result.get("seatings", [])
        ],
        "swapped": job.result.get("seats", {}) if job.parameters.get("swapped") else {},
        "roles": roles,
        "episodes": listed if len(listed) > 1 else [],
        "episode_place": index,
        "episode": shown,
        "recorded": episodes[0] if what_if and episodes else None,
        "now": now,
        "boards": _boards(now, shown),
    }


def _match_figures(line: Mapping[str, Any], roles: Sequence[str], returned: str) -> list[dict[str, Any]]:
    """Return the results of one assignment: the reward of each role; without roles, success and return of the team.

    `returned` is the label of the return.
    """
    if roles:
        return [{"label": f"{role} earned", "value": line["rewards"].get(role)} for role in roles]
    return [
        {"label": "success", "value": line.get("success"), "interval": line.get("success_interval")},
        {"label": returned, "value": line.get("return")},
    ]


def job_title(job: Job) -> str:
    """Return a short title."""
    at = f" at iteration {job.checkpoint.iteration}" if job.checkpoint else ""
    who = f"{job.run.name}{at}" if job.run else str(job.config["run"]["name"] or "an experiment")
    if job.kind == Job.Kind.MATCH and job.other:
        return f"{who} against {job.other.run.name} at iteration {job.other.iteration}"
    return {
        Job.Kind.CHECK: f"Check of {who}",
        Job.Kind.DRY_RUN: f"Dry run of {who}",
        Job.Kind.EVALUATE: f"Evaluation of {who}{', roles swapped' if job.parameters.get('swapped') else ''}",
        Job.Kind.TALK: f"Conversation with {who}",
        Job.Kind.PREPARE: f"Base models of {who}",
        Job.Kind.WORTH: f"Worth of messages, continued by {who}",
        Job.Kind.WHAT_IF: f"What if, continued by {who}",
    }.get(Job.Kind(job.kind), who)


def _boards(now: Mapping[str, Any] | None, episode: Mapping[str, Any] | None) -> list[Any]:
    """Return the board before each move and the current one; empty if the environment has no boards."""
    if now:
        boards = [*(move.get("board") for move in now["moves"]), now.get("board")]
    elif episode:
        boards = [*(turn.get("board") for turn in episode["turns"]), episode.get("final_board")]
    else:
        return []
    return boards if any(boards) else []


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
        job = job_start(request.user, _wanted(request, kind))
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


def _wanted(request: HttpRequest, kind: str) -> JobBody:
    """Return the fields of a form as the body of a request to the API. Raises ConfigError."""
    post = request.POST
    parameters: dict[str, Any] = {name: parse_value(post[name]) for name in FORM_PARAMETERS if post.get(name)}
    if "text" in post:
        parameters["text"] = post["text"]
    if post.getlist("roles"):
        parameters["roles"] = post.getlist("roles")
    body: dict[str, Any] = {"kind": kind} | {name: post.get(name, "") for name in SUBJECT}
    if kind not in OF_A_CONFIG:
        return parsed(
            JobBody,
            body | {"parameters": parameters, "overrides": lines_overrides(post.get("overrides", ""))},
        )
    draft = draft_from_post(post.dict())
    if draft.config is None:
        raise ConfigError(draft.errors)
    return parsed(JobBody, body | {"config": draft.tree, "project": post.get("project", "")})
