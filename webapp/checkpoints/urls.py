"""Addresses of the pages of checkpoints."""

from django.urls import URLPattern

app_name = "checkpoints"
urlpatterns: list[URLPattern] = []
