"""URLs below /api/."""

from importlib import import_module

from django.contrib.auth.decorators import login_required
from django.urls import include, path
from drf_spectacular.views import SpectacularSwaggerSplitView

from webapp.ingest.views import events
from webapp.site.schema_view import SchemaView

APPS = (
    "accounts", "experiments", "run_table", "panels", "runs", "provenance", "scheduling", "run_pages", "metrics", "media", "transcripts",
    "checkpoints", "jobs", "health", "timeline", "compare", "cluster", "shares", "quotas", "notifications", "reports",
)  # fmt: skip
"""Apps with an `api_urls` module."""
ROUTED = ("artifacts",)
"""Apps whose `api` has `routes`."""

app_name = "api"
urlpatterns = [
    path("v1/runs/<str:run_id>/events/", events, name="run-events"),  # first: the most frequent requests
    path("schema/", SchemaView.as_view(), name="schema"),
    # The split view has no inline script, which our content security policy would block.
    path("docs/", login_required(SpectacularSwaggerSplitView.as_view(url_name="api:schema")), name="docs"),
    *(path("v1/", include(f"webapp.{app}.api_urls")) for app in APPS),
    *(path("v1/", include(import_module(f"webapp.{app}.api").routes.urls)) for app in ROUTED),
]
