"""Addresses of the API of timeline, below /api/v1/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
