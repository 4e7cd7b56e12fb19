"""Addresses of the API of cluster, below /api/v1/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
