"""Checks of every request and headers of every response."""

from collections.abc import Callable, Iterable
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers
from django.utils.deprecation import MiddlewareMixin

from training_core.errors import ConfigError
from webapp.common.searches import refusal_of

COMPRESSED = ("text/html", "text/plain", "text/csv", "application/json")
"""Types of responses that are compressed; weights and other downloads are not."""


class CompressedText(GZipMiddleware):
    """Compresses pages and JSON by gzip. Django adds random bytes, so that lengths do not tell secrets of a page (BREACH)."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:  # type: ignore[override]
        """Compress whole responses of the types in COMPRESSED."""
        kind = response.get("Content-Type", "").partition(";")[0]
        if response.streaming or kind not in COMPRESSED:
            return response
        return super().process_response(request, response)  # type: ignore[return-value]  # not streaming


class RefusedText(MiddlewareMixin):
    """Rejects requests with text that the database cannot store or query, before the view runs.

    Runs after the CSRF middleware, which reads the same forms. JSON bodies are checked by their parser.
    """

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> HttpResponse | None:
        """Return 404 for a NUL character in the path, 400 for one in the query or in a form."""
        if "\0" in request.path:
            raise Http404("a URL cannot contain a NUL character")
        name = _with_nul(request.GET.lists())
        if name is None and not _for_programs(request):
            name = _with_nul(request.POST.lists())
        return None if name is None else refused(request, f"{name}: text cannot contain NUL characters")

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Return 400 for input that a service or the database rejects and the view does not handle."""
        if isinstance(error, ConfigError) and not _for_programs(request):
            return refused(request, "; ".join(error.fields.values()))
        reason = refusal_of(error)
        return refused(request, reason) if reason else None


class NeverStored(MiddlewareMixin):
    """Prevents caching of pages that need a login, unless the view sets its own caching.

    Does not check whether the user is logged in, which would need a query for every response.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Set Cache-Control: no-store for requests with a session or a token. WhiteNoise serves static files before this."""
        authenticated = settings.SESSION_COOKIE_NAME in request.COOKIES or "Authorization" in request.headers
        if authenticated and not response.has_header("Cache-Control"):
            add_never_cache_headers(response)
        return response


def refused(request: HttpRequest, reason: str) -> HttpResponse:
    """Return 400, as a page or, below /api/, as JSON."""
    if _for_programs(request):
        return JsonResponse({"detail": reason}, status=400)
    return render(request, "400.html", {"reason": reason}, status=400)


def _for_programs(request: HttpRequest) -> bool:
    return request.path.startswith("/api/")


def _with_nul(fields: Iterable[tuple[str, list[Any]]]) -> str | None:
    """Return the name of the first field that contains a NUL character."""
    for name, values in fields:
        if any("\0" in text for text in (name, *values)):
            return name.replace("\0", "\ufffd")[:60]
    return None
