from django.apps import AppConfig


class CompareConfig(AppConfig):
    """Runs side by side."""

    name = "webapp.compare"
