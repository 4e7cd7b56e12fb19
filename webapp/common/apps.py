from importlib import import_module

from django.apps import AppConfig


class CommonConfig(AppConfig):
    name = "webapp.common"

    def ready(self) -> None:
        """Make our Celery application the current one: without it tasks are sent nowhere, without an error."""
        import_module("webapp.config.celery")
