from django.apps import AppConfig


class CompareConfig(AppConfig):
    """Runs side by side, and reports about them."""

    name = "webapp.compare"
