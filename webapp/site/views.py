"""Monitoring endpoints, without login and without names, and error pages."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django.views.defaults import bad_request, page_not_found, server_error
from prometheus_client import CONTENT_TYPE_LATEST

from webapp.site.health import check_all, is_ready
from webapp.site.prometheus import exposition


@login_not_required
@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """Return 200 while this process responds."""
    return JsonResponse({"status": "ok"})


@login_not_required
@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """Return 200 while pages can be served, 503 otherwise; the body contains the status of each part."""
    parts = check_all()
    ready = is_ready(parts)
    return JsonResponse(
        {"status": "ready" if ready else "not ready", "parts": parts}, status=200 if ready else 503
    )


@login_not_required
@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text format."""
    return HttpResponse(exposition(), content_type=CONTENT_TYPE_LATEST)


def not_understood(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return 400 for a request that Django rejects: a foreign host, too many fields, a body that is too large."""
    if request.path.startswith("/api/"):
        return JsonResponse({"detail": "the server does not understand this request"}, status=400)
    return bad_request(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return an HTML page, or below /api/ the same JSON as every other error."""
    if request.path.startswith("/api/"):
        detail = f"there is nothing at {request.path}; /api/docs/ lists what there is"
        return JsonResponse({"detail": detail}, status=404)
    return page_not_found(request, exception)


def failed(request: HttpRequest) -> HttpResponse:
    """Return 500 for an unexpected exception; the traceback is in the server's log."""
    if request.path.startswith("/api/"):
        detail = "the server failed to process this request; its log contains the traceback"
        return JsonResponse({"detail": detail}, status=500)
    return server_error(request)
