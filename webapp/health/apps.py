from django.apps import AppConfig


class HealthConfig(AppConfig):
    """Health rules and their findings."""

    name = "webapp.health"
