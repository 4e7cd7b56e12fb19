"""All URLs: pages, API, health."""

from django.urls import URLResolver, include, path
from django.urls.resolvers import RoutePattern
from django.views.generic import RedirectView

from webapp.site import views

handler400 = "webapp.site.views.not_understood"
handler404 = "webapp.site.views.not_found"
handler500 = "webapp.site.views.failed"

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="runs:list"), name="home"),
    path("api/", include("webapp.site.api_urls")),  # before pages: events are the most frequent requests
    path("", include("webapp.mlflow.urls")),
    path("healthz", views.healthz, name="healthz"),
    path("readyz", views.readyz, name="readyz"),
    path("metrics", views.metrics, name="metrics"),
    path("account/", include("webapp.accounts.urls")),
    path("experiments/", include("webapp.experiments.urls")),
    path(
        "sweeps/", RedirectView.as_view(pattern_name="experiments:sweeps", query_string=True), name="sweeps"
    ),
    path("runs/", include("webapp.run_pages.urls")),
    path("runs/", include("webapp.media.urls")),
    path("runs/", include("webapp.transcripts.urls")),
    path("runs/", include("webapp.timeline.urls")),
    path("runs/", include("webapp.health.urls")),
    path("", include("webapp.artifacts.urls")),
    path("", include("webapp.jobs.urls")),
    path("", include("webapp.compare.urls")),
    path("reports/", include("webapp.reports.urls")),
    path("", include("webapp.shares.urls")),
    path("", include("webapp.quotas.urls")),
    path("", include("webapp.notifications.urls")),
    path("cluster/", include("webapp.cluster.urls")),
    path("docs/", include("webapp.documents.urls")),
    URLResolver(RoutePattern("admin/"), "webapp.administration.site", app_name="admin", namespace="admin"),
]
