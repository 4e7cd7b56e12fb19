"""Whoever has followed a link is a Visitor at the addresses that it opens, and nobody in particular at all others."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin

from webapp.accounts.permissions import Visitor, can_view
from webapp.shares.selectors import visitor_find

GRANTS = "shares"
"""Key of the session: digests of the links that were followed."""
MOST_GRANTS = 20
READING = ("GET", "HEAD")


class SharedAccess(MiddlewareMixin):
    """Stands behind the authentication middleware. Members of the project stay who they are."""

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> None:
        """Put a Visitor in the place of the user where a link opens this address."""
        digests = request.session.get(GRANTS)
        if not digests or request.method not in READING or request.resolver_match is None:
            return
        visitor: Visitor | None = visitor_find(digests, request.resolver_match.view_name, kwargs)
        if visitor and not can_view(request.user, visitor.project):
            request.user = visitor
