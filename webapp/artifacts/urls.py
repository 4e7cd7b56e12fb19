"""URLs of the artifact pages."""

from django.urls import path

from webapp.artifacts import views

app_name = "artifacts"
urlpatterns = [
    path("artifacts/", views.artifacts_page, name="list"),
    path("artifacts/<int:pk>/", views.artifact_page, name="page"),
    path("artifacts/<int:pk>/aliases/", views.alias_act, name="alias"),
    path("artifacts/<int:pk>/prune/", views.artifact_prune, name="prune"),
    path("artifacts/<int:pk>/versions/<str:version>/image/<path:path>", views.image, name="image"),
    path("artifacts/<int:pk>/versions/<str:version>/delete/", views.version_delete, name="version-delete"),
    path("artifacts/<int:pk>/versions/<str:version>/files/<path:path>", views.file_download, name="file"),
    path("runs/<str:run_id>/artifacts/", views.run_artifacts_page, name="run"),
]
