"""URLs of the timeline API, below /api/v1/."""

from django.urls import path

from webapp.timeline import api

urlpatterns = [
    path("runs/<str:run_id>/timeline/", api.RunTimeline.as_view(), name="run-timeline"),
    path("runs/<str:run_id>/batches/<int:iteration>/", api.RunBatch.as_view(), name="run-batch"),
]
