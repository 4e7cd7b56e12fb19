"""URLs of the health API, below /api/v1/."""

from django.urls import path

from webapp.health import api

urlpatterns = [
    path("runs/<str:run_id>/findings/", api.Findings.as_view(), name="findings"),
    path(
        "runs/<str:run_id>/findings/<int:pk>/dismiss/",
        api.FindingAct.as_view(act="dismiss"),
        name="finding-dismiss",
    ),
    path(
        "runs/<str:run_id>/findings/<int:pk>/reopen/",
        api.FindingAct.as_view(act="reopen"),
        name="finding-reopen",
    ),
    path("runs/<str:run_id>/findings/<int:pk>/fork/", api.FindingFork.as_view(), name="finding-fork"),
]
