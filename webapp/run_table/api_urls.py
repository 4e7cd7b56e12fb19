"""URLs of the API of the runs table, below /api/v1/."""

from django.urls import path

from webapp.run_table import api, saved_view_api

urlpatterns = [
    path("runs/", api.RunList.as_view(), name="runs"),
    path("bulk/", api.BulkAct.as_view(), name="bulk"),
    path("families/", api.Families.as_view(), name="families"),
    path("views/", saved_view_api.SavedViews.as_view(), name="views"),
    path("views/<int:pk>/", saved_view_api.SavedViewDetail.as_view(), name="view"),
    path("columns/complete/", api.ColumnCompletion.as_view(), name="columns-complete"),
    path("filter/complete/", api.FilterCompletion.as_view(), name="filter-complete"),
]
