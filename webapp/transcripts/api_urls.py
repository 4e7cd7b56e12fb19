"""Addresses of the API of transcripts, below /api/v1/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
