"""Websocket addresses."""

from django.urls import path

from webapp.live.consumers import RunConsumer, RunsConsumer

websocket_urlpatterns = [
    path("ws/runs/", RunsConsumer.as_asgi()),
    path("ws/runs/<str:run_id>/", RunConsumer.as_asgi()),
]
