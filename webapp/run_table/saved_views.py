"""Saved views: named configurations of the runs table. A view is a shortcut for a URL."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.http import Http404
from django.urls import reverse

from training_core.errors import ConfigError
from troupe_client.documents import runs as documents
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Person, can_edit
from webapp.accounts.selectors import projects_visible
from webapp.api.routes import parsed
from webapp.metrics.panels import WORDS as CHART_WORDS
from webapp.metrics.panels import ChartSettings
from webapp.run_table.columns import columns_read
from webapp.run_table.filters import TableFilters, is_sort, runs_filter
from webapp.runs.models import Run, SavedView

TABLE_WORDS = ("q", "state", "tag", "project", "filter", "sort", "columns", "group", "archived")
WORDS = (*TABLE_WORDS, *CHART_WORDS)
"""Stored query parameters."""
LONGEST_NAME = 80
EVERYTHING = "sort=-created"
"""Parameter that shows all runs instead of the default view of a URL without parameters."""


def views_visible(user: Person) -> QuerySet[SavedView]:
    """Return the views of the user's projects, and their own, by name."""
    if not isinstance(user, User):
        return SavedView.objects.none()
    mine = Q(project=None, owner=user) | Q(project__in=projects_visible(user))
    return SavedView.objects.filter(mine).select_related("owner", "project")


def view_get(user: Person, pk: int) -> SavedView:
    """Return one visible view. Raises Http404."""
    view = views_visible(user).filter(pk=pk).first()
    if view is None:
        raise Http404(f"there is no view {pk} that is visible to you")
    return view


def view_default(user: Person, slug: str = "") -> SavedView | None:
    """Return the view for a URL without parameters: the project's default, or for all runs the user's own."""
    views = views_visible(user).filter(default=True)
    return (views.filter(project__slug=slug) if slug else views.filter(project=None)).first()


@transaction.atomic
def view_save(
    user: Person,
    name: str,
    query: Mapping[str, Any],
    project: Project | None = None,
    *,
    replace: bool = False,
) -> SavedView:
    """Save a view of the user or of a project. Raises ConfigError (name, or a query parameter), PermissionDenied."""
    if not isinstance(user, User):
        raise PermissionDenied("log in to save views")
    _may_share(user, project)
    name, words = _name(name), _query(query, project)
    same = SavedView.objects.filter(project=project, name=name)
    existing = (same if project else same.filter(owner=user)).select_for_update().first()
    if existing and not replace:
        raise ConfigError({"name": f"a view {name!r} already exists; replace it, or choose another name"})
    if existing:
        existing.query = words
        existing.save(update_fields=["query"])
    else:
        existing = SavedView.objects.create(owner=user, project=project, name=name, query=words)
    audit_note(user, project, "view.save", str(existing.pk), name=name, query=words)
    return existing


@transaction.atomic
def view_change(user: Person, view: SavedView, name: str = "", default: bool | None = None) -> SavedView:
    """Change the name, or whether it is the default. Raises ConfigError (name), PermissionDenied."""
    _may_share(user, view.project)
    if name:
        view.name = _name(name)
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


@transaction.atomic
def view_remove(user: Person, view: SavedView) -> None:
    """Delete a view. Raises PermissionDenied."""
    _may_share(user, view.project)
    audit_note(user, view.project, "view.remove", str(view.pk), name=view.name)
    view.delete()


def view_address(view: SavedView) -> str:
    """Return the URL of the view's page."""
    words = [(name, view.query[name]) for name in WORDS if name in view.query]
    return f"{reverse('runs:list')}?{urlencode(words)}"


def panel_views(user: Person, project: Project) -> list[dict[str, Any]]:
    """Return the views with panels, of the project and of the user: {"view", "query": the query string of their charts}."""
    views = views_visible(user).filter(Q(project=None) | Q(project=project), query__has_key="panels")
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


def _may_share(user: Person, project: Project | None) -> None:
    if project is not None and not can_edit(user, project):
        raise PermissionDenied(f"you cannot change the views of the project {project.slug}")


def _name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or "\0" in name:
        raise ConfigError({"name": f"give a name of 1 to {LONGEST_NAME} characters"})
    return name


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
