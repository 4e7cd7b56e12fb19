"""Addresses of the API of jobs, below /api/v1/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
