"""What every request and every answer has to fulfil."""

from collections.abc import Callable, Iterable
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers
from django.utils.deprecation import MiddlewareMixin

from training_core.errors import ConfigError


class RefusedText(MiddlewareMixin):
    """Answers requests whose text the database cannot hold or look for, before a view sees them.

    Stands behind the CSRF middleware, which reads the same forms. JSON bodies are checked by their parser.
    """

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> HttpResponse | None:
        """404 for a NUL character in the path, 400 for one in the query or in a form."""
        if "\0" in request.path:
            raise Http404("no address holds a NUL character")
        name = _with_nul(request.GET.lists())
        if name is None and not _for_programs(request):
            name = _with_nul(request.POST.lists())
        return None if name is None else refused(request, f"{name}: text holds no NUL characters")

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """400 for input of a page that a service refuses and the view does not handle."""
        if isinstance(error, ConfigError) and not _for_programs(request):
            return refused(request, "; ".join(error.fields.values()))
        return None


class NeverStored(MiddlewareMixin):
    """Keeps what is behind a login out of the caches of browsers and proxies, unless the view says otherwise.

    Whether somebody is logged in is not looked up: that would ask the database for every answer.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Sets Cache-Control: no-store for requests with a session or a token. WhiteNoise serves static files before this."""
        known = settings.SESSION_COOKIE_NAME in request.COOKIES or "Authorization" in request.headers
        if known and not response.has_header("Cache-Control"):
            add_never_cache_headers(response)
        return response


def refused(request: HttpRequest, reason: str) -> HttpResponse:
    """400, as a page or, below /api/, as JSON."""
    if _for_programs(request):
        return JsonResponse({"detail": reason}, status=400)
    return render(request, "400.html", {"reason": reason}, status=400)


def _for_programs(request: HttpRequest) -> bool:
    return request.path.startswith("/api/")


def _with_nul(fields: Iterable[tuple[str, list[Any]]]) -> str | None:
    """The name of the first field that holds a NUL character."""
    for name, values in fields:
        if any("\0" in text for text in (name, *values)):
            return name.replace("\0", "\ufffd")[:60]
    return None
