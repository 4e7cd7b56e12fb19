"""Pages of a run's episodes: the list, the table, and the share that matches a query over training; saved queries."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Max, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST
from pydantic import BaseModel, Field, StringConstraints

from training_core.errors import ConfigError
from troupe_client.documents.transcripts import EpisodeFilters
from webapp.accounts.permissions import Visitor, can_edit
from webapp.api.routes import lenient
from webapp.common.query_language import FilterError
from webapp.common.redirects import back
from webapp.common.tones import role_tones
from webapp.runs.frame import framed_run, run_context
from webapp.runs.models import Run
from webapp.runs.selectors import run_get
from webapp.transcripts import export
from webapp.transcripts.curve import curve_read
from webapp.transcripts.episodes import (
    EXAMINED,
    PER_PAGE,
    Slice,
    counts_read,
    episodes_list,
    has_success,
    is_narrowed,
    quarters_read,
    stream_read,
)
from webapp.transcripts.models import Episode
from webapp.transcripts.query import KINDS, PARAMETER, SAVED, newest_of, query_save
from webapp.transcripts.services import labels_of
from webapp.transcripts.table import column_options, standard_columns, table_columns, table_sort

TABLE_PAGE = 100
OUTCOMES = {"success": "solved", "unsolved": "not solved", "error": "error"}
QUARTERS = {"4": "highest quarter", "3": "third quarter", "2": "second quarter", "1": "lowest quarter"}
"""Quarter of the returns -> label, the best first."""
TRUTHS = {"truncated": "Cut off", "probe": "Probe"}
NETWORK_TRUTHS = {"failed": "Error", "probe": "Probe"}
"""Filters in place of TRUTHS for runs without success and without responses that could be cut off."""
FEW = ("query", "q", "kind", "outcome", "quarter", "iteration_min", "iteration_max")
"""Filters that are always visible."""


class ListPosition(BaseModel):
    """Position in the list at which a page begins: ids of episodes."""

    before: int | None = Field(None, ge=1, lt=2**63)
    after: int | None = Field(None, ge=0, lt=2**63)


class TableOrder(BaseModel):
    """Columns, order and page of the table; upto: the newest episode of the table when its first page was shown."""

    columns: Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000)] = ""
    sort: Annotated[str, StringConstraints(strip_whitespace=True, max_length=250)] = ""
    page: str = ""
    upto: int | None = Field(None, ge=1, lt=2**63)


@require_GET
def episodes_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the run's episodes, newest first, with the filters of the URL; `part=rows` returns only the rows."""
    run = framed_run(request.user, run_id)
    visitor = isinstance(request.user, Visitor)
    filters = lenient(EpisodeFilters, request.GET).values()
    if visitor:  # users wrote labels and notes
        filters.pop("label", None)
        filters["noted"] = False
    position = lenient(ListPosition, request.GET)
    whole = request.GET.get("part") != "rows"
    newest = newest_of(run).get("pk", 0) if whole else 0  # before the rows: a later episode is then new
    wrong = ""
    try:
        page = stream_read(run, filters, position.before, position.after)
    except FilterError as error:
        wrong, page = error.fields[PARAMETER], Slice([], None)
    if not whole:
        context = {"run": run, "episodes": page.episodes, "quarters": quarters_read(run)}
        answer = render(request, "transcripts/_rows.html", context)
        answer["Troupe-Older"] = str(page.older or "")
        return answer
    context = run_context(request.user, run, "transcripts") | {
        **filters_context(run, filters, noted=not visitor),
        "counts": counts_read(run, None if wrong else filters, page),
        "wrong": wrong,
        "queries": _queries(request, run),
        "episodes": page.episodes,
        "newest": newest,
        "older": page.older,
        "unexamined": page.examined,
        "examined": EXAMINED,
        "probes": any(run.episode_counts.get(kind) for kind in KINDS if kind != "train"),
        "paused": position.before is not None,
        "most": PER_PAGE,
    }
    return render(request, "transcripts/list.html", context)


def filters_context(run: Run, filters: Mapping[str, Any], noted: bool = True) -> dict[str, Any]:
    """Return the options of the filter form; noted: labels too. A single iteration is shown as a range of one."""
    shown = {name: value for name, value in filters.items() if name != "noted"}
    if (iteration := shown.pop("iteration", None)) is not None:
        shown |= {"iteration_min": iteration, "iteration_max": iteration}
    newest = newest_of(run)
    success = has_success(run)

    def names(name: str, known: Iterable[str] | None, met: Iterable[str] | None = None) -> list[str]:
        """Return distinct names: those of the config, of the newest episode, and the selected one."""
        return [text for text in dict.fromkeys([*(known or ()), *(met or ()), shown.get(name)]) if text]

    return {
        "filters": shown,
        "quarters": quarters_read(run),
        "quarter_names": [] if success else list(QUARTERS.items()),
        "more_filters": len(shown.keys() - set(FEW)),
        "kinds": list(KINDS.items()),
        "outcomes": list(OUTCOMES.items()) if success else [],
        "truths": (TRUTHS if success else NETWORK_TRUTHS).items(),
        "labels": names("label", labels_of(run)) if noted else [],
        "roles": names("role", role_tones(run.config), newest.get("rewards")),
        "policies": names("policy", run.config.get("policies"), newest.get("versions")),
        "environments": names("environment", [run.config.get("environment", {}).get("type")]),
    }


@require_GET
def episodes_export(request: HttpRequest, run_id: str) -> HttpResponseBase:
    """Export the episodes that match the filters of the URL as JSON Lines."""
    filters = lenient(EpisodeFilters, request.GET).values()
    return export.episodes_export(request, run_get(request.user, run_id), filters)


@require_GET
def table_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show episodes in columns that the URL names, sorted by one of them."""
    run = run_get(request.user, run_id)
    filters, order = lenient(EpisodeFilters, request.GET).values(), lenient(TableOrder, request.GET)
    wrong: dict[str, str] = {}
    try:
        columns = table_columns(run, order.columns)
    except ConfigError as error:
        wrong, columns = error.fields, table_columns(run, "")
    try:
        episodes = table_sort(run, episodes_list(run, filters), order.sort)
    except ConfigError as error:
        wrong, episodes = wrong | error.fields, episodes_list(run).none()
    newest, count = _extent(run, episodes, filters, order.upto)
    page = Counted(episodes.filter(pk__lte=newest), count).get_page(order.page)
    context = run_context(request.user, run, "transcripts") | {
        **filters_context(run, filters),
        "wrong": wrong,
        "columns": columns,
        "standard": ",".join(standard_columns(run)),
        "options": column_options(run),
        "page": page,
        "newest": newest,
        "counts": counts_read(run),
        "rows": [
            (episode, [(column, column.value(episode)) for column in columns]) for episode in page.object_list
        ],
    }
    return render(request, "transcripts/table.html", context)


class Counted(Paginator):  # type: ignore[type-arg]  # the stubs are generic, Django is not
    """Pages of episodes whose number is known."""

    def __init__(self, episodes: QuerySet[Episode], count: int) -> None:
        super().__init__(episodes, TABLE_PAGE)
        self.count = count


def _extent(
    run: Run, episodes: QuerySet[Episode], filters: Mapping[str, Any], upto: int | None
) -> tuple[int, int]:
    """Return the id of the newest episode of the table, and their number, which is stored for a run without filters."""
    if episodes.query.is_empty():
        return 0, 0
    if upto:
        return upto, episodes.filter(pk__lte=upto).count()
    if not is_narrowed(filters):
        return newest_of(run).get("pk", 0), sum(run.episode_counts.values())
    extent = episodes.order_by().aggregate(newest=Max("pk"), count=Count("pk"))
    return extent["newest"] or 0, extent["count"]


@require_GET
def table_export(request: HttpRequest, run_id: str, form: str) -> HttpResponseBase:
    """Export the whole table as csv or jsonl."""
    run = run_get(request.user, run_id)
    if form not in ("csv", "jsonl"):
        raise Http404("the table is exported as csv or jsonl")
    filters, order = lenient(EpisodeFilters, request.GET).values(), lenient(TableOrder, request.GET)
    return export.table_export(request, run, filters, order.columns, order.sort, form)


@require_GET
def curve_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the share of stored episodes that match `query` among those that match `base`, by iteration and kind."""
    run = run_get(request.user, run_id)
    query, base = request.GET.get("query", ""), request.GET.get("base", "")
    wrong: dict[str, str] = {}
    curve = None
    if query.strip():
        try:
            curve = curve_read(run, query, base)
        except ConfigError as error:
            wrong = error.fields
    context = run_context(request.user, run, "transcripts") | {
        "query": query,
        "base": base,
        "curve": curve and curve.model_dump(mode="json"),
        "wrong": wrong,
        "counts": counts_read(run),
        "roles": list(run.config["team"]["roles"]),
    }
    return render(request, "transcripts/curve.html", context)


@require_GET
def curve_csv(request: HttpRequest, run_id: str) -> HttpResponseBase:
    """Export the curve, a row per point."""
    run = run_get(request.user, run_id)
    curve = curve_read(run, request.GET.get("query", ""), request.GET.get("base", ""))
    return export.curve_export(request, run, curve)


def _queries(request: HttpRequest, run: Run) -> list[dict[str, Any]]:
    """Return the saved queries of the run's project and the user's own, with the current one marked."""
    asked = request.GET.get("query", "").strip()
    page = reverse("transcripts:list", args=[run.pk])
    return [
        {
            "saved": saved,
            "address": f"{page}?{urlencode({'query': saved.query})}",
            "current": saved.query.strip() == asked,
            "mine": saved.project is None or can_edit(request.user, saved.project),
        }
        for saved in SAVED.visible(request.user)
        if saved.project_id in (None, run.project_id)
    ]


@require_POST
def query_write(request: HttpRequest, run_id: str) -> HttpResponse:
    """Save the posted query under a name and redirect to it."""
    run, post = run_get(request.user, run_id), request.POST
    project = run.project if post.get("project") else None
    name, query = post.get("name", ""), post.get("query", "")
    try:
        saved = query_save(request.user, name, query, project, replace="replace" in post)
        messages.success(request, f"The query {saved.name} is saved.")
    except ConfigError as error:
        messages.error(request, "; ".join(error.fields.values()))
    return back(request, reverse("transcripts:list", args=[run.pk]))


@require_POST
def query_drop(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """Remove a saved query."""
    run = run_get(request.user, run_id)
    SAVED.remove(request.user, SAVED.get(request.user, pk))
    return back(request, reverse("transcripts:list", args=[run.pk]))
