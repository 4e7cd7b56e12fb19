"""Addresses of the API of runs, below /api/v1/."""

from django.urls import path

from webapp.runs import client_api, list_api, marks_api, saved_view_api

urlpatterns = [
    path("client-runs/", client_api.ClientRuns.as_view(), name="client-runs"),
    path("bulk/", list_api.BulkAct.as_view(), name="bulk"),
    path("families/", list_api.Families.as_view(), name="families"),
    path("views/", saved_view_api.SavedViews.as_view(), name="views"),
    path("views/<int:pk>/", saved_view_api.SavedViewDetail.as_view(), name="view"),
    path("columns/complete/", list_api.ColumnCompletion.as_view(), name="columns-complete"),
    path("filter/complete/", list_api.FilterCompletion.as_view(), name="filter-complete"),
    path("runs/<str:run_id>/marks/", marks_api.RunMarks.as_view(), name="run-marks"),
    path("runs/<str:run_id>/cost/", marks_api.RunCost.as_view(), name="run-cost"),
    path("runs/<str:run_id>/notes/", marks_api.RunNotes.as_view(), name="run-notes"),
    path(
        "runs/<str:run_id>/notes/<int:pk>/change/", marks_api.RunNoteChange.as_view(), name="run-note-change"
    ),
    path(
        "runs/<str:run_id>/notes/<int:pk>/remove/", marks_api.RunNoteRemove.as_view(), name="run-note-remove"
    ),
]
