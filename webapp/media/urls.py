"""URL of the media page, below /runs/."""

from django.urls import path

from webapp.media import views

app_name = "media"
urlpatterns = [path("<str:run_id>/media/", views.media_page, name="page")]
