"""URLs below /mlflow/: the default project's, and those of a project by its slug.

The pages are those that MLflow's clients print: /mlflow/#/experiments/1/runs/ID. static/js/runs.js reads the fragment. Operations without
/mlflow are those of a tracking address that is only the server's.
"""

from django.urls import path

from webapp.mlflow import views

app_name = "mlflow"
urlpatterns = [
    path("mlflow/", views.page, name="page"),
    path("mlflow/<slug:slug>/", views.page, name="page-of-project"),
] + [
    path(f"{start}api/<str:version>/{service}", view, name=f"{name}{suffix}")
    for start, suffix in (("mlflow/", ""), ("mlflow/<slug:slug>/", "-of-project"), ("", "-of-server"))
    for service, view, name in (
        ("mlflow-artifacts/artifacts", views.files, "files"),
        ("mlflow-artifacts/artifacts/<path:path>", views.file, "file"),
        ("mlflow/<path:name>", views.operate, "operation"),
    )
]
