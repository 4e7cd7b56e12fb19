"""URLs of the transcript pages, below /runs/."""

from django.urls import path

from webapp.transcripts import views, views_groups, views_probes

app_name = "transcripts"
urlpatterns = [
    path("<str:run_id>/transcripts/", views.episodes_page, name="list"),
    path("<str:run_id>/transcripts/export/", views.episodes_export, name="export"),
    path("<str:run_id>/probes/", views_probes.probes_page, name="probes"),
    path("<str:run_id>/episodes/<int:pk>/diff/", views_probes.difference_page, name="diff"),
    path("<str:run_id>/episodes/<int:pk>/tree/", views_groups.tree_page, name="tree"),
    path("<str:run_id>/episodes/<int:pk>/", views.episode_page, name="detail"),
    path("<str:run_id>/episodes/<int:pk>/notes/", views.note_write, name="note"),
    path("<str:run_id>/episodes/<int:pk>/notes/<int:note>/remove/", views.note_drop, name="note-remove"),
]
