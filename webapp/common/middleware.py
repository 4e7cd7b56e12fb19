"""What every request and every answer has to fulfil."""

from collections.abc import Callable, Iterable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers
from django.utils.deprecation import MiddlewareMixin

from training_core.errors import ConfigError

NUL_REFUSED = "The request holds a NUL character, which no text here may contain."


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
        if _has_nul(request.GET.lists()) or (not _for_programs(request) and _has_nul(request.POST.lists())):
            return refused(request, NUL_REFUSED)
        return None

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """400 for input of a page that a service refuses and the view does not handle."""
        if isinstance(error, ConfigError) and not _for_programs(request):
            return refused(request, "; ".join(error.fields.values()))
        return None


class NeverStored(MiddlewareMixin):
    """Keeps what is behind a login out of the caches of browsers and proxies, unless the view says otherwise."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Sets Cache-Control: no-store. Static files never come here; WhiteNoise serves them."""
        user = getattr(request, "user", None)
        if user is not None and user.is_authenticated and not response.has_header("Cache-Control"):
            add_never_cache_headers(response)
        return response


def refused(request: HttpRequest, reason: str) -> HttpResponse:
    """400, as a page or, below /api/, as JSON."""
    if _for_programs(request):
        return JsonResponse({"detail": reason}, status=400)
    return render(request, "400.html", {"reason": reason}, status=400)


def _for_programs(request: HttpRequest) -> bool:
    return request.path.startswith("/api/")


def _has_nul(fields: Iterable[tuple[str, list[Any]]]) -> bool:
    return any("\0" in text for name, values in fields for text in (name, *values))
