"""URLs below /mlflow/: the default project's, and those of a project by its slug.

The pages are those that MLflow's clients print: /mlflow/#/experiments/1/runs/ID. static/js/runs.js reads the fragment.
"""

from django.urls import path

from webapp.mlflow import views

app_name = "mlflow"
urlpatterns = [
    path("", views.page, name="page"),
    path("<slug:slug>/", views.page, name="page-of-project"),
] + [
    path(f"{project}api/<str:version>/{service}", view, name=f"{name}{'-of-project' if project else ''}")
    for project in ("", "<slug:slug>/")
    for service, view, name in (
        ("mlflow-artifacts/artifacts", views.files, "files"),
        ("mlflow-artifacts/artifacts/<path:path>", views.file, "file"),
        ("mlflow/<path:name>", views.operate, "operation"),
    )
]
