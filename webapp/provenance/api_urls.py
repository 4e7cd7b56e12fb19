"""URLs of the provenance API, below /api/v1/."""

from django.urls import path

from webapp.provenance import api

urlpatterns = [path("runs/<str:run_id>/provenance/", api.RunProvenance.as_view(), name="run-provenance")]
