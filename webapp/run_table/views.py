"""The page of all runs, and its actions: on many runs, and on saved views."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from training_core.errors import ConfigError
from webapp.accounts.permissions import Person, can_edit
from webapp.accounts.selectors import project_get, projects_editable
from webapp.agents.registry import with_tokens
from webapp.api.routes import lenient
from webapp.common.query_language import FilterError
from webapp.common.redirects import back
from webapp.common.tones import run_tone
from webapp.metrics.panels import AXES, BANDS, ChartSettings, board_data
from webapp.run_table.columns import (
    Column,
    columns_default,
    columns_of_runs,
    columns_read,
    families_list,
    families_rows,
    rows_cells,
)
from webapp.run_table.filters import TableFilters, runs_list
from webapp.run_table.saved_views import (
    EVERYTHING,
    VIEWS,
    WORDS,
    view_address,
    view_change,
    view_default,
    view_save,
)
from webapp.runs.configs import groupings
from webapp.runs.models import Run, RunState, SavedView
from webapp.runs.notes import run_notes_latest
from webapp.runs.selectors import demonstration_only, run_summary, runs_by_id, runs_visible, tags_of
from webapp.scheduling.services import runs_do
from webapp.stack.home import MODEL_IN_WORK

PER_PAGE = 50
SHOWN = 6
"""Number of runs on the charts unless others are selected."""
BULK = [
    ("stop", "Stop"),
    ("pause", "Pause"),
    ("resume", "Resume"),
    ("archive", "Archive"),
    ("unarchive", "Unarchive"),
    ("tag", "Add tag"),
    ("untag", "Remove tag"),
    ("priority", "Set priority"),
]


@require_GET
def runs_page(request: HttpRequest) -> HttpResponse:
    """Show all runs visible to the user, with the filters, order and grouping of the URL."""
    if view := _view_asked(request):
        return redirect(view_address(view))
    filters = lenient(TableFilters, request.GET).values()
    charts = lenient(ChartSettings, request.GET).values()
    wrong: dict[str, str] = {}
    try:
        runs = runs_list(request.user, filters)
    except FilterError as error:
        wrong, runs = error.fields, Run.objects.none()
    grouped = filters.get("group") == "family"
    number = request.GET.get("page")
    page = (
        Paginator(families_list(runs, str(filters.get("sort", ""))), PER_PAGE).get_page(number)
        if grouped
        else _page(runs, number, filters)
    )
    shown = (
        list(runs.filter(family__in=[row["family"] for row in page])[:PER_PAGE]) if grouped else list(page)
    )
    default = columns_default(shown, beside_charts=bool(charts.get("charts")))
    try:
        columns = columns_read(str(filters.get("columns", "")), default)
    except ConfigError as error:
        wrong, columns = wrong | error.fields, columns_read("", default)
    columns, editable = columns_of_runs(columns, shown), list(projects_editable(request.user))
    context = {
        "place": "runs",
        "project_slug": filters.get("project", ""),
        "filters": filters,
        "wrong": wrong,
        "page": page,
        "columns": columns,
        "views": views_shown(request),
        "everything": EVERYTHING,
        "projects_editable": editable,
        "writable": {project.slug for project in editable},
        "standard": ",".join(default),
        "charts": charts,
        "rows": families_rows(runs, list(page), columns) if grouped else _rows(list(page), columns),
        "grouped": grouped,
        "bulk": BULK,
        "states": RunState.choices,
        "tags": tags_of(request.user),
        "newcomer": demonstration_only(request.user),
        "base_model_in_work": (settings.TROUPE_HOME / MODEL_IN_WORK).exists(),
    }
    context |= _charts(request.user, runs, list(page), charts) if charts.get("charts") else {}
    return render(request, "runs/list.html", context)


def _charts(user: Person, matching: QuerySet[Run], rows: list[Any], charts: dict[str, str]) -> dict[str, Any]:
    """Return the context of the charts next to the table: its first runs are drawn unless the address names runs."""
    runs = [row for row in rows if isinstance(row, Run)]
    if not runs and rows:
        runs = list(
            matching.filter(family__in=[row["family"] for row in rows]).order_by("-created_at")[:PER_PAGE]
        )
    asked = [pk for pk in charts.get("shown", "").split(",") if pk]
    named = runs_visible(user).filter(pk__in=asked).values_list("pk", flat=True) if asked else []
    return {
        "board": board_data([*named, *(run.pk for run in runs)], [run.pk for run in runs[:SHOWN]]),
        "board_axes": {
            name: label
            for name, label in AXES.items()
            if name != "tokens" or with_tokens(run.config for run in runs)
        },
        "bands": BANDS,
        "band": charts.get("band", "sd"),
        "by": charts.get("by", "run"),
        "groupings": groupings([run.config for run in runs], charts.get("by", "")),
    }


def _view_asked(request: HttpRequest) -> SavedView | None:
    """Return the view named in the URL, or the default one for a URL without parameters. Raises Http404."""
    asked = request.GET.get("view", "")
    if asked:
        return VIEWS.get(request.user, int(asked) if asked.isdecimal() and len(asked) < 18 else 0)
    if set(request.GET) <= {"project"}:
        return view_default(request.user, request.GET.get("project", ""))
    return None


def views_shown(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the views above the table, with the current one marked: those of the project, or all."""
    slug, shown = (
        request.GET.get("project", ""),
        {name: request.GET[name] for name in WORDS if request.GET.get(name)},
    )
    views = [
        view
        for view in VIEWS.visible(request.user)
        if view.project is None or slug in ("", view.project.slug)
    ]
    return [
        {
            "view": view,
            "address": view_address(view),
            "current": view.query == shown,
            "mine": view.project is None or can_edit(request.user, view.project),
        }
        for view in views
    ]


def _page(matching: QuerySet[Run], number: str | None, filters: dict[str, object]) -> Page[Any]:
    """Return one page. A filter may read every config: it runs once, instead of once for the count and once for the rows."""
    if not filters.get("filter"):
        return Paginator(matching, PER_PAGE).get_page(number)
    page: Page[Any] = Paginator(list(matching.values_list("pk", flat=True)), PER_PAGE).get_page(number)
    runs = runs_by_id(page.object_list)
    page.object_list = [runs[pk] for pk in page.object_list if pk in runs]
    return page


def _rows(runs: list[Run], columns: list[Column]) -> list[dict[str, Any]]:
    """Return summaries with their cells and latest notes."""
    summaries, notes = [run_summary(run) for run in runs], run_notes_latest(runs)
    cells = rows_cells(runs, summaries, columns)
    return [
        summary | {"cells": row, "tone": run_tone(run.tone), "latest_note": notes.get(summary["id"])}
        for run, summary, row in zip(runs, summaries, cells, strict=True)
    ]


@require_POST
def bulk_act(request: HttpRequest) -> HttpResponse:
    """Apply one action to the selected runs and redirect to the table; "compare" only redirects to their comparison."""
    if request.POST.getlist("act")[-1:] == ["compare"]:
        return redirect(f"{reverse('compare:page')}?runs={','.join(request.POST.getlist('runs'))}")
    try:
        done = runs_do(
            request.user,
            request.POST.getlist("runs"),
            request.POST.get("act", ""),
            request.POST.get("value", ""),
        )
    except ConfigError as error:
        messages.error(request, "; ".join(error.fields.values()))
    else:
        for refused in [item for item in done if not item["ok"]]:
            messages.error(request, f"{refused['id']}: {refused['detail']}")
        if count := sum(item["ok"] for item in done):
            messages.success(request, f"Done for {count} run{'s' if count != 1 else ''}.")
    return back(request, reverse("runs:list"))


@require_POST
def view_save_act(request: HttpRequest) -> HttpResponse:
    """Save the current table as a view and redirect to it."""
    post, user = request.POST, request.user
    shown = QueryDict(post.get("query", ""))
    query = {name: shown[name] for name in WORDS if name in shown}
    try:
        project = project_get(user, post["project"]) if post.get("project") else None
        view = view_save(user, post.get("name", ""), query, project, replace="replace" in post)
        if "default" in post:
            view_change(user, view, default=True)
    except ConfigError as error:
        messages.error(request, "; ".join(error.fields.values()))
        return back(request, reverse("runs:list"))
    messages.success(request, f"The view {view.name} is saved.")
    if "stay" in post:
        return back(request, view_address(view))
    return redirect(view_address(view))


@require_POST
def view_act(request: HttpRequest, pk: int, act: str) -> HttpResponse:
    """Apply rename, default, no-default or remove, and redirect to the table."""
    view = VIEWS.get(request.user, pk)
    try:
        if act == "rename":
            view_change(request.user, view, request.POST.get("name", "").strip() or view.name)
        elif act in ("default", "no-default"):
            view_change(request.user, view, default=act == "default")
        elif act == "remove":
            VIEWS.remove(request.user, view)
        else:
            raise Http404("no such act")
    except ConfigError as error:
        messages.error(request, "; ".join(error.fields.values()))
    return back(request, reverse("runs:list"))
