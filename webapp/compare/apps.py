from django.apps import AppConfig


class CompareConfig(AppConfig):
    """Comparison of runs."""

    name = "webapp.compare"
