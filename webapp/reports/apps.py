from django.apps import AppConfig


class ReportsConfig(AppConfig):
    """Reports of users about runs, with charts and transcripts."""

    name = "webapp.reports"
