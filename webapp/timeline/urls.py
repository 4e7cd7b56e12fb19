"""URLs of the timeline pages, below /runs/."""

from django.urls import path

from webapp.timeline import views

app_name = "timeline"
urlpatterns = [path("<str:run_id>/timeline/", views.timeline_page, name="page")]
