"""Addresses of the API of checkpoints, below /api/v1/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
