"""Share links: creation, listing, use and revocation.

To create a link from another app:

    share, secret = share_make(user, project, "report", str(report.pk), title=report.title)
    address = share_link(request, secret)

It needs an entry for its kind in webapp/shares/access.py (the views it opens, the runs they may read), and a selector
that accepts a `Visitor`: `user.came_for("report", str(pk))` (webapp/accounts/permissions.py).
"""

from datetime import timedelta

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import F, QuerySet
from django.http import Http404, HttpRequest
from django.urls import reverse
from django.utils import timezone

from training_core.errors import ConfigError
from troupe_client.documents import shares as documents
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Person, can_edit, is_owner
from webapp.accounts.selectors import project_get
from webapp.accounts.tokens import digest_of, new_secret
from webapp.runs.models import Run
from webapp.shares.access import KINDS, shares_live
from webapp.shares.models import ShareLink


def shares_list(project: Project) -> QuerySet[ShareLink]:
    """Return the links newest first, including ended ones."""
    return ShareLink.objects.filter(project=project).select_related("created_by", "project")


def share_get(user: Person, slug: str, pk: int) -> ShareLink:
    """Return a link of one of the user's projects. Raises Http404."""
    share = shares_list(project_get(user, slug)).filter(pk=pk).first()
    if share is None:
        raise Http404("no such link")
    return share


def is_live(share: ShareLink) -> bool:
    """Whether the link is active."""
    return share.revoked_at is None and (share.expires_at is None or share.expires_at > timezone.now())


def share_document(share: ShareLink) -> documents.Share:
    """Return the document of a link of `shares_list`."""
    author = share.created_by.username if share.created_by else None
    return documents.Share.of_row(share, project=share.project.slug, created_by=author, live=is_live(share))


@transaction.atomic
def share_make(
    user: Person, project: Project, kind: str, target: str, title: str = "", days: int | None = documents.DAYS
) -> tuple[ShareLink, str]:
    """Create a link. Returns it with its secret, which cannot be retrieved later. days: its lifetime; None: until revoked.

    Raises PermissionDenied for viewers; ConfigError for no runs, or runs outside this project.
    """
    if not can_edit(user, project):
        raise PermissionDenied("only owners and editors of the project may share what is in it")
    _check(project, kind, target)
    secret = new_secret()
    share = ShareLink.objects.create(
        project=project,
        kind=kind,
        target=target,
        title=title.strip()[:200],
        digest=digest_of(secret),
        created_by=user if isinstance(user, User) else None,
        expires_at=None if days is None else timezone.now() + timedelta(days=days),
    )
    audit_note(user, project, "share.make", f"{kind} {target}", share=share.pk, days=days or "unlimited")
    return share, secret


def share_path(secret: str) -> str:
    """Return the path of the link, without the host."""
    return reverse("shares:open", args=[secret])


def share_link(request: HttpRequest, secret: str) -> str:
    """Return the link: under the public address if it is not the one for jobs, otherwise under the address of the request."""
    path = share_path(secret)
    if settings.TROUPE_PUBLIC_URL != settings.TROUPE_URL:
        return settings.TROUPE_PUBLIC_URL + path
    return request.build_absolute_uri(path)


@transaction.atomic
def share_revoke(user: Person, share: ShareLink) -> ShareLink:
    """Revoke the link; a second call changes nothing. Raises PermissionDenied: owners revoke any link, editors their own."""
    own = share.created_by_id is not None and share.created_by_id == user.pk and can_edit(user, share.project)
    if not (own or is_owner(user, share.project)):
        raise PermissionDenied("owners of the project can revoke any link, editors only their own")
    if share.revoked_at is None:
        share.revoked_at = timezone.now()
        share.save(update_fields=["revoked_at"])
        audit_note(user, share.project, "share.revoke", f"{share.kind} {share.target}", share=share.pk)
    return share


def share_follow(secret: str) -> ShareLink | None:
    """Return the active link with this secret and count the visit; None if there is none."""
    share = shares_live([digest_of(secret)]).first()
    if share:
        ShareLink.objects.filter(pk=share.pk).update(opened=F("opened") + 1, opened_at=timezone.now())
    return share


def _check(project: Project, kind: str, target: str) -> None:
    wanted = set(KINDS[kind].runs(target))
    existing = set(Run.objects.filter(project=project, pk__in=wanted).values_list("pk", flat=True))
    if missing := sorted(wanted - existing):
        raise ConfigError(
            {"target": f"there is no run {', '.join(missing)[:200]} in the project {project.slug}"}
        )
    if kind == "comparison" and not wanted:
        raise ConfigError({"target": "name the runs that the link shows"})
