"""Pages of questions to a run's episodes: a table, and the share that matches a query over training; saved queries."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson
from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Max, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from training_core.errors import ConfigError
from webapp.common.attachments import stream
from webapp.common.redirects import back
from webapp.runs.frame import run_context
from webapp.runs.models import Run
from webapp.runs.selectors import run_get
from webapp.transcripts.completion import newest_of
from webapp.transcripts.counts import counts_read
from webapp.transcripts.forms import EpisodeFilters, TableOrder
from webapp.transcripts.listing import is_narrowed
from webapp.transcripts.models import Episode
from webapp.transcripts.pages import filters_context
from webapp.transcripts.query_curve import curve_read, curve_rows
from webapp.transcripts.saved_queries import query_get, query_remove, query_save
from webapp.transcripts.selectors import episodes_list
from webapp.transcripts.table import (
    column_options,
    standard_columns,
    table_columns,
    table_lines,
    table_sort,
)
from workers.http import cell_text

PER_PAGE = 100


@require_GET
def table_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show episodes in columns that the URL names, sorted by one of them."""
    run = run_get(request.user, run_id)
    filters, order = EpisodeFilters(request.GET).values(), TableOrder(request.GET).values()
    wrong: dict[str, str] = {}
    try:
        columns = table_columns(run, order["columns"])
    except ConfigError as error:
        wrong, columns = error.fields, table_columns(run, "")
    try:
        episodes = table_sort(run, episodes_list(run, filters), order["sort"])
    except ConfigError as error:
        wrong, episodes = wrong | error.fields, episodes_list(run).none()
    newest, count = _extent(run, episodes, filters, order["upto"])
    page = Counted(episodes.filter(pk__lte=newest), count).get_page(order["page"])
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
        super().__init__(episodes, PER_PAGE)
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
    order = TableOrder(request.GET).values()
    return table_answer(request, run, EpisodeFilters(request.GET).values(), order, form)


def table_answer(
    request: HttpRequest, run: Run, filters: dict[str, Any], order: dict[str, Any], form: str
) -> HttpResponseBase:
    """Stream the table of the filters, columns and order. Raises ConfigError."""
    columns = table_columns(run, order["columns"])
    episodes = table_sort(run, episodes_list(run, filters), order["sort"])
    rows = table_lines(episodes, columns)
    name = f"{run.pk}-episodes.{form}"
    if form == "jsonl":
        return stream(request, (orjson.dumps(row) + b"\n" for row in rows), "application/x-ndjson", name)
    words = ["id", "name", *(column.word for column in columns)]
    lines = (csv_line([row[word] for word in words]) for row in rows)
    return stream(request, _after(csv_line(words), lines), "text/csv; charset=utf-8", name)


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
        "curve": curve,
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
    lines = (csv_line(row) for row in curve_rows(curve))
    return stream(request, lines, "text/csv; charset=utf-8", f"{run.pk}-shares.csv")


@require_POST
def query_write(request: HttpRequest, run_id: str) -> HttpResponse:
    """Save the posted query under a name and redirect to it."""
    run, post = run_get(request.user, run_id), request.POST
    here = reverse("transcripts:list", args=[run.pk])
    try:
        project = run.project if post.get("project") else None
        saved = query_save(
            request.user, post.get("name", ""), post.get("query", ""), project, replace="replace" in post
        )
    except ConfigError as error:
        messages.error(request, "; ".join(error.fields.values()))
        return back(request, here)
    messages.success(request, f"The query {saved.name} is saved.")
    return back(request, here)


@require_POST
def query_drop(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """Remove a saved query."""
    run = run_get(request.user, run_id)
    query_remove(request.user, query_get(request.user, pk))
    return back(request, reverse("transcripts:list", args=[run.pk]))


def csv_line(cells: Iterable[Any]) -> bytes:
    """Return one line of a CSV file; cells hold no formulas."""
    text = io.StringIO()
    csv.writer(text).writerow([cell_text(cell) for cell in cells])
    return text.getvalue().encode()


def _after(head: bytes, lines: Iterable[bytes]) -> Iterator[bytes]:
    yield head
    yield from lines
