"""URLs of the runs API, below /api/v1/."""

from django.urls import path

from webapp.runs import api

urlpatterns = [
    path("runs/<str:run_id>/", api.RunDetail.as_view(), name="run"),
    path("runs/<str:run_id>/logs/", api.RunLogs.as_view(), name="run-logs"),
]
