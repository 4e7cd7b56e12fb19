from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "webapp.webhooks"

    def ready(self) -> None:
        """Connect the signal handlers."""
        from webapp.webhooks.noticing import connect

        connect()
