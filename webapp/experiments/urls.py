"""URLs of the experiment pages."""

from django.urls import path

from webapp.experiments import data, sweep_views, views

app_name = "experiments"
urlpatterns = [
    path("new/", views.experiment_new, name="new"),
    path("estimate/", views.experiment_estimate, name="estimate"),
    path("edit/", views.experiment_edit, name="edit"),
    path("data/", data.data_page, name="data"),
    path("templates/save/", views.template_keep, name="template-save"),
    path("templates/<int:pk>/delete/", views.template_forget, name="template-delete"),
    path("sweeps/", sweep_views.sweeps_page, name="sweeps"),
    path("sweeps/new/", sweep_views.sweep_new, name="sweep-new"),
    path("sweeps/check/", sweep_views.sweep_check, name="sweep-check"),
    path("sweeps/<int:pk>/", sweep_views.sweep_page, name="sweep"),
    path("sweeps/<int:pk>/stop/", sweep_views.sweep_end, name="sweep-stop"),
]
