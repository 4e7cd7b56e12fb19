"""Addresses of the API of quotas, below /api/v1/."""

from django.urls import path

from webapp.quotas import api

urlpatterns = [path("projects/<slug:slug>/quota/", api.QuotaDetail.as_view(), name="quota")]
