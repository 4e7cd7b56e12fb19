"""URLs below /mlflow/: the default project's, and those of a project by its slug.

The pages are those that MLflow's clients print: /mlflow/#/experiments/1/runs/ID. static/js/runs.js reads the fragment.
"""

from django.urls import path
from django.views.generic import RedirectView

from webapp.mlflow import views

app_name = "mlflow"
urlpatterns = [
    path("", RedirectView.as_view(url="/runs/"), name="page"),
    path("<slug:slug>/", RedirectView.as_view(url="/runs/?project=%(slug)s"), name="page-of-project"),
] + [
    path(f"{project}api/<str:version>/{service}", view, name=f"{name}{'-of-project' if project else ''}")
    for project in ("", "<slug:slug>/")
    for service, view, name in (
        ("mlflow-artifacts/artifacts", views.files, "files"),
        ("mlflow-artifacts/artifacts/<path:path>", views.file, "file"),
        ("mlflow/<path:name>", views.operate, "operation"),
    )
]
