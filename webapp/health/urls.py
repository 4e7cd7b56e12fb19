"""URLs of the health pages, below /runs/."""

from django.urls import path

from webapp.health import views

app_name = "health"
urlpatterns = [
    path("<str:run_id>/health/", views.health_page, name="page"),
    path("<str:run_id>/health/<int:pk>/fork/", views.finding_fork_act, name="fork"),
    path("<str:run_id>/health/<int:pk>/<str:act>/", views.finding_move, name="act"),
]
