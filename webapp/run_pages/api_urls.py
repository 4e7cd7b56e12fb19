"""URLs of the API of run pages, below /api/v1/."""

from django.urls import path

from webapp.run_pages import api

urlpatterns = [
    path("runs/<str:run_id>/marks/", api.RunMarks.as_view(), name="run-marks"),
    path("runs/<str:run_id>/cost/", api.RunCost.as_view(), name="run-cost"),
    path("runs/<str:run_id>/notes/", api.RunNotes.as_view(), name="run-notes"),
    path("runs/<str:run_id>/notes/<int:pk>/change/", api.RunNoteChange.as_view(), name="run-note-change"),
    path("runs/<str:run_id>/notes/<int:pk>/remove/", api.RunNoteRemove.as_view(), name="run-note-remove"),
]
