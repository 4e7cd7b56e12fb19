"""URLs of the comparison API, below /api/v1/."""

from django.urls import path

from webapp.compare import api

urlpatterns = [
    path("compare/", api.Compare.as_view(), name="compare"),
    path("compare/curves/", api.CompareCurves.as_view(), name="compare-curves"),
    path("compare/config/", api.CompareConfigs.as_view(), name="compare-config"),
    path("compare/table/", api.CompareTable.as_view(), name="compare-table"),
    path("compare/probes/", api.CompareProbes.as_view(), name="compare-probes"),
]
