"""Addresses of the pages of compare."""

from django.urls import URLPattern

app_name = "compare"
urlpatterns: list[URLPattern] = []
