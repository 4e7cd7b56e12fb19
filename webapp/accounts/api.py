"""Projects, their members, tokens and audit log in the REST API."""

from typing import Annotated, cast

from django.http import Http404
from pydantic import Field
from rest_framework.request import Request

from troupe_client.documents import projects as documents
from webapp.accounts.audit import audit_document, audit_read
from webapp.accounts.granting import token_document, token_grant
from webapp.accounts.models import ApiToken, User
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import (
    members_list,
    memberships_of,
    project_get,
    project_tokens,
    tokens_list,
)
from webapp.accounts.services import member_remove, member_set, project_create
from webapp.accounts.tokens import launches_left, scopes_of, token_revoke
from webapp.api.routes import Routes

MEMBERS = "projects/<slug:slug>/members/"
MOST = 500
routes = Routes()


@routes.get("projects/", name="projects")
def projects(user: Person) -> list[documents.Project]:
    """Return the projects by name, with the caller's level in each."""
    return [
        documents.Project.of_row(membership.project, level=membership.level)
        for membership in memberships_of(user)
    ]


@routes.post("projects/", status=201, admin=True)
def project_add(user: Person, body: documents.ProjectBody) -> documents.Project:
    """Create a project; the caller is its owner."""
    return documents.Project.of_row(project_create(cast(User, user), body.name), level="owner")


@routes.get(MEMBERS, name="members")
def members(user: Person, slug: str) -> list[documents.Member]:
    """Return the members of a project by name."""
    rows = members_list(project_get(user, slug))
    return [documents.Member(username=row.user.username, level=row.level) for row in rows]


@routes.post(MEMBERS, admin=True)
def member_change(user: Person, slug: str, body: documents.MemberBody) -> documents.Member:
    """Add a user with an account, or change their level; owners only."""
    membership = member_set(cast(User, user), project_get(user, slug), body.username, body.level)
    return documents.Member(username=membership.user.username, level=membership.level)


@routes.post(f"{MEMBERS}<str:username>/remove/", name="member-remove", admin=True)
def member_end(user: Person, slug: str, username: str) -> documents.RemovedMember:
    """Remove a member; owners only, and the last owner cannot be removed."""
    person = User.objects.filter(username=username).first()
    member_remove(cast(User, user), project_get(user, slug), person.pk if person else 0)
    return documents.RemovedMember(username=username)


@routes.get("projects/<slug:slug>/tokens/", name="project-tokens")
def tokens(user: Person, slug: str) -> list[documents.ProjectToken]:
    """Return the active tokens, newest first: all members' for owners, the caller's own for others. Secrets are omitted."""
    return [_token(token) for token in project_tokens(user, project_get(user, slug))]


@routes.get("tokens/", name="tokens")
def own_tokens(user: Person) -> list[documents.Token]:
    """Return the caller's tokens, newest first, with those that have expired or are revoked. Secrets are omitted."""
    return [token_document(token) for token in tokens_list(cast(User, user)).select_related("user")]


@routes.post("tokens/", status=201, admin=True)
def token_add(user: Person, body: documents.TokenBody) -> documents.NewToken:
    """Create a token and return its secret once. It may do no more than the token of this request."""
    made, secret = token_grant(user, body)
    return documents.NewToken(**dict(token_document(made)), secret=secret)


@routes.post("tokens/<int:token>/revoke/", name="token-revoke", admin=True)
def token_remove(user: Person, token: int) -> documents.Token:
    """Revoke one of the caller's tokens permanently."""
    if not token_revoke(cast(User, user), token):
        raise Http404(f"you have no active token {token}")
    return token_document(ApiToken.objects.select_related("user", "project").get(pk=token))


@routes.get("token/", name="token")
def token(request: Request) -> documents.OwnToken:
    """Return the token of this request: its scopes and limits. 404 for a session, which has none."""
    if not isinstance(request.auth, ApiToken):
        raise Http404("this request has no token; it is authenticated by a session")
    own = dict(_token(request.auth)) | {"scopes": scopes_of(request.auth)}
    return documents.OwnToken(**own, runs_left=launches_left(request.auth))


@routes.get("projects/<slug:slug>/audit/", name="audit")
def audit(  # noqa: PLR0913 - the filters of the query
    user: Person,
    slug: str,
    username: Annotated[str, Field(alias="user", description="Username of the actor.")] = "",
    act: Annotated[str, Field(description="Prefix of the act, such as run or run.stop.")] = "",
    target: Annotated[str, Field(description="Part of the target.")] = "",
    since: Annotated[str, Field(description="A date, or an ISO 8601 timestamp.")] = "",
    until: Annotated[
        str, Field(description="A date (inclusive), or an ISO 8601 timestamp (exclusive).")
    ] = "",
    before: Annotated[str, Field(description="Id of an entry: only older entries.")] = "",
    limit: Annotated[int, Field(ge=1, description="At most 500.")] = 50,
) -> documents.AuditLog:
    """Return entries newest first; `next` is the `before` of the next page, null on the last page."""
    filters = {
        "user": username, "act": act, "target": target, "since": since, "until": until, "before": before,
    }  # fmt: skip
    rows, following = audit_read(project_get(user, slug), filters, min(limit, MOST))
    return documents.AuditLog(results=[audit_document(row) for row in rows], next=following)


def _token(token: ApiToken) -> documents.ProjectToken:
    project = token.project.slug if token.project else None
    return documents.ProjectToken.of_row(token, username=token.user.username, project=project)
