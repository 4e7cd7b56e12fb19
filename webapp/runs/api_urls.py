"""Addresses of the API of runs, below /api/v1/."""

from django.urls import path

from webapp.runs import client_api, list_api

urlpatterns = [
    path("client-runs/", client_api.ClientRuns.as_view(), name="client-runs"),
    path("bulk/", list_api.BulkAct.as_view(), name="bulk"),
    path("families/", list_api.Families.as_view(), name="families"),
    path("filter/complete/", list_api.FilterCompletion.as_view(), name="filter-complete"),
]
