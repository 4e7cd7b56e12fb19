"""Monitoring endpoints, without login and without names, and error pages.

Prometheus metrics: only counts, no names of users, projects or runs.
"""

import os
from collections.abc import Callable, Iterator

import httpx
import redis
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count, Sum
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django.views.defaults import bad_request, page_not_found, server_error
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    CollectorRegistry,
    Metric,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from redis.exceptions import RedisError

from webapp.common.task_queue import last_ended
from webapp.runs.models import Run, RunState
from webapp.stack.home import MODEL_IN_WORK
from webapp.stack.worker_probe import STALE, seconds_since_alive

TIMEOUT = 2.0
"""Timeout of each check in seconds."""
NEEDED = ("database", "redis", "migrations", "base_model")
"""Parts without which the server is not ready: no page works without the first three, and a run launched while the base
model is created would wait for it."""
_migrated = False


def check_all() -> dict[str, str]:
    """Return "ok" or the problem, per part. Never raises."""
    return {name: check() for name, check in CHECKS.items()}


def is_ready(parts: dict[str, str]) -> bool:
    """Whether pages can be served."""
    return all(parts[name] == "ok" for name in NEEDED)


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "does not answer"
    return "ok"


def _migrations() -> str:
    """Checked until no migration is missing: the migrations needed by this process do not change."""
    global _migrated
    if not _migrated:
        try:
            executor = MigrationExecutor(connection)
            missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
        except DatabaseError:
            return "unknown"
        if missing:
            return f"{missing} not applied"
        _migrated = True
    return "ok"


def _redis() -> str:
    try:
        with _redis_client() as client:
            client.ping()
    except RedisError:
        return "does not answer"
    return "ok"


def _worker() -> str:
    try:
        with _redis_client() as client:
            age, ended = seconds_since_alive(client), last_ended(client)
    except RedisError:
        return "unknown"
    if age is None:
        return "has not reported yet"
    return (ended or "ok") if age < STALE else f"last seen {age:.0f} s ago"


def _ray() -> str:
    address = os.environ.get("RAY_ADDRESS", "")
    if settings.TROUPE_LAUNCHER != "ray" or not address.startswith("http"):
        return "not used"
    token = os.environ.get("RAY_AUTH_TOKEN", "")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        answer = httpx.get(
            f"{address.rstrip('/')}/api/version",
            headers=headers,
            timeout=TIMEOUT,
            verify=address.startswith("https:"),  # for http, reading certificates would take 30 ms
        )
    except httpx.HTTPError:
        return "does not answer"
    return "ok" if answer.status_code == 200 else f"answers {answer.status_code}"


def _base_model() -> str:
    return "being made" if (settings.TROUPE_HOME / MODEL_IN_WORK).exists() else "ok"


def _redis_client() -> "redis.Redis":
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)


CHECKS: dict[str, Callable[[], str]] = {
    "database": _database,
    "migrations": _migrations,
    "redis": _redis,
    "worker": _worker,
    "ray": _ray,
    "base_model": _base_model,
}


class TroupeCollector(Collector):
    """Reads the database on every scrape."""

    def collect(self) -> Iterator[Metric]:
        """Yield runs by state, stored events, and the health of each part. Without a database, only the parts."""
        parts = GaugeMetricFamily(
            "troupe_part_up", "1 while this part of the stack is healthy", labels=["part"]
        )
        for name, state in check_all().items():
            parts.add_metric([name], float(state == "ok"))
        yield parts
        try:
            counts = dict(Run.objects.values_list("state").annotate(Count("pk")))
            events = Run.objects.aggregate(total=Sum("event_count"))["total"] or 0
        except DatabaseError:
            return
        runs = GaugeMetricFamily("troupe_runs", "Runs in each state", labels=["state"])
        for state in RunState.values:
            runs.add_metric([state], float(counts.get(state, 0)))
        yield runs
        yield GaugeMetricFamily("troupe_events_stored", "Stored events of existing runs", value=float(events))


REGISTRY = CollectorRegistry()
for _collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR, TroupeCollector()):
    REGISTRY.register(_collector)


def exposition() -> bytes:
    """Return all metrics in Prometheus' text format."""
    return generate_latest(REGISTRY)


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
