"""Authentication: by a bearer token, or by the browser's session (with CSRF)."""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated, PermissionDenied
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from troupe_client.documents.projects import TOOL_HEADER
from webapp.accounts.models import ApiToken, User
from webapp.accounts.permissions import Visitor
from webapp.accounts.tokens import token_covers, token_find


class BearerAuthentication(BaseAuthentication):
    """`Authorization: Bearer <token>`."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """Return the token's user and the token; None without such a header. Raises AuthenticationFailed."""
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = token_find(secret.strip())
        if token is None:
            raise AuthenticationFailed(
                "this token is unknown, expired or revoked; create one under Account, API tokens"
            )
        token.user.tool = request.headers.get(TOOL_HEADER, "")[:60]
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        """Return the WWW-Authenticate header of 401 responses."""
        return "Bearer"


def scope_needed(method: str, admin: bool) -> ApiToken.Scope:
    """Return read for reading; admin for deletion and where the route asks for it; launch for every other change."""
    if method in SAFE_METHODS:
        return ApiToken.Scope.READ
    return ApiToken.Scope.ADMIN if admin or method == "DELETE" else ApiToken.Scope.LAUNCH


class ScopedAccess(BasePermission):
    """Requires a login; a token must have the required scope, see `scope_needed`."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Sessions have all rights of their user; visitors read the objects of their link. Raises NotAuthenticated, PermissionDenied."""
        if isinstance(request.user, Visitor):
            return request.method in SAFE_METHODS
        if isinstance(request.user, AnonymousUser) or not request.user.is_active:
            raise NotAuthenticated(
                "send a token as `Authorization: Bearer TOKEN`; create one under Account, API tokens"
            )
        if not isinstance(request.auth, ApiToken):
            return True
        admin = request.method in getattr(view, "admin_methods", ())
        scope = scope_needed(str(request.method), admin)
        if not token_covers(request.auth, scope):
            raise PermissionDenied(
                f"this token lacks the scope {scope}; create one with it under Account, API tokens"
            )
        return True


class BearerScheme(OpenApiAuthenticationExtension):
    """The name of the scheme in the OpenAPI schema."""

    target_class = BearerAuthentication
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """Return OpenAPI's security scheme object."""
        return {"type": "http", "scheme": "bearer"}
