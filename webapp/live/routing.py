"""Websocket addresses."""

from django.urls import path, re_path

from webapp.live.consumers import NowhereConsumer, RunConsumer, RunsConsumer

websocket_urlpatterns = [
    path("ws/runs/", RunsConsumer.as_asgi()),
    path("ws/runs/<str:run_id>/", RunConsumer.as_asgi()),
    re_path(r"", NowhereConsumer.as_asgi()),
]
