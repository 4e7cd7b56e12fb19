"""URLs of the media API, below /api/v1/."""

from django.urls import path

from webapp.media import api

urlpatterns = [
    path("runs/<str:run_id>/media/", api.RunMedia.as_view(), name="run-media"),
    path("runs/<str:run_id>/media/heat-map/", api.MediaHeatMap.as_view(), name="media-heat-map"),
    path("runs/<str:run_id>/media/<int:pk>/", api.MediaContent.as_view(), name="media-content"),
]
