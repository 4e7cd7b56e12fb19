"""URLs of the artifacts API, below /api/v1/."""

from django.urls import path

from webapp.artifacts import api

urlpatterns = [
    path("projects/<slug:slug>/artifacts/", api.ProjectArtifacts.as_view(), name="artifacts"),
    path("projects/<slug:slug>/artifacts/prune/", api.PruneArtifacts.as_view(), name="artifacts-prune"),
    path(
        "projects/<slug:slug>/artifact-contents/<str:sha256>/",
        api.ArtifactContent.as_view(),
        name="artifact-content",
    ),
    path("runs/<str:run_id>/artifacts/", api.RunArtifacts.as_view(), name="run-artifacts"),
    path("runs/<str:run_id>/artifacts/use/", api.RunUses.as_view(), name="run-artifact-use"),
    path("artifacts/<int:pk>/", api.ArtifactDetail.as_view(), name="artifact"),
    path("artifacts/<int:pk>/aliases/", api.Aliases.as_view(), name="artifact-aliases"),
    path("artifacts/<int:pk>/versions/<str:version>/", api.VersionDetail.as_view(), name="artifact-version"),
    path(
        "artifacts/<int:pk>/versions/<str:version>/files/<path:path>",
        api.VersionFile.as_view(),
        name="artifact-file",
    ),
]
