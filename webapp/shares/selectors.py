"""Reading links."""

from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from django.db.models import Q, QuerySet
from django.http import Http404
from django.urls import Resolver404, resolve
from django.utils import timezone

from webapp.accounts.models import Project
from webapp.accounts.permissions import Person, Visitor
from webapp.accounts.selectors import project_get
from webapp.shares.kinds import KINDS, compared_runs
from webapp.shares.models import ShareLink


def shares_list(project: Project) -> QuerySet[ShareLink]:
    """Return the links newest first, including ended ones."""
    return ShareLink.objects.filter(project=project).select_related("created_by")


def share_get(user: Person, slug: str, pk: int) -> ShareLink:
    """Return a link of one of the user's projects. Raises Http404."""
    share = shares_list(project_get(user, slug)).select_related("project").filter(pk=pk).first()
    if share is None:
        raise Http404("no such link")
    return share


def shares_live(digests: Collection[str]) -> QuerySet[ShareLink]:
    """Return the active links with these secrets."""
    lasting = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    return ShareLink.objects.filter(lasting, digest__in=digests, revoked_at=None).select_related("project")


def is_live(share: ShareLink) -> bool:
    """Whether the link is active."""
    return share.revoked_at is None and (share.expires_at is None or share.expires_at > timezone.now())


def visitor_find(digests: Collection[str], view: str, arguments: Mapping[str, Any]) -> Visitor | None:
    """Return a Visitor if one of the links opens this view, else None."""
    kinds = {name: kind.views[view] for name, kind in KINDS.items() if view in kind.views}
    if not kinds or not digests:
        return None
    for share in shares_live(digests).filter(kind__in=kinds):
        part, runs = kinds[share.kind], KINDS[share.kind].runs(share.target)
        if part and str(arguments.get(part)) != share.target:
            continue
        if not part and "run_id" in arguments and arguments["run_id"] not in runs:
            continue
        return Visitor(share.project, share.kind, share.target, runs)
    return None


def address_opens(digests: Collection[str], address: str) -> bool:
    """Return whether one of the links opens this address, a path with its query; a comparison, only of shared runs."""
    path, query = urlsplit(address)[2:4]
    try:
        match = resolve(path)
    except Resolver404:
        return False
    visitor = visitor_find(digests, match.view_name, match.kwargs)
    if visitor is None:
        return False
    return match.app_name != "compare" or set(compared_runs(query)) <= set(visitor.runs)


def share_document(share: ShareLink) -> dict[str, Any]:
    """Return the link as JSON, without the secret, which is not stored."""
    return {
        "id": share.pk,
        "kind": share.kind,
        "target": share.target,
        "title": share.title,
        "project": share.project.slug,
        "created_by": share.created_by.username if share.created_by else None,
        "created_at": share.created_at.isoformat(),
        "expires_at": share.expires_at and share.expires_at.isoformat(),
        "revoked_at": share.revoked_at and share.revoked_at.isoformat(),
        "opened": share.opened,
        "live": is_live(share),
    }
