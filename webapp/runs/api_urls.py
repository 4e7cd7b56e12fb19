"""Addresses of the API of runs, below /api/v1/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
