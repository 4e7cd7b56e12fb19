"""URLs of the quota API, below /api/v1/."""

from django.urls import path

from webapp.quotas import api

urlpatterns = [path("projects/<slug:slug>/quota/", api.QuotaDetail.as_view(), name="quota")]
