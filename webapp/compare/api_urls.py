"""Addresses of the API of comparisons, below /api/v1/."""

from django.urls import path

from webapp.compare import api

urlpatterns = [path("compare/", api.Compare.as_view(), name="compare")]
