"""Addresses of the pages of the cluster."""

from django.urls import URLPattern

app_name = "cluster"
urlpatterns: list[URLPattern] = []
