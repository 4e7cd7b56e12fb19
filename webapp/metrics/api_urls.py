"""Addresses of the API of metrics, below /api/v1/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
