"""URLs of the checkpoint pages."""

from django.urls import URLPattern

app_name = "checkpoints"
urlpatterns: list[URLPattern] = []
