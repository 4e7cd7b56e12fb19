"""Projects, their members and their audit log in the REST API."""

from typing import Any, cast

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.audit_log import FIELDS, audit_document, audit_list
from webapp.accounts.models import ApiToken, Membership, Project, User
from webapp.accounts.permissions import level_of
from webapp.accounts.selectors import members_list, project_get, project_tokens, projects_visible
from webapp.accounts.services import member_remove, member_set, project_create
from webapp.api.queries import number, text

JSON = OpenApiTypes.OBJECT


class ProjectSerializer(serializers.Serializer[Any]):
    """The fields of a new project."""

    name = serializers.CharField(max_length=120)


class MemberSerializer(serializers.Serializer[Any]):
    """A user and their level in a project."""

    username = serializers.CharField(max_length=150)
    level = serializers.ChoiceField(Membership.Level.choices)


class Projects(APIView):
    """The caller's projects."""

    @extend_schema(responses=JSON)
    def get(self, request: Request) -> Response:
        """Return the projects by name, with the caller's level in each."""
        rows = [_project(request, project) for project in projects_visible(request.user)]
        return Response({"results": rows})

    @extend_schema(request=ProjectSerializer, responses={201: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """Create a project; the caller is its owner."""
        wanted = ProjectSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        made = project_create(cast(User, request.user), wanted.validated_data["name"])
        return Response(_project(request, made), status=201)


class Members(APIView):
    """The members of a project."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, slug: str) -> Response:
        """By name."""
        rows = [_member(membership) for membership in members_list(project_get(request.user, slug))]
        return Response({"results": rows})

    @extend_schema(request=MemberSerializer, responses={200: JSON, 400: JSON})
    def post(self, request: Request, slug: str) -> Response:
        """Add a user with an account, or change their level; owners only."""
        wanted = MemberSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        project = project_get(request.user, slug)
        return Response(_member(member_set(cast(User, request.user), project, **wanted.validated_data)))


class MemberRemove(APIView):
    """Remove a member from a project."""

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, slug: str, username: str) -> Response:
        """Return the removed username; owners only, and the last owner cannot be removed."""
        project = project_get(request.user, slug)
        person = User.objects.filter(username=username).first()
        member_remove(cast(User, request.user), project, person.pk if person else 0)
        return Response({"username": username})


class ProjectTokens(APIView):
    """API tokens with access to a project."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, slug: str) -> Response:
        """Return the active tokens, newest first: all members' for owners, the caller's own for others. Secrets are omitted."""
        rows = project_tokens(request.user, project_get(request.user, slug))
        return Response({"results": [_token(token) for token in rows]})


class Audit(APIView):
    """The audit log of a project."""

    @extend_schema(
        parameters=[
            OpenApiParameter("user", str, description="username of the actor"),
            OpenApiParameter("act", str, description="prefix of the act, e.g. run or run.stop"),
            OpenApiParameter("target", str, description="substring of the target"),
            OpenApiParameter("since", str, description="a date, or an ISO 8601 timestamp"),
            OpenApiParameter(
                "until", str, description="a date (inclusive), or an ISO 8601 timestamp (exclusive)"
            ),
            OpenApiParameter("before", str, description="id of an entry: only older entries"),
            OpenApiParameter("limit", int, description="at most 500, default 50"),
        ],
        responses=JSON,
    )
    def get(self, request: Request, slug: str) -> Response:
        """Return entries newest first; `next` is the `before` of the next page, null on the last page."""
        project = project_get(request.user, slug)
        limit = min(number(request, "limit", 50, 1), 500)
        rows = list(audit_list(project, {name: text(request, name) for name in FIELDS})[: limit + 1])
        following = rows[limit - 1].pk if len(rows) > limit else None
        return Response({"results": [audit_document(row) for row in rows[:limit]], "next": following})


def _project(request: Request, project: Project) -> dict[str, Any]:
    return {"slug": project.slug, "name": project.name, "level": level_of(request.user, project)}


def _token(token: ApiToken) -> dict[str, Any]:
    return {
        "username": token.user.username,
        "name": token.name,
        "prefix": token.prefix,
        "scopes": token.scopes,
        "project": token.project.slug if token.project else None,
        "last_used_at": token.last_used_at and token.last_used_at.isoformat(),
        "expires_at": token.expires_at and token.expires_at.isoformat(),
    }


def _member(membership: Membership) -> dict[str, Any]:
    return {"username": membership.user.username, "level": membership.level}
