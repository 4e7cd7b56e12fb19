"""Addresses below /api/."""

from django.contrib.auth.decorators import login_required
from django.urls import include, path
from drf_spectacular.views import SpectacularSwaggerSplitView

from webapp.api import views
from webapp.api.schema_view import SchemaView
from webapp.ingest.views import events

APPS = (
    "accounts", "experiments", "runs", "metrics", "transcripts", "checkpoints", "jobs", "health", "timeline", "compare",
    "cluster", "shares", "quotas", "webhooks", "reports",
)  # fmt: skip
"""Those with an `api_urls`."""

app_name = "api"
urlpatterns = [
    path("schema/", SchemaView.as_view(), name="schema"),
    # The split view has no script in its page, which our content security policy would block.
    path("docs/", login_required(SpectacularSwaggerSplitView.as_view(url_name="api:schema")), name="docs"),
    path("v1/runs/", views.RunList.as_view(), name="runs"),
    path("v1/runs/<str:run_id>/", views.RunDetail.as_view(), name="run"),
    path("v1/runs/<str:run_id>/stop/", views.RunAct.as_view(act="stop"), name="run-stop"),
    path("v1/runs/<str:run_id>/pause/", views.RunAct.as_view(act="pause"), name="run-pause"),
    path("v1/runs/<str:run_id>/resume/", views.RunResume.as_view(), name="run-resume"),
    path("v1/runs/<str:run_id>/series/", views.RunSeries.as_view(), name="run-series"),
    path("v1/runs/<str:run_id>/episodes/", views.RunEpisodes.as_view(), name="run-episodes"),
    path("v1/runs/<str:run_id>/checkpoints/", views.RunCheckpoints.as_view(), name="run-checkpoints"),
    path("v1/runs/<str:run_id>/logs/", views.RunLogs.as_view(), name="run-logs"),
    path("v1/runs/<str:run_id>/events/", events, name="run-events"),
    path("v1/episodes/<int:pk>/", views.EpisodeDetail.as_view(), name="episode"),
    path("v1/presets/", views.Presets.as_view(), name="presets"),
    path("v1/schema/run/", views.RunSchema.as_view(), name="schema-run"),
    path("v1/cluster/", views.Cluster.as_view(), name="cluster"),
    *(path("v1/", include(f"webapp.{app}.api_urls")) for app in APPS),
]
