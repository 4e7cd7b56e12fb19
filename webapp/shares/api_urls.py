"""URLs of the share link API, below /api/v1/."""

from django.urls import path

from webapp.shares import api

urlpatterns = [
    path("projects/<slug:slug>/shares/", api.Shares.as_view(), name="shares"),
    path("projects/<slug:slug>/shares/<int:pk>/revoke/", api.ShareRevoke.as_view(), name="share-revoke"),
]
