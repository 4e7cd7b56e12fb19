"""Addresses of the API of accounts, below /api/v1/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
