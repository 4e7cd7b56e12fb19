"""The API of the runs table: lists, launches, actions on many runs, families, saved views, completion."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from training_core.config.files import read_preset
from training_core.errors import ConfigError
from troupe_client.documents import runs as documents
from troupe_client.documents.base import Page
from troupe_client.documents.launches import LaunchBody
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import project_default, project_get, project_named
from webapp.api.pagination import NewestFirst, OrderedPages, paged
from webapp.api.routes import Routes
from webapp.common.query_language import LONGEST
from webapp.run_table import saved_views
from webapp.run_table.columns import Column, cells_json, columns_read, families_list, rows_cells
from webapp.run_table.completion import column_complete, filter_complete
from webapp.run_table.filters import SORT_WORDS, RunFilters, is_sort, runs_list
from webapp.runs.models import Run
from webapp.runs.selectors import run_get, run_summary
from webapp.scheduling.services import run_create, runs_do

routes = Routes()
MOST_FAMILIES = 200


class RunPages(NewestFirst):
    """Runs by creation time."""

    ordering = ("-created_at", "-id")


def run_rows(runs: Sequence[Run], columns: Sequence[Column]) -> list[documents.RunRow]:
    """Return the documents of runs with their values of these columns."""
    summaries = [run_summary(run) for run in runs]
    if not columns:
        return [documents.RunRow(**summary) for summary in summaries]
    cells = rows_cells(runs, summaries, columns)
    return [
        documents.RunRow(**summary, **cells_json(row)) for summary, row in zip(summaries, cells, strict=True)
    ]


@routes.get("runs/", name="runs", operation_id="v1_runs_list", paging=("limit", "cursor", "offset"))
def runs(user: Person, request: Request, query: RunFilters) -> Page[documents.RunRow]:
    """Return runs newest first, or by `sort`, with the values of `columns` and the changes of metrics among them."""
    if query.sort and not is_sort(query.sort):
        raise ConfigError({"sort": f"{query.sort[:40]!r}: use {SORT_WORDS}"})
    columns = columns_read(query.columns) if query.columns else []
    pages = OrderedPages if query.sort else RunPages
    return paged(request, runs_list(user, query.values()), pages, lambda page: run_rows(page, columns))  # type: ignore[no-any-return]


@routes.post("runs/", status=201)
def run_launch(user: Person, body: LaunchBody) -> documents.RunSummary:
    """Launch a run: 201 with id and links, or 400 with one message per field path."""
    project = project_named(user, body.project) if body.project else project_default(user)
    if project is None:
        raise PermissionDenied("you cannot launch in any project; ask an owner for the editor level")
    run = run_create(
        user,
        project,
        read_preset(body.preset) if body.config is None else body.config,
        body.preset,
        body.overrides,
        body.name,
        body.tags,
        {"via": "API"} | body.provenance,
    )
    return documents.RunSummary(**run_summary(run_get(user, run.pk)))


@routes.post("bulk/", name="bulk")
def bulk(user: Person, body: documents.BulkBody) -> list[documents.BulkResult]:
    """Apply one action to many runs; a refusal does not affect the others."""
    return [documents.BulkResult(**result) for result in runs_do(user, body.runs, body.act, str(body.value))]


@routes.get("families/", name="families")
def families(
    user: Person, filter: Annotated[str, Field(description="The filter language.")] = ""
) -> list[documents.RunFamily]:
    """Return runs grouped by everything except the seed: at most 200 families, newest first."""
    listed = families_list(runs_list(user, {"filter": filter}))[:MOST_FAMILIES]
    return [documents.RunFamily(**row) for row in listed]


@routes.get("columns/complete/", name="columns-complete")
def columns_complete(
    user: Person, text: Annotated[str, Field(description="A prefix, or a substring, of a name.")] = ""
) -> documents.FilterCompletion:
    """Return names of columns: facts, metrics and config fields of the caller's runs."""
    return documents.FilterCompletion(**column_complete(user, text[:LONGEST]))


@routes.get("filter/complete/", name="filter-complete")
def filters_complete(
    user: Person, text: Annotated[str, Field(description="The filter up to the caret.")] = ""
) -> documents.FilterCompletion:
    """Return completions of a filter."""
    return documents.FilterCompletion(**filter_complete(user, text[:LONGEST]))


@routes.get("views/", name="views", operation_id="v1_views_list")
def views(user: Person) -> list[documents.SavedView]:
    """Return the caller's own views and those of their projects, by name."""
    return [saved_views.view_document(view) for view in saved_views.VIEWS.visible(user)]


@routes.post("views/", status=201)
def view_save(user: Person, body: documents.ViewBody) -> documents.SavedView:
    """Save a view of the table; without a project it belongs to the caller."""
    project = project_get(user, body.project) if body.project else None
    made = saved_views.view_save(user, body.name, body.query, project, replace=body.replace)
    return saved_views.view_document(made)


@routes.get("views/<int:pk>/", name="view")
def view(user: Person, pk: int) -> documents.SavedView:
    """Return a view: its query, and the URL of its page."""
    return saved_views.view_document(saved_views.VIEWS.get(user, pk))


@routes.patch("views/<int:pk>/")
def view_change(user: Person, pk: int, body: documents.ViewChangeBody) -> documents.SavedView:
    """Rename a view, or make it the default."""
    view = saved_views.VIEWS.get(user, pk)
    return saved_views.view_document(saved_views.view_change(user, view, body.name, body.default))


@routes.delete("views/<int:pk>/")
def view_remove(user: Person, pk: int) -> documents.SavedViewDeleted:
    """Delete a view."""
    view = saved_views.VIEWS.get(user, pk)
    document = documents.SavedViewDeleted(**dict(saved_views.view_document(view)))
    saved_views.VIEWS.remove(user, view)
    return document
