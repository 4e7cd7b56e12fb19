"""Secrets that are shown once and stored as a digest: API tokens, and login links for a single use."""

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from hmac import compare_digest

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from webapp.accounts.audit import audit_note
from webapp.accounts.models import ApiToken, LoginLink, Project, User
from webapp.accounts.permissions import Person
from webapp.common.compiled import CompiledQuery

PREFIX = "troupe_"
"""Prefix of every API token, so that people, logs and scanners recognise one."""
LAST_USED_EVERY = timedelta(minutes=1)
"""Resolution of `last_used_at`: avoids one write per request."""
PERSONAL_SCOPES = (ApiToken.Scope.READ, ApiToken.Scope.LAUNCH, ApiToken.Scope.ADMIN)
"""Scopes of personal tokens, each including those before it; the server creates ingest tokens per run."""
LINK_LIFETIME = timedelta(hours=24)
DAY = timedelta(hours=24)
LAUNCHES = ("run.launch", "run.resume", "job.create")
"""Acts that count towards a token's limit."""


def new_secret(prefix: str = "") -> str:
    """Return 256 random bits as URL-safe text."""
    return prefix + secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    """Return the SHA-256 digest as hex. A plain hash is sufficient: 256 random bits cannot be guessed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def token_create(
    user: User,
    name: str,
    scopes: Iterable[str],
    run_id: str | None = None,
    expires: datetime | None = None,
    project: Project | None = None,
    runs_per_day: int | None = None,
) -> tuple[ApiToken, str]:
    """Create a token. Returns it with its secret, which cannot be retrieved later.

    run_id: the only run that an ingest token writes to. project: the only project accessible with the token.
    runs_per_day: see `launches_permit`.
    Raises ValidationError for unknown or no scopes.
    """
    wanted = sorted({str(scope) for scope in scopes})
    unknown = [scope for scope in wanted if scope not in ApiToken.Scope.values]
    if unknown or not wanted:
        raise ValidationError(
            {"scopes": f"scopes are {', '.join(ApiToken.Scope.values)}, not {unknown or 'none'}"}
        )
    secret = new_secret(PREFIX)
    token = ApiToken.objects.create(
        user=user,
        name=name,
        prefix=secret[:12],
        digest=digest_of(secret),
        scopes=wanted,
        run_id=run_id,
        project=project,
        runs_per_day=runs_per_day,
        expires_at=expires,
    )
    return token, secret


_TOKEN = CompiledQuery(lambda digest: ApiToken.objects.filter(digest=digest))
_USER = CompiledQuery(lambda user_id: User.objects.filter(pk=user_id))


def token_find(secret: str) -> ApiToken | None:
    """Return the active token with this secret, else None. Updates its last use, at most once a minute.

    For a token of one project, its user sees no other project.
    """
    if not secret.startswith(PREFIX) or len(secret) > 200:
        return None
    digest = digest_of(secret)
    token = _TOKEN.first(digest)
    user = _USER.first(token.user_id) if token else None
    if token is None or user is None or not compare_digest(token.digest, digest):
        return None
    token.user = user
    if not _usable(token):
        return None
    _note_use(token)
    token.user.token, token.user.token_project_id = token, token.project_id
    return token


def token_covers(token: ApiToken, scope: str) -> bool:
    """Whether the token has this personal scope, or one that includes it."""
    including = PERSONAL_SCOPES[PERSONAL_SCOPES.index(ApiToken.Scope(scope)) :]
    return any(scope in token.scopes for scope in including)


def scopes_of(token: ApiToken) -> list[str]:
    """Return the personal scopes of the token, with those that they include."""
    return [str(scope) for scope in PERSONAL_SCOPES if token_covers(token, scope)]


def launches_left(token: ApiToken) -> int | None:
    """Return how many runs and jobs the token may start now; None without a limit."""
    if token.runs_per_day is None:
        return None
    since = timezone.now() - DAY
    launched = token.audit_entries.filter(act__in=LAUNCHES, created_at__gt=since).count()
    return max(0, token.runs_per_day - launched)


def launches_permit(user: Person) -> None:
    """Raise PermissionDenied if the token of the request has reached its limit of runs and jobs in 24 hours.

    Called in the transaction that writes the audit entry of the launch: launches with one token wait for each other.
    """
    token = getattr(user, "token", None)
    if token is None or token.runs_per_day is None:
        return
    locked = ApiToken.objects.select_for_update().get(pk=token.pk)
    if not launches_left(locked):
        raise PermissionDenied(
            f"the token {locked.name!r} may start {locked.runs_per_day} runs and jobs in 24 hours, which it has done; "
            "wait, or create a token with another limit under Account, API tokens"
        )


@transaction.atomic
def token_revoke(user: User, pk: int) -> bool:
    """Revoke a token of this user permanently. Returns False if the user has no such active token."""
    token = ApiToken.objects.select_for_update().filter(pk=pk, user=user, revoked_at=None).first()
    if token is None:
        return False
    token.revoked_at = timezone.now()
    token.save(update_fields=["revoked_at"])
    audit_note(user, token.project, "token.revoke", token.name, prefix=token.prefix)
    return True


def run_tokens_revoke(run_id: str) -> int:
    """Revoke the ingest tokens of a run. Returns their number."""
    return ApiToken.objects.filter(run=run_id, revoked_at=None).update(revoked_at=timezone.now())


def _usable(token: ApiToken) -> bool:
    expired = token.expires_at is not None and token.expires_at <= timezone.now()
    return token.revoked_at is None and not expired and token.user.is_active


def _note_use(token: ApiToken) -> None:
    now = timezone.now()
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_EVERY)
    if token.last_used_at is None or token.last_used_at < now - LAST_USED_EVERY:
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
        token.last_used_at = now


def link_create(user: User, lifetime: timedelta = LINK_LIFETIME) -> str:
    """Create a link and return its secret; deletes the user's expired links."""
    LoginLink.objects.filter(user=user, expires_at__lt=timezone.now()).delete()
    secret = new_secret()
    LoginLink.objects.create(user=user, digest=digest_of(secret), expires_at=timezone.now() + lifetime)
    return secret


def _link(secret: str) -> QuerySet[LoginLink]:
    return LoginLink.objects.select_related("user").filter(digest=digest_of(secret))


def link_user(secret: str) -> User | None:
    """Return the user that `link_use` would log in."""
    link = _link(secret).first()
    return link.user if link and _is_valid(link) else None


def _is_valid(link: LoginLink) -> bool:
    return link.used_at is None and link.expires_at > timezone.now() and link.user.is_active


@transaction.atomic
def link_use(secret: str) -> User | None:
    """Return the user of the link on its first use; None for an unknown, used or expired link.

    The row lock makes two simultaneous clicks one login. The lookup is by digest, so its timing reveals nothing about
    the secret.
    """
    link = _link(secret).select_for_update(of=("self",)).first()
    if link is None or not _is_valid(link):
        return None
    link.used_at = timezone.now()
    link.save(update_fields=["used_at"])
    return link.user
