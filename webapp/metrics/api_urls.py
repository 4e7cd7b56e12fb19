"""URLs of the metrics API, below /api/v1/."""

from django.urls import path

from webapp.metrics import api

urlpatterns = [
    path("runs/<str:run_id>/series/", api.RunSeries.as_view(), name="run-series"),
    path("runs/<str:run_id>/series/export/", api.SeriesExport.as_view(), name="series-export"),
]
