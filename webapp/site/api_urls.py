"""URLs below /api/."""

from importlib import import_module

from django.contrib.auth.decorators import login_required
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.request import Request

from webapp.ingest.views import events


class SchemaView(SpectacularAPIView):
    """The document of the only version: a `version` in the query is ignored, and not written into headers."""

    def _get_version_parameter(self, request: Request) -> None:
        return None


APPS = (
    "accounts", "experiments", "run_table", "provenance", "scheduling", "run_pages", "metrics", "media", "transcripts",
    "checkpoints", "artifacts", "jobs", "health", "timeline", "compare", "cluster", "shares", "quotas", "notifications", "reports",
)  # fmt: skip
"""Apps whose module `api` has routes."""


app_name = "api"
urlpatterns = [
    path("v1/runs/<str:run_id>/events/", events, name="run-events"),  # first: the most frequent requests
    path("schema/", SchemaView.as_view(), name="schema"),
    # The split view has no inline script, which our content security policy would block.
    path("docs/", login_required(SpectacularSwaggerSplitView.as_view(url_name="api:schema")), name="docs"),
    *(path("v1/", include(import_module(f"webapp.{app}.api").routes.urls)) for app in APPS),
]
