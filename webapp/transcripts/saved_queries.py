"""Saved queries of transcripts: names for texts of the query language, usable in all runs."""

from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest
from django.urls import reverse

from training_core.errors import ConfigError
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Person, can_edit
from webapp.accounts.selectors import projects_visible
from webapp.runs.models import Run
from webapp.transcripts.models import SavedQuery
from webapp.transcripts.query import query_condition

LONGEST_NAME = 80


def queries_visible(user: Person) -> QuerySet[SavedQuery]:
    """Return the queries of the user's projects, and their own, by name."""
    if not isinstance(user, User):
        return SavedQuery.objects.none()
    mine = Q(project=None, owner=user) | Q(project__in=projects_visible(user))
    return SavedQuery.objects.filter(mine).select_related("owner", "project")


def query_get(user: Person, pk: int) -> SavedQuery:
    """Return one visible query. Raises Http404."""
    saved = queries_visible(user).filter(pk=pk).first()
    if saved is None:
        raise Http404(f"there is no saved query {pk} that is visible to you")
    return saved


@transaction.atomic
def query_save(
    user: Person, name: str, query: str, project: Project | None = None, *, replace: bool = False
) -> SavedQuery:
    """Save a query of the user or of a project. Raises ConfigError (name, query), PermissionDenied."""
    if not isinstance(user, User):
        raise PermissionDenied("log in to save queries")
    _may_change(user, project)
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or "\0" in name:
        raise ConfigError({"name": f"give a name of 1 to {LONGEST_NAME} characters"})
    if not query.strip():
        raise ConfigError({"query": "give a query"})
    query_condition(Run(config={}), query)
    same = SavedQuery.objects.filter(project=project, name=name)
    existing = (same if project else same.filter(owner=user)).select_for_update().first()
    if existing and not replace:
        raise ConfigError({"name": f"a query {name!r} already exists; replace it, or choose another name"})
    saved = existing or SavedQuery(owner=user, project=project, name=name)
    saved.query = query
    saved.save()
    audit_note(user, project, "query.save", str(saved.pk), name=name, query=query)
    return saved


@transaction.atomic
def query_remove(user: Person, saved: SavedQuery) -> None:
    """Delete a query. Raises PermissionDenied."""
    _may_change(user, saved.project)
    audit_note(user, saved.project, "query.remove", str(saved.pk), name=saved.name)
    saved.delete()


def query_document(saved: SavedQuery) -> dict[str, Any]:
    """Return JSON for the API."""
    return {
        "id": saved.pk,
        "name": saved.name,
        "project": saved.project.slug if saved.project else None,
        "owner": saved.owner.username,
        "query": saved.query,
        "created_at": saved.created_at.isoformat(),
    }


def queries_shown(request: HttpRequest, run: Run) -> list[dict[str, Any]]:
    """Return the queries above a run's transcripts, those of its project and the user's own, with the current one marked."""
    asked = request.GET.get("query", "").strip()
    return [
        {
            "saved": saved,
            "address": f"{reverse('transcripts:list', args=[run.pk])}?{urlencode({'query': saved.query})}",
            "current": saved.query.strip() == asked,
            "mine": saved.project is None or can_edit(request.user, saved.project),
        }
        for saved in queries_visible(request.user)
        if saved.project_id in (None, run.project_id)
    ]


def _may_change(user: Person, project: Project | None) -> None:
    if project is not None and not can_edit(user, project):
        raise PermissionDenied(f"you cannot change the queries of the project {project.slug}")
