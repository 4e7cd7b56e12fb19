"""Projects, their people and their audit log in the REST API."""

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
    """A project to make."""

    name = serializers.CharField(max_length=120)


class MemberSerializer(serializers.Serializer[Any]):
    """Somebody who is to belong to a project."""

    username = serializers.CharField(max_length=150)
    level = serializers.ChoiceField(Membership.Level.choices)


class Projects(APIView):
    """The caller's projects."""

    @extend_schema(responses=JSON)
    def get(self, request: Request) -> Response:
        """By name, with what the caller is in them."""
        rows = [_project(request, each) for each in projects_visible(request.user)]
        return Response({"results": rows})

    @extend_schema(request=ProjectSerializer, responses={201: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """Make one; the caller is its owner."""
        wanted = ProjectSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        made = project_create(cast(User, request.user), wanted.validated_data["name"])
        return Response(_project(request, made), status=201)


class Members(APIView):
    """Who belongs to a project."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, slug: str) -> Response:
        """By name."""
        rows = [_member(each) for each in members_list(project_get(request.user, slug))]
        return Response({"results": rows})

    @extend_schema(request=MemberSerializer, responses={200: JSON, 400: JSON})
    def post(self, request: Request, slug: str) -> Response:
        """Add somebody who has an account, or change their level; owners only."""
        wanted = MemberSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        project = project_get(request.user, slug)
        return Response(_member(member_set(cast(User, request.user), project, **wanted.validated_data)))


class MemberRemove(APIView):
    """Take somebody out of a project."""

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, slug: str, username: str) -> Response:
        """Who it was; owners only, and one owner stays."""
        project = project_get(request.user, slug)
        person = User.objects.filter(username=username).first()
        member_remove(cast(User, request.user), project, person.pk if person else 0)
        return Response({"username": username})


class ProjectTokens(APIView):
    """API tokens that reach a project."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, slug: str) -> Response:
        """Those in use, newest first: for owners of all members, for others their own. Never the secrets."""
        rows = project_tokens(request.user, project_get(request.user, slug))
        return Response({"results": [_token(each) for each in rows]})


class Audit(APIView):
    """Who did what in a project."""

    @extend_schema(
        parameters=[
            OpenApiParameter("user", str, description="name of who did it"),
            OpenApiParameter("act", str, description="how the act begins: run, or run.stop"),
            OpenApiParameter("target", str, description="part of what it was done to"),
            OpenApiParameter("since", str, description="a date, or a moment in ISO 8601"),
            OpenApiParameter("until", str, description="a date (included), or a moment (excluded)"),
            OpenApiParameter("before", str, description="an entry's id: only older ones"),
            OpenApiParameter("limit", int, description="at most 500, default 50"),
        ],
        responses=JSON,
    )
    def get(self, request: Request, slug: str) -> Response:
        """Newest first; `next` is the `before` of the following page, null at the end."""
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
