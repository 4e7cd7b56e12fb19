"""URLs of the run pages."""

from django.urls import path

from webapp.run_pages import views
from webapp.run_table import views as list_views

app_name = "runs"
urlpatterns = [
    path("", list_views.runs_page, name="list"),
    path("bulk/", list_views.bulk_act, name="bulk"),
    path("views/", list_views.view_save_act, name="view-save"),
    path("views/<int:pk>/<slug:act>/", list_views.view_act, name="view-act"),
    path("<str:run_id>/", views.overview_page, name="detail"),
    path("<str:run_id>/curves/", views.curves_page, name="curves"),
    path("<str:run_id>/curves/<slug:chart>/", views.chart_page, name="chart"),
    path("<str:run_id>/checkpoints/", views.checkpoints_page, name="checkpoints"),
    path("<str:run_id>/checkpoints/prune/", views.checkpoints_prune_act, name="checkpoints-prune"),
    path("<str:run_id>/checkpoints/<int:pk>/<slug:act>/", views.checkpoint_act, name="checkpoint-act"),
    path("<str:run_id>/logs/", views.logs_page, name="logs"),
    path("<str:run_id>/config/", views.config_page, name="config"),
    path("<str:run_id>/notes/", views.run_note_act, name="note"),
    path("<str:run_id>/notes/<int:pk>/change/", views.run_note_act, name="note-change"),
    path("<str:run_id>/notes/<int:pk>/remove/", views.run_note_remove_act, name="note-remove"),
    path("<str:run_id>/headline/", views.headline_act, name="headline"),
    path("<str:run_id>/edit/", views.run_edit_act, name="edit"),
    path("<str:run_id>/act/<slug:act>/", views.run_act, name="act"),
]
