"""Addresses of the experiment pages."""

from django.urls import path

from webapp.experiments import views

app_name = "experiments"
urlpatterns = [
    path("new/", views.experiment_new, name="new"),
    path("check/", views.experiment_check, name="check"),
]
