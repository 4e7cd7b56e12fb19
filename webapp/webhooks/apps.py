from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "webapp.webhooks"

    def ready(self) -> None:
        """Connects the receivers of signals."""
        from webapp.webhooks.signals import connect

        connect()
