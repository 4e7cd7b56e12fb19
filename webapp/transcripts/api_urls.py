"""Addresses of the API of transcripts, below /api/v1/."""

from django.urls import path

from webapp.transcripts import api

urlpatterns = [
    path("runs/<str:run_id>/episodes/export/", api.EpisodeExport.as_view(), name="episodes-export"),
    path("episodes/<int:pk>/notes/", api.EpisodeNotes.as_view(), name="episode-notes"),
    path(
        "episodes/<int:pk>/notes/<int:note>/remove/",
        api.EpisodeNoteRemove.as_view(),
        name="episode-note-remove",
    ),
]
