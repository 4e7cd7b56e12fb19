from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "webapp.webhooks"

    def ready(self) -> None:
        """Notice what happens from now on."""
        from webapp.webhooks.noticing import connect

        connect()
