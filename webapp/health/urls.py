"""Addresses of the pages of health, below /runs/."""

from django.urls import path

from webapp.health import views

app_name = "health"
urlpatterns = [path("<str:run_id>/health/", views.health_page, name="page")]
