from django.apps import AppConfig


class TimelineConfig(AppConfig):
    """Timelines of work: lanes, waits, the anatomy of an iteration."""

    name = "webapp.timeline"
