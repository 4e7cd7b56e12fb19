"""Addresses of the API of runs, below /api/v1/."""

from django.urls import path

from webapp.runs import client_api, list_api

urlpatterns = [
    path("client-runs/", client_api.ClientRuns.as_view(), name="client-runs"),
    path("filter/complete/", list_api.FilterCompletion.as_view(), name="filter-complete"),
]
