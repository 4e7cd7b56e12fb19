"""Saved views: named configurations of the runs table. A view is a shortcut for a URL."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.urls import reverse

from training_core.errors import ConfigError
from troupe_client.documents import runs as documents
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project
from webapp.accounts.permissions import Person
from webapp.accounts.saved import SavedTexts, name_valid
from webapp.api.routes import parsed
from webapp.metrics.panels import WORDS as CHART_WORDS
from webapp.metrics.panels import ChartSettings
from webapp.run_table.columns import columns_read
from webapp.run_table.filters import TableFilters, is_sort, runs_filter
from webapp.runs.models import Run, SavedView

TABLE_WORDS = ("q", "state", "tag", "project", "filter", "sort", "columns", "group", "archived")
WORDS = (*TABLE_WORDS, *CHART_WORDS)
"""Stored query parameters."""
EVERYTHING = "sort=-created"
"""Parameter that shows all runs instead of the default view of a URL without parameters."""


VIEWS = SavedTexts(SavedView, "view", "views")


def view_default(user: Person, slug: str = "") -> SavedView | None:
    """Return the view for a URL without parameters: the project's default, or for all runs the user's own."""
    views = VIEWS.visible(user).filter(default=True)
    return (views.filter(project__slug=slug) if slug else views.filter(project=None)).first()


def view_save(
    user: Person,
    name: str,
    query: Mapping[str, Any],
    project: Project | None = None,
    *,
    replace: bool = False,
) -> SavedView:
    """Save a view of the user or of a project. Raises ConfigError (name, or a query parameter), PermissionDenied."""
    VIEWS.may_change(user, project)
    return VIEWS.save(user, name, _query(query, project), project, replace=replace)


@transaction.atomic
def view_change(user: Person, view: SavedView, name: str = "", default: bool | None = None) -> SavedView:
    """Change the name, or whether it is the default. Raises ConfigError (name), PermissionDenied."""
    VIEWS.may_change(user, view.project)
    if name:
        view.name = name_valid(name)
    if default is not None:
        peers = SavedView.objects.filter(project=view.project)
        (peers if view.project else peers.filter(owner=view.owner)).update(default=False)
        view.default = default
    try:
        with transaction.atomic():
            view.save(update_fields=["name", "default"])
    except IntegrityError as error:
        raise ConfigError({"name": f"a view {view.name!r} already exists"}) from error
    audit_note(user, view.project, "view.change", str(view.pk), name=view.name, default=view.default)
    return view


def view_address(view: SavedView) -> str:
    """Return the URL of the view's page."""
    words = [(name, view.query[name]) for name in WORDS if name in view.query]
    return f"{reverse('runs:list')}?{urlencode(words)}"


def panel_views(user: Person, project: Project) -> list[dict[str, Any]]:
    """Return the views with panels, of the project and of the user: {"view", "query": the query string of their charts}."""
    views = VIEWS.visible(user).filter(Q(project=None) | Q(project=project), query__has_key="panels")
    words = [name for name in CHART_WORDS if name not in ("charts", "shown", "by", "band")]
    return [
        {"view": view, "query": urlencode({name: view.query[name] for name in words if name in view.query})}
        for view in views
    ]


def view_document(view: SavedView) -> documents.SavedView:
    """Return its document."""
    return documents.SavedView(
        id=view.pk,
        name=view.name,
        project=view.project.slug if view.project else None,
        owner=view.owner.username,
        query=view.query,
        default=view.default,
        created_at=view.created_at,
        links=documents.ViewLinks(page=view_address(view)),
    )


def _query(query: Mapping[str, Any], project: Project | None) -> dict[str, str]:
    """Validate query parameters of WORDS. Raises ConfigError."""
    parameters = {name: str(value) for name, value in query.items() if value not in ("", None, False)}
    if unknown := sorted(set(parameters) - set(WORDS)):
        raise ConfigError({"query": f"{', '.join(unknown)[:80]}: a view has {', '.join(WORDS)}"})
    filters, charts = parsed(TableFilters, parameters), parsed(ChartSettings, parameters)
    if not is_sort(parameters.get("sort", "created")):
        raise ConfigError({"sort": f"{parameters['sort'][:40]!r} is not a sort order"})
    columns_read(filters.columns)
    runs_filter(Run.objects.none(), filters.filter)
    words = {name: str(value) for name, value in filters.values().items()} | charts.values()
    if "archived" in words:
        words["archived"] = "1"
    words |= {"project": project.slug} if project else {}
    # A view without filters needs a parameter: the URL without parameters opens the default view.
    return words if set(words) - {"project"} else {**words, "sort": "-created"}
