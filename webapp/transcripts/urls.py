"""URLs of the transcript pages, below /runs/."""

from django.urls import path

from webapp.transcripts import episode_views, views

app_name = "transcripts"
urlpatterns = [
    path("<str:run_id>/transcripts/", views.episodes_page, name="list"),
    path("<str:run_id>/transcripts/export/", views.episodes_export, name="export"),
    path("<str:run_id>/transcripts/table/", views.table_page, name="table"),
    path("<str:run_id>/transcripts/table.<str:form>", views.table_export, name="table-export"),
    path("<str:run_id>/transcripts/curve/", views.curve_page, name="curve"),
    path("<str:run_id>/transcripts/curve.csv", views.curve_csv, name="curve-csv"),
    path("<str:run_id>/transcripts/queries/", views.query_write, name="query-save"),
    path("<str:run_id>/transcripts/queries/<int:pk>/remove/", views.query_drop, name="query-remove"),
    path("<str:run_id>/probes/", episode_views.probes_page, name="probes"),
    path("<str:run_id>/episodes/<int:pk>/diff/", episode_views.difference_page, name="diff"),
    path("<str:run_id>/episodes/<int:pk>/tree/", episode_views.tree_page, name="tree"),
    path("<str:run_id>/episodes/<int:pk>/", episode_views.episode_page, name="detail"),
    path("<str:run_id>/episodes/<int:pk>/notes/", episode_views.note_write, name="note"),
    path(
        "<str:run_id>/episodes/<int:pk>/notes/<int:note>/remove/", episode_views.note_drop, name="note-remove"
    ),
]
