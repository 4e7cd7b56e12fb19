"""The pages of sweeps, and the form of a new one."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from training_core.config.files import preset_names
from training_core.config.sweeps import SEED, parse_axes, parse_values
from training_core.errors import ConfigError
from troupe_client.documents import sweeps as documents
from webapp.accounts.permissions import Person, can_edit
from webapp.accounts.selectors import project_editable, projects_editable
from webapp.agents.rewards import shaped_label
from webapp.experiments.commands import sweep_command
from webapp.experiments.forms import FIRST, lines_overrides, query_overrides
from webapp.experiments.models import Sweep
from webapp.experiments.services import sweep_create, sweep_stop
from webapp.experiments.sweeps import (
    column_styles,
    plan_make,
    rows_sorted,
    short_names,
    sweep_detail,
    sweep_get,
    sweeps_visible,
)
from webapp.metrics.headline import HEADLINE, SPARK
from webapp.runs.configs import flatten, preset_tree
from webapp.runs.models import ENDED_STATES

PER_PAGE = 50
SHOWN = 12
"""Number of runs listed by name in the plan."""
ROWS = 3
"""Number of empty rows in a new form."""
LABELS = {
    "eval/success": "success, greedy",
    "eval_sampled/success": "success, sampled",
    "train/return": "return, training",
    "eval/return": "return, greedy",
}


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
    request: HttpRequest, values: dict[str, Any], plan: documents.SweepPlan | None, error: str = ""
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


def _plan_context(plan: documents.SweepPlan | None) -> dict[str, Any]:
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


def _curves(sweep: documents.SweepDetail, configs: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the charts of a sweep: of the metric by which its points are ranked, and of the return in training, the best points first.

    A point is a group of the comparison: the runs with equal values, or with an equal config except for the seed.
    """
    runs = [run for point in sweep.points for run in point.runs]
    fields = [path for path in sweep.axes if path != SEED]
    by = fields[0] if len(fields) == 1 and "*" not in fields[0] else "family"
    reported = {key for row in sweep.results for key in row.headline}
    return [
        {
            "label": shaped_label(LABELS.get(key, key), configs),
            "query": urlencode({"runs": ",".join(runs), "key": key, "by": by}, safe=",/"),
        }
        for key in dict.fromkeys((sweep.metric, SPARK))
        if key in reported
    ]


def sweep_context(user: Person, sweep: Sweep, sort: str, metric: str) -> dict[str, Any]:
    """Return the context of the page of a sweep."""
    detail = sweep_detail(user, sweep, sort, metric)
    metric = detail.metric
    # All have the same environment, unless it is an axis.
    configs = list(sweep.runs.values_list("config", flat=True)[:1])
    means = [point.mean for point in detail.points if point.mean is not None]
    by_metric = not sort and not detail.active
    return dict(detail) | {
        "results": rows_sorted(detail.results, f"-{metric}") if by_metric else detail.results,
        "place": "sweeps",
        "project_slug": "",
        "sweep": sweep,
        "names": short_names(list(sweep.axes)),
        "styles": column_styles(sweep.axes),
        "seeded": len(sweep.axes.get(SEED, [])) > 1,
        "fields": [path for path in sweep.axes if path != SEED],
        "metrics": [(key, shaped_label(LABELS.get(key, key), configs)) for key in HEADLINE],
        "metric_sort": f"-{metric}",
        "curves": _curves(detail, configs),
        "metric_label": shaped_label(LABELS.get(metric, metric), configs),
        "return_heading": shaped_label("return", configs),
        "best": max(means) if means else None,
        "sort": sort,
        "sharing": sum(bool(row.attempts) and row.attempts[-1].shared_by > 1 for row in detail.results),
        "done": sum(row.state in ENDED_STATES for row in detail.results),
    }


def plan_from_post(post: QueryDict) -> documents.SweepPlan:
    """Parse the form: rows of `field` and `values`, `seeds`, shared changes as key=value lines. Never raises ConfigError."""
    preset = post.get("preset", "")
    axes: dict[str, list[Any]] = {}
    errors: dict[str, str] = {}
    for path, text in zip(post.getlist("field"), post.getlist("values"), strict=False):
        path = path.strip()
        if not path and not text.strip():
            continue
        try:
            axes |= _row(path, text, axes)
        except ConfigError as error:
            errors |= error.fields
    try:
        shared = lines_overrides(post.get("shared", ""))
        seeds = post.get("seeds", "").strip()
        axes |= {SEED: parse_values(seeds)} if seeds else {}
    except ConfigError as error:
        shared, errors = {}, errors | {path or SEED: text for path, text in error.fields.items()}
    method, separate = post.get("method", "grid"), "separate_processes" in post
    if errors:
        return documents.SweepPlan(
            preset=preset,
            overrides=shared,
            axes=axes,
            method=method,
            separate_processes=separate,
            errors=errors,
        )
    return plan_make(preset, shared, axes, method, separate_processes=separate)


def _row(path: str, text: str, axes: Mapping[str, Any]) -> dict[str, list[Any]]:
    if not path:
        raise ConfigError({"axes": f"name the field that takes {text.strip()[:40]}"})
    if path in axes:
        raise ConfigError({path: "is in two rows; put all values in one"})
    if path == SEED:
        raise ConfigError({path: "has its own input: Seeds"})
    return parse_axes([f"{path}={text}"])


def form_values(query: Mapping[str, str]) -> dict[str, Any]:
    """Return the initial values of the form: ?preset=NAME&algorithm.clip_low=0.3 (shared by all runs)."""
    preset = query.get("preset", "")
    shared = query_overrides(query)
    seed = shared.pop(SEED, None)
    return {
        "preset": preset if preset in preset_names() else FIRST,
        "shared": "\n".join(f"{path}={query[path]}" for path in shared),
        "rows": [("", "")] * ROWS,
        "seeds": "0, 1, 2" if seed is None else str(seed),
        "method": "grid",
        "separate_processes": "",
        "name": "",
    }


def posted_values(post: QueryDict) -> dict[str, Any]:
    """Return the posted values, to show them again after an error."""
    rows = list(zip(post.getlist("field"), post.getlist("values"), strict=False))
    names = ("preset", "shared", "seeds", "method", "separate_processes", "name")
    return {name: post.get(name, "") for name in names} | {
        "rows": rows + [("", "")] * max(0, ROWS - len(rows))
    }
