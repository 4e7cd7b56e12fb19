"""Sets a Visitor as the user at the URLs opened by a followed share link; at other URLs the user stays anonymous."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin

from webapp.accounts.permissions import Visitor, can_view
from webapp.shares.selectors import visitor_find

GRANTS = "shares"
"""Session key: digests of the followed links."""
MOST_GRANTS = 20
READING = ("GET", "HEAD")


class SharedAccess(MiddlewareMixin):
    """Runs after the authentication middleware. Members of the project keep their own user."""

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> None:
        """Set a Visitor as the user if a link opens this URL."""
        digests = request.session.get(GRANTS)
        if not digests or request.method not in READING or request.resolver_match is None:
            return
        visitor: Visitor | None = visitor_find(digests, request.resolver_match.view_name, kwargs)
        if visitor and not can_view(request.user, visitor.project):
            request.user = visitor
