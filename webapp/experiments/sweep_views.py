"""The pages of sweeps."""

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from training_core.config.files import preset_names
from training_core.errors import ConfigError
from webapp.accounts.permissions import can_edit
from webapp.accounts.selectors import project_editable, projects_editable
from webapp.experiments.commands import sweep_command
from webapp.experiments.services import sweep_create, sweep_stop
from webapp.experiments.sweep_forms import form_values, plan_from_post, posted_values
from webapp.experiments.sweep_planning import SweepPlan, column_styles, short_names
from webapp.experiments.sweep_selectors import sweep_context, sweep_get, sweeps_visible
from webapp.metrics.headline import HEADLINE
from webapp.runs.configs import flatten, preset_tree

PER_PAGE = 50
SHOWN = 12
"""Number of runs listed by name in the plan."""


@require_GET
def sweeps_page(request: HttpRequest) -> HttpResponse:
    """List all sweeps that are visible to the user."""
    page = Paginator(sweeps_visible(request.user), PER_PAGE).get_page(request.GET.get("page"))
    rows = [(sweep, short_names(list(sweep.axes))) for sweep in page]
    return render(request, "experiments/sweeps.html", {"place": "sweeps", "page": page, "rows": rows})


@require_http_methods(["GET", "POST"])
def sweep_new(request: HttpRequest) -> HttpResponse:
    """Show the form of a sweep; a POST launches all of its runs."""
    if request.method == "GET":
        values = form_values(request.GET.dict())
        return _form(request, values, None)
    plan, error = plan_from_post(request.POST), ""
    project = project_editable(request.user, request.POST.get("project", ""))
    if project is None:
        error = "Select a project in which you can launch runs."
    if project is not None and not plan.errors:
        try:
            sweep = sweep_create(request.user, project, plan, request.POST.get("name", ""))
        except ConfigError as refused:
            error = str(refused)
        else:
            return redirect(reverse("experiments:sweep", args=[sweep.pk]))
    return _form(request, posted_values(request.POST), plan, error)


def _form(
    request: HttpRequest, values: dict[str, Any], plan: SweepPlan | None, error: str = ""
) -> HttpResponse:
    try:
        paths = list(flatten(preset_tree(values["preset"])))
    except ConfigError:
        paths = []
    several = sorted({_starred(path) for path in paths if path.startswith(("policies.", "team.roles."))})
    context = _plan_context(plan) | {
        "place": "sweeps",
        "values": values,
        "presets": preset_names(),
        "paths": several + paths,
        "projects": list(projects_editable(request.user)),
        "chosen": request.POST.get("project", ""),
        "form_error": error,
    }
    return render(request, "experiments/sweep_new.html", context, status=400 if plan else 200)


def _starred(path: str) -> str:
    parts = path.split(".")
    at = 1 if parts[0] == "policies" else 2
    return ".".join([*parts[:at], "*", *parts[at + 1 :]])


def _plan_context(plan: SweepPlan | None) -> dict[str, Any]:
    if plan is None:
        return {"plan": None}
    names, styles = short_names(list(plan.axes)), column_styles(plan.axes)
    return {
        "plan": plan,
        "names": names,
        "styles": styles,
        "shown": [[(value, styles[path]) for path, value in point.items()] for point in plan.points[:SHOWN]],
        "more": max(0, len(plan.points) - SHOWN),
        "command": sweep_command(
            plan.preset, plan.overrides, plan.axes, plan.method, separate_processes=plan.separate_processes
        ),
    }


@require_POST
def sweep_check(request: HttpRequest) -> HttpResponse:
    """Validate the current form: its errors, or the runs and their cost (a fragment for htmx)."""
    return render(request, "experiments/_sweep_plan.html", _plan_context(plan_from_post(request.POST)))


@require_GET
def sweep_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one sweep: its runs with their values and headline metrics. htmx requests only the table."""
    sweep = sweep_get(request.user, pk)
    metric = request.GET.get("metric", "")
    sort = request.GET.get("sort", "")
    context = sweep_context(request.user, sweep, sort, metric if metric in HEADLINE else "")
    part = request.headers.get("HX-Request") == "true"
    context |= {"can_edit": can_edit(request.user, sweep.project), "part": part}
    return render(request, "experiments/_sweep_runs.html" if part else "experiments/sweep.html", context)


@require_POST
def sweep_end(request: HttpRequest, pk: int) -> HttpResponse:
    """Stop the runs of a sweep."""
    sweep = sweep_get(request.user, pk)
    done = sweep_stop(request.user, sweep)
    for refused in [item for item in done if not item["ok"]]:
        messages.error(request, f"{refused['id']}: {refused['detail']}")
    stopped = sum(item["ok"] for item in done)
    messages.success(request, f"{stopped} run{'' if stopped == 1 else 's'} requested to stop.")
    return redirect(reverse("experiments:sweep", args=[pk]))
