"""Addresses of the API of health, below /api/v1/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
