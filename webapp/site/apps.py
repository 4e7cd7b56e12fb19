from importlib import import_module

from django.apps import AppConfig


class SiteConfig(AppConfig):
    name = "webapp.site"

    def ready(self) -> None:
        """Make our Celery application the current one: otherwise tasks are sent to an application without a broker."""
        import_module("webapp.site.celery")
