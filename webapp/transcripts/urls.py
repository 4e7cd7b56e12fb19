"""URLs of the transcript pages, below /runs/."""

from django.urls import path

from webapp.transcripts import views, views_groups, views_probes, views_queries

app_name = "transcripts"
urlpatterns = [
    path("<str:run_id>/transcripts/", views.episodes_page, name="list"),
    path("<str:run_id>/transcripts/export/", views.episodes_export, name="export"),
    path("<str:run_id>/transcripts/table/", views_queries.table_page, name="table"),
    path("<str:run_id>/transcripts/table.<str:form>", views_queries.table_export, name="table-export"),
    path("<str:run_id>/transcripts/curve/", views_queries.curve_page, name="curve"),
    path("<str:run_id>/transcripts/curve.csv", views_queries.curve_csv, name="curve-csv"),
    path("<str:run_id>/transcripts/queries/", views_queries.query_write, name="query-save"),
    path("<str:run_id>/transcripts/queries/<int:pk>/remove/", views_queries.query_drop, name="query-remove"),
    path("<str:run_id>/probes/", views_probes.probes_page, name="probes"),
    path("<str:run_id>/episodes/<int:pk>/diff/", views_probes.difference_page, name="diff"),
    path("<str:run_id>/episodes/<int:pk>/tree/", views_groups.tree_page, name="tree"),
    path("<str:run_id>/episodes/<int:pk>/", views.episode_page, name="detail"),
    path("<str:run_id>/episodes/<int:pk>/notes/", views.note_write, name="note"),
    path("<str:run_id>/episodes/<int:pk>/notes/<int:note>/remove/", views.note_drop, name="note-remove"),
]
