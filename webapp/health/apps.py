from django.apps import AppConfig


class HealthConfig(AppConfig):
    """Health rules, and the findings they make."""

    name = "webapp.health"
