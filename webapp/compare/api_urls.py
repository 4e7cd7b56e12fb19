"""Addresses of the API of compare, below /api/v1/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
