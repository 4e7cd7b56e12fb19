"""Tokens that are created through the API: none may do more than the token that creates it."""

from datetime import timedelta
from typing import cast

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone

from troupe_client.documents import projects as documents
from webapp.accounts.audit import audit_note
from webapp.accounts.models import ApiToken, Project, User
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import project_get
from webapp.accounts.tokens import PERSONAL_SCOPES, token_create


@transaction.atomic
def token_grant(user: Person, body: documents.TokenBody) -> tuple[ApiToken, str]:
    """Create a personal token, with an audit entry. Returns it with its secret, which cannot be retrieved later.

    A token of one project creates tokens of that project, none outlives the one that creates it, and one with a limit of runs creates
    none, because several would exceed the limit. Raises PermissionDenied, Http404.
    """
    own: ApiToken | None = getattr(user, "token", None)
    if own is not None and own.runs_per_day is not None:
        raise PermissionDenied(
            f"the token {own.name!r} has a limit of runs; create tokens with one that has none, or under Account, API tokens"
        )
    project = project_get(user, body.project) if body.project else None
    if own is not None and own.project is not None:
        project = own.project
    expires = timezone.now() + timedelta(days=body.days) if body.days else None
    if own is not None and own.expires_at is not None:
        expires = min(filter(None, (expires, own.expires_at)))
    last = PERSONAL_SCOPES.index(ApiToken.Scope(body.scope))
    token, secret = token_create(
        cast(User, user),
        body.name,
        [str(scope) for scope in PERSONAL_SCOPES[: last + 1]],
        expires=expires,
        project=project,
        runs_per_day=body.runs_per_day,
    )
    lasts = expires.isoformat() if expires else "never"
    audit_note(
        user, project, "token.make", body.name, prefix=token.prefix, scopes=token.scopes, expires=lasts
    )
    return token, secret


def token_document(token: ApiToken) -> documents.Token:
    """Return the document of a token of its user."""
    project: Project | None = token.project
    return documents.Token.of_row(
        token, username=token.user.username, project=project.slug if project else None
    )
