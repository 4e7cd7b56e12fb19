from django.apps import AppConfig


class TimelineConfig(AppConfig):
    """Who worked when: lanes, waits, the anatomy of an iteration."""

    name = "webapp.timeline"
