"""Addresses of the API of experiments, below /api/v1/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
