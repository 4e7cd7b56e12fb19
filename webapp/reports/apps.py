from django.apps import AppConfig


class ReportsConfig(AppConfig):
    """What people write about runs, with charts and transcripts in it."""

    name = "webapp.reports"
